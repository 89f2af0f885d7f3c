ae-summarize --markdown
