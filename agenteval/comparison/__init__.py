"""Runs → a comparison report: statistics, pass@k, rows, pairing."""
