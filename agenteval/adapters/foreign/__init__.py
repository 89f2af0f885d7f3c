"""Files of other harnesses → results."""
