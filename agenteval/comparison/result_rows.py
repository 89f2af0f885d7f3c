"""A run: what it is called and, of results, what a comparison keeps of each and the figures over all."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from agenteval.comparison import statistics as stats
from agenteval.errors import BadRecord, UserError
from agenteval.wire.comparison import Latency, Performance, Quality, Reliability, ScoreDistribution, TrajectoryInfo
from agenteval.wire.records import Wire
from agenteval.wire.result_view import ResultFacts, Richness, measured_time, richness_of

EXTENSIONS = (".jsonl", ".ndjson", ".json")

R = TypeVar("R")

_TIMEOUT = re.compile(r"timed?[\s-]?out", re.IGNORECASE)


# --- which runs, and what they are called -------------------------------------------------------


class RunRows(NamedTuple, Generic[R]):
    """A label and its rows by prompt id, in the order of the file."""

    label: str
    rows: dict[str, R]


class NamedRun(NamedTuple):
    """A file and the label the user gave it, if any."""

    label: str | None
    path: str


def named_run(text: str, *, labelled: bool) -> NamedRun:
    """`label:path` or `path`; as a plain argument, a file whose own name has the colon comes first."""
    label, colon, path = text.partition(":")
    if not colon or (not labelled and os.path.exists(text)):
        return NamedRun(None, text)
    if not label or not path:
        raise UserError(f"{text}: give a run as LABEL:PATH")
    return NamedRun(label, path)


def label_runs(runs: Sequence[NamedRun]) -> list[tuple[str, str]]:
    """Label and path of every run: the user's label, else one made from the path; no two alike."""
    check_runs(runs)
    made = iter(distinct_labels([run.path for run in runs if run.label is None]))
    labelled = [(next(made) if run.label is None else run.label, run.path) for run in runs]
    seen: set[str] = set()
    for label, path in labelled:
        if label in seen:
            raise UserError(f"{path}: another run is called {label} too; name it: --run LABEL:{path}")
        seen.add(label)
    return labelled


def check_runs(runs: Sequence[NamedRun]) -> None:
    """UserError where there are not two runs, or stdin should be two of them."""
    if len(runs) < 2:
        raise UserError("two runs or more are needed: ae-compare A.jsonl B.jsonl")
    if [run.path for run in runs].count("-") > 1:
        raise UserError("stdin (-) can be one run only")


def distinct_labels(paths: Sequence[str]) -> list[str]:
    """File names without extension and without the endings they share (.graded); folders where these are alike."""
    parts = [_label_parts(path) for path in paths]
    labels = _without_shared_ending([part[-1] for part in parts])
    for depth in range(2, max(map(len, parts), default=0) + 1):
        labels = [
            "/".join(part[-depth:]) if labels.count(label) > 1 else label
            for label, part in zip(labels, parts, strict=True)
        ]
    return [
        label if label not in labels[:place] else f"{label}#{labels[: place + 1].count(label)}"
        for place, label in enumerate(labels)
    ]


def _label_parts(path: str) -> list[str]:
    if path == "-":
        return ["stdin"]
    *folders, name = [part for part in path.split("/") if part not in ("", ".")] or [path]
    stem, extension = os.path.splitext(name)
    return [*folders, stem if stem and extension in EXTENSIONS else name]


def _without_shared_ending(names: list[str]) -> list[str]:
    shorter = [name.rpartition(".") for name in names]
    stems = [stem for stem, _, _ in shorter]
    if len({ending for _, _, ending in shorter}) != 1 or not all(stems) or len(set(stems)) < max(2, len(stems)):
        return names
    return _without_shared_ending(stems)


# --- what a comparison reads of a result --------------------------------------------------------


class StepKind(Wire):
    """A step, as far as its kind."""

    type: str | None = None


class RunNotes(Wire):
    """What the capture noted in the metadata."""

    trajectory_richness: Any = None
    timed_out: Any = None


NO_NOTES = RunNotes()


class ComparedResult(ResultFacts):
    """The fields of a result that a comparison reads; `trials` and `k` show that it is none."""

    trajectory: list[StepKind] | None = None
    metadata: RunNotes | None = None
    trials: Any = None
    k: Any = None


class RecordShape(Wire):
    """As much of a record as tells trials from results."""

    trials: Any = None
    k: Any = None


def is_trial(record: RecordShape | ComparedResult) -> bool:
    """Whether this is a record of trials; agent-eval-harness tells them by the same two fields."""
    return isinstance(record.trials, list) and isinstance(record.k, int | float)


