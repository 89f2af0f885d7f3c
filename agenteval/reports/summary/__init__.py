"""The forms of short views of results, for ae-summarize."""
