ae-extract -s text --keep-raw 2>&1; echo "exit $?"
