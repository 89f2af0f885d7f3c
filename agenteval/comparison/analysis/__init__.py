"""From the rows of runs to the parts of a report: differences, verdicts, usage, categories, and the gate."""
