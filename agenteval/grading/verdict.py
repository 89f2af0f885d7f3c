"""Checks and combines graders' answers and adds them to the record; the trials of a prompt and their pass rates."""

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace

from agenteval.errors import BadRecord
from agenteval.statistics.samples import pass_at, pass_exp, plug_in_pass_at_k, plug_in_pass_exp_k
from agenteval.streams.console import Ending
from agenteval.streams.jsonl import decode
from agenteval.wire.records import (
    AGENT_FAILED,
    TRIALS_FIELDS,
    VERDICT_FIELDS,
    Gradable,
    GraderAnswer,
    NamedVerdict,
    Record,
    Trial,
)
from agenteval.wire.row import combine, fields_of_kind, holds_trials
from agenteval.wire.validation import check

ADDED = frozenset(VERDICT_FIELDS)
REPLACED = ADDED - {"scores"}  # which keeps the verdicts of other graders
HOW_IT_COUNTS = frozenset(("weight", "informational"))  # set by us, not by the grader
STDERR_LINES = 5
STDERR_LENGTH = 500
# The fields that a trial keeps of its result; the prompt's own fields are in the record, once.
KEPT = ("output", "trajectory", "toolErrors", "timing", "errors", "attempts", "retried", "retriedUsage", "cwd")
HUMAN_VERDICT = "humanVerdict"
VERDICT = ("pass", "score", "reasoning", "outcome")  # the fields of `score` that a trial or a validation has
OF_GRADERS = frozenset((*VERDICT, *VERDICT_FIELDS))  # fields of a trial
RATES = frozenset(TRIALS_FIELDS) - {"k", "trials"}  # the pass rates of trials
OF_ONE_RUN = ("exitCode", "signal", "timedOut", "trajectoryRichness", "workspaceDir", "workspaceBaseline")


class GraderError(msgspec.Struct, frozen=True):
    """Why a grader could not grade a record."""

    reason: str
    reported: bool = False  # to the user, already


Verdict = Record | GraderError


def read_answer(answer: bytes, kind: type) -> Verdict:
    """Returns a grader's answer, checked; an invalid one becomes a GraderError."""
    if not answer.strip():
        return GraderError("it printed nothing")
    try:
        result = decode(answer)
    except BadRecord as error:
        shown = " ".join(answer[:100].decode("utf-8", "replace").split())
        return GraderError(f"its answer is {error}: {shown}")
    if error_text := error_in(result):
        return GraderError(error_text)
    try:
        check(result, kind)
    except BadRecord as error:
        advice = ""
        if kind is GraderAnswer:
            given = result.get("score") if isinstance(result, dict) else None
            advice = ' (return {"pass": true or false, "score": 0.0 to 1.0}'
            if isinstance(given, int | float) and 1 < given <= 100:
                advice += f": {given / 100:g} instead of {given}"
            advice += ")"
        return GraderError(f"its answer is not a grader result: {error}{advice}")
    if kind is GraderAnswer and "score" not in result:
        return {"pass": result["pass"], "score": float(result["pass"]), **result}
    return result  # type: ignore[no-any-return]


def stderr_lines(printed: bytes) -> list[str]:
    """Returns the lines of what a grader has printed on stderr, without blank ones."""
    lines = printed.decode("utf-8", "replace").splitlines()
    return [line.rstrip() for line in lines if line.strip()]


def with_stderr(verdict: Verdict, printed: bytes) -> Verdict:
    """Returns the verdict; an error gets the last lines of stderr, unless it has them already."""
    if not isinstance(verdict, GraderError):
        return verdict
    lines = [line.strip() for line in stderr_lines(printed)[-STDERR_LINES:]]
    if not lines or (len(lines) == 1 and lines[0][:300] in verdict.reason):
        return verdict
    tail = " | ".join(lines)[-STDERR_LENGTH:].replace("; ", ", ")  # "; " separates graders
    return replace(verdict, reason=f"{verdict.reason} (stderr: {tail})")


def error_in(answer: Any) -> str | None:
    """Returns the text of an answer of the form `{"error": …}`; None for any other answer."""
    error = answer.get("error") if isinstance(answer, dict) and "pass" not in answer else None
    return error if isinstance(error, str) else None


def ungraded(record: Record) -> Record:
    """Returns the record without the fields that graders add."""
    return without(record, ADDED)


