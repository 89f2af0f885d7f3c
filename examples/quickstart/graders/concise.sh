#!/bin/sh
# Is the answer short? Any executable is a grader: one JSON object on stdin, the verdict on stdout.
# Try it alone: echo '{"output": "forty-two"}' | graders/concise.sh
exec jq -c --argjson limit "${CONCISE_WORDS:-25}" '
  ((.output // "") | [scan("\\S+")] | length) as $words
  | {
      pass: ($words > 0 and $words <= $limit),
      score: (if $words == 0 then 0 elif $words <= $limit then 1 else $limit / $words end),
      reasoning: "\($words) words, at most \($limit) allowed"
    }'
