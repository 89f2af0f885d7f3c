"""A wiki and a model that need no network: articles behind the MediaWiki API, rules in place of a chat model."""
