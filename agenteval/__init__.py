"""agenteval: small executables that evaluate command-line AI agents."""

__version__ = "0.2.0"
