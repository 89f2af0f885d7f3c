ae-format 2>&1; echo "exit $?"
