"""A result → a graded result: graders, hosts, the judge, sources, trials."""
