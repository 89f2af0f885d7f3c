ae-extract -s text --keep-raw 2>messages; echo "exit $?"; cat messages
