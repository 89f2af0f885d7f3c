ae-format -f csv < "$CASE/csv-ungraded.in"
