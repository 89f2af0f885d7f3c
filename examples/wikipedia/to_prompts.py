"""The ground truth as prompts, one per line. With jq it is:

jq -c '.[] | {id, input: .question, reference, expected_sources, metadata: {difficulty}}' ground_truth.json
"""

from __future__ import annotations

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    questions = json.load(file)
for number, entry in enumerate(questions, 1):
    prompt = {"id": entry.get("id", f"q{number:02}"), "input": entry["question"]}
    prompt |= {name: entry[name] for name in ("reference", "expected_sources") if name in entry}
    prompt["metadata"] = {"difficulty": entry.get("difficulty", "easy")}
    print(json.dumps(prompt, ensure_ascii=False))
