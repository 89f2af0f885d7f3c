ae-grade -g 'pages=ae-grader-sources --from trajectory --k 2 --min-recall 1'
