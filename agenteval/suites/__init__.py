"""Suites of other harnesses → prompts."""
