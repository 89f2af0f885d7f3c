"""What must hold after an attempt and at the end of a round; each check returns lines that say what does not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from tests.chaos import agents
from tests.chaos.attempt import Attempt
from tests.chaos.plan import Plan
from tests.chaos.processes import left_over
from tests.support.tool import Record, run

PATIENCE = 10.0  # seconds until no process may be left; it is two where nothing else runs
SCHEMAS = {
    "ae-run": "RawOutput",
    "ae-capture": "CaptureResult",
    "ae-trials": "TrialResult",
    "ae-grade": "CaptureResult",
}
SHOWN = 300
LONGEST_TOTAL = 300_000  # milliseconds that an agent can have taken: no attempt is longer


@cache
def validator(name: str) -> Any:
    """Returns what checks a record against the wire format that ae-schemas exports."""
    schema = json.loads(run("ae-schemas", name, "--json").expect(0).out)
    return jsonschema.Draft202012Validator(schema)


# --- after each attempt ---------------------------------------------------------------------------


def check_attempt(done: Attempt, also: Collection[int], mark: str, folder: Path) -> Iterator[str]:
    """Yields what is wrong with the end of an attempt: its exit code, messages, processes, temporary files."""
    codes = {0, 1, *also}
    if done.code not in codes:
        yield f"exit code {done.code}, expected one of {sorted(codes)}"
    name = Path(done.command[0]).name
    for line in done.stderr.splitlines():
        if not line.startswith(f"{name}: ") or "Traceback" in line or "internal error" in line:
            yield f"a message that is none: {line[:SHOWN]!r}"
            break
    if left := left_over(mark, folder, PATIENCE):
        yield f"processes are left: {left}"
    if temporary := [path.name for path in folder.glob("tmp/*")]:
        yield f"temporary files are left: {temporary}"


def read_lines(content: bytes, *, may_be_cut: bool) -> tuple[list[Record], list[str]]:
    """Returns the records of an output and what is wrong with its lines; a crash may cut off the last one."""
    lines = content.split(b"\n")
    rest = lines.pop()
    problems = [f"a line is cut off: {rest[:SHOWN]!r}"] if rest and not may_be_cut else []
    records = []
    for line in lines:
        try:
            records.append(json.loads(line))
        except ValueError as error:
            problems.append(f"a line is no JSON ({error}): {line[:SHOWN]!r}")
    return records, problems


def _check_times(record: Record) -> Iterator[str]:
    """Yields times that cannot be: a clock that is set back or forward does not change how long something took."""
    timing, times = record.get("timing") or {}, record.get("lineTimes") or []
    total = timing.get("total", 0)
    if timing.get("end", 0) - timing.get("start", 0) != total or not 0 <= total <= LONGEST_TOTAL:
        yield f"record {record.get('id')}: its timing is {timing}"
    if times != sorted(times) or any(not 0 <= moment <= LONGEST_TOTAL for moment in times):
        yield f"record {record.get('id')}: its lineTimes are {times[:20]}"


def without_replaced(records: list[Record], erred: list[Record]) -> list[Record]:
    """Returns the records of a run that ended at once without those whose graders `erred` and have a later one."""
    last = {record.get("id"): at for at, record in enumerate(records)}
    return [record for at, record in enumerate(records) if last[record.get("id")] == at or record not in erred]


def have_all(records: list[Record], earlier: list[Record], erred: list[Record]) -> bool:
    """Whether all earlier records are there, in their order, but for those whose graders erred."""
    kept = [record for record in earlier if record not in erred]
    return [record for record in records if record in kept] == kept


def check_records(plan: Plan, records: list[Record], *, complete: bool, ordered: bool) -> Iterator[str]:
    """Yields what is wrong with records: invalid, of no prompt, twice, missing, out of order, or with odd times."""
    found = [record.get("id") for record in records]
    expected = [prompt["id"] for prompt in plan.prompts]
    for record in records:
        for error in validator(SCHEMAS[plan.tool]).iter_errors(record):
            if plan.tool == "ae-grade" and error.validator == "required":
                continue  # it grades prompts with an output, too, and adds nothing that they lack
            yield f"record {record.get('id')} is invalid: {error.json_path}: {error.message[:SHOWN]}"
        yield from _check_times(record)
    if twice := [name for name, count in Counter(found).items() if count > 1]:
        yield f"ids that are there more than once: {twice}"
    if strange := set(found) - set(expected):
        yield f"ids that no prompt has: {strange}"
    if complete and (missing := [name for name in expected if name not in found]):
        yield f"ids that are missing: {missing}"
    if ordered and found != [name for name in expected if name in found]:
        yield f"not in the order of the prompts: {found}"


def take_recovered(path: Path, before: bytes, done: Attempt) -> Iterator[str]:
    """Puts what a run has written in the place of an output into which others wrote, as its user does.

    Yields what is wrong: that the tool has not said so, or that records of before are lost.
    """
    recovered = path.with_name(f"{path.name}.recovered")
    if done.code != 1 or f"{path.name} was written to by another program" not in done.stderr or not recovered.exists():
        yield f"exit code {done.code}: it is not said that others wrote into {path.name}"
        return
    recovered.replace(path)
    whole = before[: before.rfind(b"\n") + 1]
    if not path.read_bytes().startswith(whole):
        yield f"records that were in {path.name} are not in what was recovered"


# --- at the end -----------------------------------------------------------------------------------


def answers(record: Record) -> list[Record]:
    """Returns the answers in a record: itself, or its trials."""
    trials: list[Record] | None = record.get("trials")
    return [record] if trials is None else trials


def check_code(plan: Plan, code: int, written: list[Record]) -> Iterator[str]:
    """Yields whether the exit code is not that of an attempt without a fault which has written these records."""
    given = [answer for record in written for answer in answers(record)]
    erred = any("graderError" in answer for answer in given)
    failed = "-e" in plan.options and any(answer.get("errors") for answer in given)
    if erred or failed:
        if code != 1:
            yield f"exit code {code} although {'graders erred' if erred else 'agents failed'} (-e)"
    elif code != 0 and not ("-e" in plan.options and code == 1):
        yield f"exit code {code} although nothing went wrong"


def check_outcomes(plan: Plan, records: list[Record], *, disturbed: bool) -> Iterator[str]:
    """Yields records whose agent or grader should have failed and did not, or the reverse."""
    by_id = {prompt["id"]: prompt for prompt in plan.prompts}
    for record in records:
        prompt = by_id.get(record.get("id"), {})
        for answer in answers(record):
            errors = answer.get("errors") or []
            if plan.tool != "ae-grade" and prompt.get("does") in agents.BAD and not errors:
                yield f"{record['id']}: its agent has to fail ({prompt['does']}), and its record has no errors"
            slow = any("timed out" in error for error in errors)  # a busy machine
            if prompt.get("does") in agents.GOOD and errors and not (slow or disturbed or prompt["does"] in ODD):
                yield f"{record['id']}: its agent does well ({prompt['does']}), and its record has {errors}"
            yield from _check_grade(plan, prompt, record, answer, errors)


ODD = {"gone"}  # the next turn has no directory


def _check_grade(plan: Plan, prompt: Record, record: Record, answer: Record, errors: list[str]) -> Iterator[str]:
    if not plan.graders:
        return
    graded = "score" in answer
    if graded == ("graderError" in answer):
        yield f"{record['id']}: neither or both of score and graderError"
    only_functions = not {"executable", "stream"} & set(plan.graders)
    sure = {"fail", "nonsense", "hang", "deaf"} if only_functions else set(agents.GRADER_BAD)
    if plan.graders == ["hint"]:
        sure = set()
    if not errors and graded and prompt.get("graderDoes") in sure:
        score = str(answer["score"])[:SHOWN]
        yield f"{record['id']}: its grader has to err ({prompt['graderDoes']}), and it has {score}"


def check_files(plan: Plan, folder: Path, outputs: list[str]) -> Iterator[str]:
    """Yields files that a finished run has no reason to leave beside its output or in the workspaces."""
    if strange := {path.name for path in (folder / "out").iterdir()} - set(outputs):
        yield f"files beside the output: {sorted(strange)}"
    if here := list((folder / "here").iterdir()):
        yield f"files in the working directory: {here}"
    ids = tuple(f"prompt-{prompt['id']}" for prompt in plan.prompts)
    workspaces = [path.name for path in folder.glob("ws/*") if path.name != ".agenteval"]
    if strange := {name for name in workspaces if name.partition("-trial-")[0] not in ids}:
        yield f"strange files among the workspaces: {sorted(strange)}"
    # A prompt that was cut short by a closed pipe keeps its workspace until it is run again.
    if workspaces and "none" in plan.workspaces and "closed pipe" not in plan.faults:
        yield f"workspaces are left: {workspaces}"
