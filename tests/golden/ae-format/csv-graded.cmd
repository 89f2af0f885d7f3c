ae-format -f csv
