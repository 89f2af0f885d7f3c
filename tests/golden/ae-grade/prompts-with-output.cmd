ae-grade -g 'ae-grader-hint --regex -i'
