"""Numbers → intervals, tests, plans and ranks: pure functions that know no records."""
