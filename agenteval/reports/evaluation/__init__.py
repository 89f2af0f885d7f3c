"""The forms of evaluations, for ae-score."""
