ae-summarize --markdown --for-web
