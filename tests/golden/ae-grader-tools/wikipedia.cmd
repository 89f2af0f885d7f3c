printf '%s' '{"type":"object","required":["answer","sources_used"]}' > answer.json
ae-grade -g "tools=ae-grader-tools --require wikipedia_search --min wikipedia_get_page=2 --order --max '*'=4 --json-schema answer.json"
