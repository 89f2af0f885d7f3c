ae-format
