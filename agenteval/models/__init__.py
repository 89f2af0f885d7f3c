"""The OpenAI chat API: requests, retries, tokens."""