def without_verdicts(record: Record) -> Record:
    """Returns a record or trials without verdicts and the digests of graders: what was graded."""
    metadata = without(record.get("metadata") or {}, ("graderDigests",))
    answer = without(record, ADDED | {"metadata"}) | ({"metadata": metadata} if metadata else {})
    if isinstance(record.get("trials"), list):
        answer = without(answer, RATES)
        answer["trials"] = [without(trial, OF_GRADERS) for trial in record["trials"]]
    return answer


def without(record: Record, fields: Collection[str]) -> Record:
    """Returns the record without some fields."""
    return {name: value for name, value in record.items() if name not in fields}


def passed(record: Record) -> bool:
    """Returns whether the record was graded and passes."""
    score = record.get("score")
    return isinstance(score, dict) and score.get("pass") is True


def has_failed(record: Record) -> bool:
    """Returns whether the agent failed."""
    return bool(record.get("errors") or record.get("error"))


def ending_of(record: Record, *, graded: bool) -> Ending | None:
    """Returns what went wrong with a result, or None; progress counts agents, records and graders separately."""
    if has_failed(record) and not record.get("gradedFailed"):
        return Ending.AGENT_FAILED
    if record.get("graderError"):
        return Ending.GRADER_ERROR
    return Ending.NOT_PASSED if graded and not passed(record) else None


def failed_agent(record: Record) -> Record:
    """Returns the record of a failed agent with score 0, without asking a grader."""
    errors = record.get("errors") or [record.get("error") or "unknown error"]
    return ungraded(record) | {"score": {"pass": False, "score": 0.0, "reasoning": f"{AGENT_FAILED}{errors[0]}"}}


def with_verdicts(
    record: Record, verdicts: dict[str, Verdict], *, keep_each: bool, counting: Mapping[str, Record] | None = None
) -> Record:
    """Returns the record with `score`, or with `graderError` if one erred; `keep_each` adds `scores` by name.

    `counting` says by name how a verdict counts: its weight, or that it is informational. An informational verdict is
    only added to `scores`; if there is no other verdict, the record keeps its own.
    """
    counting = counting or {}
    informational = {name for name, how in counting.items() if how.get("informational")}
    results = {
        name: without(verdict, HOW_IT_COUNTS) | counting.get(name, {})
        for name, verdict in verdicts.items()
        if not isinstance(verdict, GraderError)
    }
    errors = [
        f"{name}: {verdict.reason}" if keep_each else verdict.reason
        for name, verdict in verdicts.items()
        if isinstance(verdict, GraderError) and name not in informational
    ]
    earlier: Record = {}
    if keep_each:
        given = record.get("scores")
        for name, one in given.items() if isinstance(given, dict) else ():
            with suppress(BadRecord):  # a field of the user's own
                check(one, NamedVerdict)
                earlier[name] = one
        results = {name: verdict for name, verdict in earlier.items() if name not in verdicts} | results
        errors += _errors_of_others(record.get("graderError"), verdicts)
    counted = [verdict for verdict in results.values() if not verdict.get("informational")]
    untouched = not (counted or errors) and not any(
        name in earlier and not earlier[name].get("informational") for name in informational
    )
    graded = without(record, () if untouched else REPLACED)
    if has_failed(record) and counted:
        graded["gradedFailed"] = True  # as requested; without this field, readers would ignore its score
    if keep_each and results:
        graded["scores"] = results
    if errors:
        return graded | {"graderError": "; ".join(errors)}
    if counted:
        graded["score"] = combine(counted)
        if "outcome" in graded["score"]:
            graded["outcome"] = graded["score"]["outcome"]
    return graded


def _errors_of_others(earlier: object, verdicts: dict[str, Verdict]) -> list[str]:
    """Returns the errors of graders with other names in an earlier run, whose verdicts are still missing."""
    parts = earlier.split("; ") if isinstance(earlier, str) else []
    named = [part for part in parts if re.match(r"[A-Za-z][\w-]*: ", part)]
    return [part for part in named if part.partition(": ")[0] not in verdicts]


# --- trials -------------------------------------------------------------------------------------


def check_gradable(record: Record) -> None:
    """Raises BadRecord if the record is neither a result nor a record of trials."""
    if holds_trials(record):
        check(fields_of_kind(record), Trial)
        if not record["trials"]:
            raise BadRecord('"trials" is empty: there is no answer to grade')
    else:
        check(record, Gradable)


