ae-score -f markdown --alpha 1 --beta 0 | grep -v '^- Made:'
