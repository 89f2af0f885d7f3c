"""A directory per prompt, and git in it."""
