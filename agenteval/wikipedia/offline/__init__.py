"""A wiki and a model that need no network: each answers on loopback, through the real one's HTTP interface."""
