ae-grade -g ae-grader-hint