class ResultRow(msgspec.Struct, gc=False, frozen=True):
    """One result, boiled down; None is unknown, never 0."""

    line: int = 0
    score: float | None = None
    passed: bool = False
    grader_error: bool = False
    duration: float | None = None
    first_response: float | None = None
    tool_errors: bool = False
    failed: bool = False
    timed_out: bool = False
    has_output: bool = True
    steps: int | None = None
    richness: Richness = "minimal"

    @property
    def unreliable(self) -> bool:
        """Whether a tool or the agent itself failed."""
        return self.tool_errors or self.failed


def result_row(result: ComparedResult, line: int = 0) -> ResultRow:
    """What is kept of a result; BadRecord if it is a trial."""
    if is_trial(result):
        raise BadRecord("a trial, where a result is expected")
    grade, notes = result.grade, result.metadata or NO_NOTES
    return ResultRow(
        line=line,
        score=grade.score if grade else None,
        passed=grade is not None and grade.pass_,
        grader_error=bool(result.grader_error),
        duration=_float(result.duration),
        first_response=_float(measured_time(result.timing.first_response)) if result.timing else None,
        tool_errors=bool(result.tool_errors),
        failed=bool(result.failures),
        timed_out=notes.timed_out is True or any(map(_TIMEOUT.search, result.failures)),
        has_output=bool(result.output),
        steps=None if result.trajectory is None else len(result.trajectory),
        richness=richness_of(notes.trajectory_richness, (step.type for step in result.trajectory or ())),
    )


def _float(value: float | None) -> float | None:
    """The value as the float that the report's types promise."""
    return None if value is None else float(value)


# --- one run ------------------------------------------------------------------------------------


def quality(rows: Iterable[ResultRow]) -> Quality:
    """Scores over the graded rows; the others are counted by why they have none."""
    rows = list(rows)
    graded = [row for row in rows if row.score is not None]
    scores = [row.score for row in graded if row.score is not None]
    passes = sum(row.passed for row in graded)
    grader_errors = sum(row.grader_error for row in rows)
    return Quality(
        type="run",
        n=len(graded),
        ungraded=len(rows) - len(graded) - grader_errors,
        grader_errors=grader_errors,
        avg_score=stats.mean(scores),
        pass_rate=passes / len(graded) if graded else None,
        pass_count=passes,
        fail_count=len(graded) - passes,
        score_distribution=distribution(scores),
    )


def distribution(scores: Iterable[float]) -> ScoreDistribution:
    """Counts per fifth; a score on a border belongs to the upper one."""
    # Compared, not divided: 0.6 / 0.2 is 2.9999999999999996.
    found = Counter(sum(score >= border for border in (0.2, 0.4, 0.6, 0.8)) for score in scores)
    return ScoreDistribution(**{f"fifth{i + 1}": found[i] for i in range(5)})


def performance(rows: Iterable[ResultRow]) -> Performance:
    """Latencies over the rows that have a timing."""
    rows = list(rows)
    durations = [row.duration for row in rows if row.duration is not None]
    return timings(durations, [row.first_response for row in rows if row.first_response is not None])


def timings(durations: Sequence[float], first: Sequence[float] = ()) -> Performance:
    """Latencies, their sum and, where any is known, the times to the first response."""
    return Performance(
        latency=latency(durations),
        total_duration=sum(durations) if durations else None,
        first_response=latency(first) if first else None,
    )


def latency(durations: Iterable[float]) -> Latency:
    """Percentiles, mean and extremes; None of nothing."""
    ordered = sorted(durations)
    p50, p90, p99 = (stats.percentile(ordered, p) for p in (0.5, 0.9, 0.99))
    return Latency(
        n=len(ordered),
        p50=p50,
        p90=p90,
        p99=p99,
        mean=stats.mean(ordered),
        min=ordered[0] if ordered else None,
        max=ordered[-1] if ordered else None,
    )


def reliability(rows: Iterable[ResultRow]) -> Reliability:
    """Errors, timeouts and completions over all rows."""
    rows = list(rows)
    tool_errors = sum(row.tool_errors for row in rows)
    timeouts = sum(row.timed_out for row in rows)
    completed = sum(row.has_output and not row.failed for row in rows)
    return Reliability(
        type="run",
        n=len(rows),
        tool_errors=tool_errors,
        tool_error_rate=tool_errors / len(rows) if rows else None,
        timeouts=timeouts,
        timeout_rate=timeouts / len(rows) if rows else None,
        completion_rate=completed / len(rows) if rows else None,
    )


def trajectory_info(rows: Iterable[ResultRow]) -> TrajectoryInfo:
    """The commonest richness and the mean number of steps where a trajectory is given."""
    rows = list(rows)
    commonest = Counter(row.richness for row in rows).most_common(1)
    return TrajectoryInfo(
        richness=commonest[0][0] if commonest else "minimal",
        avg_step_count=stats.mean([row.steps for row in rows if row.steps is not None]),
    )
