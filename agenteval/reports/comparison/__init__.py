"""The forms of comparisons of runs, for ae-compare."""
