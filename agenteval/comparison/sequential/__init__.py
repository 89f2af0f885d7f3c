"""Tests that may be looked at after every value: what is known, and when to stop."""
