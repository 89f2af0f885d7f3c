ae-grade -g ae-grader-hint 2>messages; echo "exit $?"; cat messages
