"""A record as a timeline on the terminal, for ae-show."""
