ae-format 2>messages; echo "exit $?"; cat messages
