"""A person in the loop: calibration, labels, agreement, balance."""
