"""The forms of calibrations of a grader, for ae-calibrate."""
