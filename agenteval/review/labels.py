"""A person's labels override the verdicts of graders; the record keeps what they override.

Data flow: labels by the name of the answer (`ID`, or `ID#N` for a trial) and a graded record → the record with
`humanVerdict` and the `score` that follows from the label. Labels that cannot be used are counted.
"""

from collections import Counter

from agenteval.grading.verdict import (
    HUMAN_VERDICT,
    has_failed,
    result_as_trial,
    trial_as_result,
    with_trials,
    without,
    without_human_verdict,
)
from agenteval.review.calibration import Labels
from agenteval.wire.calibration import Label
from agenteval.wire.records import Record
from agenteval.wire.row import holds_trials

NO_NOTE = "labelled by a person"


class LabelRules:
    """Applies labels to the graded records that they are for."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.done: Counter[str] = Counter()
        self._seen: set[str] = set()

    def __call__(self, record: Record) -> Record:
        """Returns the graded record with its labels applied; the pass rates of trials are computed again."""
        record = without_human_verdict(record)
        if not holds_trials(record):
            return self._labelled(record, record["id"])
        trials = [
            result_as_trial(self._labelled(trial_as_result(trial), f"{record['id']}#{trial.get('trialNum', at)}"))
            for at, trial in enumerate(record["trials"], 1)
        ]
        return with_trials(record, trials)

    def _labelled(self, answer: Record, name: str) -> Record:
        label = self.labels.get(name)
        if label is None:
            return answer
        self._seen.add(name)
        if not label.is_for(str(answer.get("output") or "")):
            self.done["stale"] += 1
        elif label.verdict is None:
            self.done["ambiguous"] += 1
        elif has_failed(answer) and not answer.get("gradedFailed"):
            self.done["failed"] += 1
        else:
            return self._decided(answer, label, label.verdict)
        return answer

    def _decided(self, answer: Record, label: Label, verdict: bool) -> Record:
        self.done["used"] += 1
        human: Record = {"pass": verdict} | ({"note": label.note} if label.note else {})
        given = answer.get("score") if isinstance(answer.get("score"), dict) else None
        if given is not None and not answer.get("graderError") and given.get("pass") is verdict:
            return answer | {HUMAN_VERDICT: human}
        self.done["overruled"] += 1
        score: Record = {"pass": verdict, "score": float(verdict), "reasoning": label.note or NO_NOTE}
        if given is not None:
            human["overrules"] = without(given, ("outcome",))
            score |= {"outcome": given["outcome"]} if "outcome" in given else {}
        if answer.get("graderError"):
            human["overrules"] = {"graderError": answer["graderError"]}
        human.setdefault("overrules", {})
        return without(answer, ("graderError",)) | {"score": score, HUMAN_VERDICT: human}

    def report(self) -> str:
        """Returns one line that says how many labels were used, and why others were not."""
        done = self.done
        unknown = len(self.labels) - len(self._seen)
        left_out = [
            (done["ambiguous"], "undecided"),
            (done["stale"], "for an output that has changed"),
            (done["failed"], "for an agent that failed"),
            (unknown, "for an id that is not among the records"),
        ]
        parts = ", ".join(f"{count:,} {why}" for count, why in left_out if count)
        total = (
            f"{done['used']:,} of {len(self.labels):,} labels used, {done['overruled']:,} of them overrule the graders"
        )
        return total + (f"; left out: {parts}" if parts else "")
