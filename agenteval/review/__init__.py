"""Human review: calibration, labels, agreement, balance."""
