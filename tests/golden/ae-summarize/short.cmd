ae-summarize
