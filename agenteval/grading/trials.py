"""The trials of a prompt: results → trials → the record with how often the prompt passes."""

from __future__ import annotations

from agenteval.statistics.samples import pass_at, pass_exp, plug_in_pass_at_k, plug_in_pass_exp_k
from agenteval.wire.records import Record

# What a trial keeps of its result; the prompt's own fields stand once, in the record.
KEPT = ("output", "trajectory", "toolErrors", "timing", "errors", "attempts", "retried", "cwd")
VERDICT = ("pass", "score", "reasoning", "outcome")
OF_ONE_RUN = ("exitCode", "signal", "timedOut", "trajectoryRichness", "workspaceDir", "workspaceBaseline")


def trial_of(result: Record, number: int, *, graded: bool) -> Record:
    """Returns a result as a trial; one that a grader could not grade has no verdict."""
    trial: Record = {"trialNum": number, "output": result["output"], "trajectory": result["trajectory"]}
    trial["duration"] = result["timing"]["total"]
    trial |= {field: result[field] for field in KEPT if field in result}
    trial |= {field: value for field in OF_ONE_RUN if (value := result["metadata"].get(field)) is not None}
    if graded:
        score = result.get("score") or {}
        trial |= {field: score[field] for field in VERDICT if field in score}
        trial |= {field: result[field] for field in ("scores", "gradedFailed", "graderError") if field in result}
    return trial


def trials_record(prompt: Record, trials: list[Record], k: int, metadata: Record) -> Record:
    """Returns a prompt's record: fields in the order of the contract, then its unknown ones."""
    record: Record = {"id": prompt["id"], "input": prompt["input"]}
    if "hint" in prompt:
        record["hint"] = prompt["hint"]
    record["k"] = k
    record |= pass_fields(trials, k)
    record["trials"] = sorted(trials, key=lambda trial: trial["trialNum"])
    record["metadata"] = {**(prompt.get("metadata") or {}), **metadata}
    return record | {field: value for field, value in prompt.items() if field not in record}


def pass_fields(trials: list[Record], k: int) -> Record:
    """How often the prompt passes, over the trials that have a verdict; nothing where none was graded."""
    verdicts = [trial["pass"] for trial in trials if "pass" in trial and not trial.get("graderError")]
    unknown = sum(bool(trial.get("graderError")) for trial in trials)
    fields: Record = {}
    n, passes = len(verdicts), sum(verdicts)
    if n:
        rate = passes / n
        fields |= {"passRate": rate, "passAtK": plug_in_pass_at_k(rate, k), "passExpK": plug_in_pass_exp_k(rate, k)}
        fields["passAt"] = {str(j): pass_at(n, passes, j) for j in range(1, k + 1)}
        fields["passExp"] = {str(j): pass_exp(n, passes, j) for j in range(1, k + 1)}
    return fields | ({"graderErrors": unknown} if unknown else {})
