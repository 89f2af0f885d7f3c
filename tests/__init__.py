"""The tests of agenteval; tests/<package>/ mirrors agenteval/<package>/."""
