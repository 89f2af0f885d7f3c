ae-grade -g sources=ae-grader-sources
