"""`make coverage`: do the intervals and tests hold what they promise? Simulated evaluations with a known truth."""
