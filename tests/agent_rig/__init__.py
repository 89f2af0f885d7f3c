"""`make test-agents`: runs real agents with ae-capture against a scripted model on loopback."""
