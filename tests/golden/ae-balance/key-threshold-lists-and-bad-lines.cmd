ae-balance --key tags.area --threshold 80 2>&1; echo exit $?
