cat > graded.jsonl
ae-calibrate graded.jsonl --all -o calibration.md
# A person ticks: the first is right, the second too; the third is wrong, says why.
awk '/^### /{n++} n<3 && /^- \[ \] \*\*pass/{sub(/\[ \]/, "[x]")} n==3 && /^- \[ \] \*\*fail/{sub(/\[ \]/, "[X]")} n==3 && /^Note:/{$0="Note: not blue"} {print}' calibration.md > ticked.md
ae-calibrate --read ticked.md -o labels.jsonl
cat labels.jsonl
ae-calibrate graded.jsonl --labels labels.jsonl -g 'ae-grader-hint -i' -f json
ae-calibrate graded.jsonl --labels labels.jsonl -g 'ae-grader-hint -i'
