"""Thresholds on the figures of a run, for ae-gate."""