def answers_in(record: Record) -> list[Record]:
    """Returns the results in a record: the record itself, or each of its trials as a result.

    A trial gets the prompt's fields, which are in the record once, and its part of the metadata.
    """
    if not holds_trials(record):
        return [record]
    prompt, answers = without(record, TRIALS_FIELDS), []
    for trial in record["trials"]:
        own = {field: trial[field] for field in OF_ONE_RUN if field in trial}
        metadata = {**(record.get("metadata") or {}), **own}
        answers.append({**prompt, "metadata": metadata, **without(trial, (*VERDICT, *OF_ONE_RUN, "duration"))})
    return answers


def with_graded(record: Record, results: Sequence[Record]) -> Record:
    """Returns the record with its graded answers; the pass rates of trials are computed again."""
    if not holds_trials(record):
        return results[0]
    trials = [
        without(trial, OF_GRADERS) | _verdict_fields(result)
        for trial, result in zip(record["trials"], results, strict=True)
    ]
    digests = results[0]["metadata"]["graderDigests"]
    return with_trials(record, trials) | {"metadata": {**(record.get("metadata") or {}), "graderDigests": digests}}


def with_trials(record: Record, trials: list[Record]) -> Record:
    """Returns the record with these trials and their pass rates."""
    rates = pass_fields(trials, int(record["k"]))
    changed: Record = {}
    for field, value in without(record, RATES).items():
        changed |= {**rates, "trials": trials} if field == "trials" else {field: value}
    return changed


def trial_as_result(trial: Record) -> Record:
    """Returns a trial with its verdict moved from its own fields to `score`, as in a result."""
    verdict = {field: trial[field] for field in VERDICT if field in trial}
    return without(trial, VERDICT) | ({"score": verdict} if "pass" in verdict else verdict)


def result_as_trial(result: Record) -> Record:
    """Returns the trial from which `trial_as_result` made a result."""
    verdict = result.get("score")
    return without(result, ("score",)) | verdict if isinstance(verdict, dict) else result


def without_human_verdict(record: Record) -> Record:
    """Returns the record with its graders' verdicts, without the labels that a person applied."""
    if holds_trials(record):
        trials = record["trials"]
        labelled = isinstance(trials, list) and all(isinstance(trial, dict) for trial in trials)
        if not labelled or not any(HUMAN_VERDICT in trial for trial in trials):
            return record
        answers = [without_human_verdict(trial_as_result(trial)) for trial in record["trials"]]
        return with_trials(record, [result_as_trial(answer) for answer in answers])
    human, score = record.get(HUMAN_VERDICT), record.get("score")
    if not isinstance(human, dict):
        return record
    earlier = human.get("overrules")
    record = without(record, (HUMAN_VERDICT,))
    if not isinstance(earlier, dict):
        return record
    if "graderError" in earlier or not earlier:
        return without(record, ("score",)) | earlier
    outcome = {"outcome": score["outcome"]} if isinstance(score, dict) and "outcome" in score else {}
    return record | {"score": earlier | outcome}


def trial_of(result: Record, number: int, *, graded: bool) -> Record:
    """Returns a result as a trial; without a verdict if a grader erred."""
    trial: Record = {"trialNum": number, "output": result["output"], "trajectory": result["trajectory"]}
    trial["duration"] = result["timing"]["total"]
    trial |= {field: result[field] for field in KEPT if field in result}
    trial |= {field: value for field in OF_ONE_RUN if (value := result["metadata"].get(field)) is not None}
    return trial | (_verdict_fields(result) if graded else {})


def _verdict_fields(result: Record) -> Record:
    """Returns the fields of a trial that come from graders, from its graded result."""
    score = result.get("score") or {}
    fields = {field: score[field] for field in VERDICT if field in score}
    return fields | {field: result[field] for field in ("scores", "gradedFailed", "graderError") if field in result}


def trials_record(prompt: Record, trials: list[Record], k: int, metadata: Record) -> Record:
    """Returns a prompt's record: fields in the order of the contract, then its unknown ones."""
    record: Record = {"id": prompt["id"], "input": prompt["input"]}
    if "hint" in prompt:
        record["hint"] = prompt["hint"]
    record["k"] = k
    record |= pass_fields(trials, k)
    record["trials"] = sorted(trials, key=lambda trial: trial["trialNum"])
    record["metadata"] = {**(prompt.get("metadata") or {}), **metadata}
    return record | {field: value for field, value in prompt.items() if field not in record and field not in RATES}


def pass_fields(trials: list[Record], k: int) -> Record:
    """Returns the pass rates over the trials that have a verdict; no fields if none was graded."""
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
