"""What can be concluded from a sample: distributions, intervals, paired tests, several tests at once."""
