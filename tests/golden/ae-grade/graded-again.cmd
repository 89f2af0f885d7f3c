ae-grade -g ae-grader-hint | ae-grade -g 'ae-grader-hint --exact'
