"""`make test-agents`: the real agents, run by ae-capture against a scripted model on loopback."""
