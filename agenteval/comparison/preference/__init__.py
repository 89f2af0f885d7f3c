"""What a comparison grader prefers: its answers in both orders, wins and their test, strengths of many runs."""
