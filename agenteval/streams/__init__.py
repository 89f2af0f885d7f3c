"""Bytes in and out: JSONL, input, output, stderr, redaction, plain text."""
