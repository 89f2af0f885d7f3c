"""A prompt → a raw record: kinds of agents, sessions, the journal."""
