ae-validate-refs -g ae-grader-hint 2>messages; echo "exit $?"; cat messages
