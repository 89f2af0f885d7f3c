"""Files → runs: what a comparison keeps of each row, by prompt, in the order of the file.

`read_runs` decodes every line once as a row (wire/row.py) and keeps what the figures need; None is not known, never 0.
A result is a prompt with one attempt, so results and trials are the same from here on.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import zlib
from collections.abc import Container, Iterable, Iterator, MutableMapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from agenteval.adapters.trajectory import richness_of
from agenteval.comparison.row_table import ComparedRow, RowTable, replaced
from agenteval.errors import BadRecord, UserError
from agenteval.models.tokens import estimated_cost
from agenteval.statistics.samples import plug_in_pass_at_k, plug_in_pass_exp_k
from agenteval.streams.console import Console
from agenteval.streams.files import LONGEST_LINE
from agenteval.streams.jsonl import decode_record
from agenteval.streams.rows import CROSS, KeyUse, groups_at, key_parts, parse_row, value_at
from agenteval.streams.source import PROMPTS, RAW, Source, kind_of, refuse
from agenteval.streams.text import plain_text
from agenteval.wire.records import STOP_RULE, Input, Step
from agenteval.wire.row import Measured, Row, RowWithCalls, holds_trials

EXTENSIONS = (".jsonl", ".ndjson", ".json")
NOUNS = {"capture": "results", "trials": "trials"}
PEEKED = 1000  # lines in which a first valid record is looked for
_TIMEOUT = re.compile(r"timed?[\s-]?out", re.IGNORECASE)

Batch = list[tuple[int, bytes]]


# --- what is kept of a prompt -------------------------------------------------------------------


class RowOptions(NamedTuple):
    """Metadata keys: that of the categories of a prompt, and that which prompts that belong together share."""

    by: str = "category"
    cluster_by: str | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys that are read of each record."""
        return (self.by,) if self.cluster_by is None else (self.by, self.cluster_by)


def compared_row(row: Row, line: int = 0, options: RowOptions = RowOptions()) -> ComparedRow:  # noqa: B008
    """What is kept of a row."""
    attempts, notes, k = row.attempts, row.metadata or {}, row.k
    passed, graded = row.passes
    rate = passed / graded if graded else None
    at, exp = row.pass_at_k, row.pass_exp_k
    clusters = [value_at(notes, part) for part in key_parts(options.cluster_by)] if options.cluster_by else []
    model = row.model or notes.get("model")
    scores: list[float] = []
    durations: list[float] = []
    first_responses: list[float] = []
    tokens: list[float] = []
    costs: list[float] = []
    failures: list[str] = []
    steps: list[Step] = []
    failed = errors = grader_errors = trajectories = 0
    has_score = estimated = set_back = tool_errors = has_output = False
    for attempt in attempts:  # one pass over them, as this is most of the work of a comparison
        timing = attempt.timing
        took, spent = timing.elapsed, expense(timing, model)
        for value, known in (
            (took, durations),
            (timing.first_response, first_responses),
            (spent.tokens, tokens),
            (spent.cost, costs),
        ):
            if value is not None and value >= 0:  # a negative time or amount was not measured
                known.append(float(value))
        set_back = set_back or (took is not None and took < 0)
        estimated = estimated or spent.estimated
        if attempt.agent_failed:
            failed += 1
            scores.append(0.0)
        elif attempt.given_score is not None and not attempt.grader_error:
            scores.append(attempt.given_score)
        has_score = has_score or attempt.given_score is not None
        if attempt.failures:
            failures += attempt.failures
            errors += 1
        grader_errors += bool(attempt.grader_error)
        tool_errors = tool_errors or bool(attempt.tool_errors)
        has_output = has_output or bool(attempt.output)
        if attempt.trajectory is not None:
            trajectories += 1
            steps += attempt.trajectory
    return ComparedRow(
        line=line,
        input_digest=input_digest(row.input),
        categories=tuple([sys.intern(name) for name in groups_at(notes, options.by)]),
        cluster=sys.intern(CROSS.join(map(plain_text, clusters))) if clusters and None not in clusters else None,
        k=k,
        attempts=len(attempts),
        graded=graded,
        passed=passed,
        failed=failed,
        errors=errors,
        grader_errors=grader_errors,
        pass_at_k=plug_in_pass_at_k(rate, k) if at is None and rate is not None else at,
        pass_exp_k=plug_in_pass_exp_k(rate, k) if exp is None and rate is not None else exp,
        scores=tuple(scores) if graded and has_score else (),
        durations=tuple(durations),
        first_responses=tuple(first_responses),
        token_values=tuple(tokens),
        cost_values=tuple(costs),
        cost_estimated=estimated,
        clock_set_back=set_back,
        tool_errors=tool_errors,
        timed_out=notes.get("timedOut") is True or any(map(_TIMEOUT.search, failures)),
        has_output=has_output,
        steps=len(steps) if trajectories else None,
        richness=richness_of(notes.get("trajectoryRichness"), (step.type for step in steps)),
    )


def input_digest(prompt: Input | None) -> int:
    """A checksum of the turns of a prompt; 0 if it is not known."""
    if prompt is None:
        return 0
    turns = [prompt] if isinstance(prompt, str) else prompt
    return zlib.crc32("\0".join(turns).encode(errors="surrogatepass")) or 1


class Expense(NamedTuple):
    """Tokens and cost of one attempt; `estimated` if the cost is that of the tokens by a price list."""

    tokens: float | None = None
    cost: float | None = None
    estimated: bool = False


def expense(timing: Measured, model: Any) -> Expense:
    """Tokens and cost as the agent reports them; without a cost, that of the tokens by the model's list price."""
    given, taken, cost = _amount(timing.input_tokens), _amount(timing.output_tokens), _amount(timing.cost_usd)
    tokens = None if given is None and taken is None else (given or 0.0) + (taken or 0.0)
    if cost is not None or not isinstance(model, str) or given is None or taken is None:
        return Expense(tokens, cost)
    found = estimated_cost(model, given, taken, _amount(timing.cached_tokens) or 0.0)
    return Expense(tokens, found, estimated=found is not None)


def _amount(value: float | None) -> float | None:
    return float(value) if value is not None and value >= 0 else None


# --- the names of runs --------------------------------------------------------------------------


class NamedRun(NamedTuple):
    """A file and the label that the user gave it, if any."""

    label: str | None
    path: str


def named_run(text: str, *, labelled: bool) -> NamedRun:
    """Parses `label:path` or `path`; without --run, the name of an existing file may have a colon."""
    label, colon, path = text.partition(":")
    if not colon or (not labelled and os.path.exists(text)):
        name, _, file = text.partition("=")
        if name and os.path.isfile(file) and not os.path.exists(text):
            raise UserError(f"{text}: give a run as LABEL:PATH: --run {name}:{file}")
        return NamedRun(None, text)
    if not label or not path:
        raise UserError(f"{text}: give a run as LABEL:PATH")
    return NamedRun(label, path)


def named_runs(paths: Sequence[str], labelled: Sequence[str]) -> list[NamedRun]:
    """The runs given as arguments, then those given with --run."""
    return [named_run(text, labelled=False) for text in paths] + [named_run(text, labelled=True) for text in labelled]


def label_runs(runs: Sequence[NamedRun]) -> list[tuple[str, str]]:
    """Label and path of each run: the user's label, else one made from the path; UserError if two are the same."""
    if len(runs) < 2:
        raise UserError("give two or more runs: ae-compare A.jsonl B.jsonl")
    if [run.path for run in runs].count("-") > 1:
        raise UserError("only one run can be stdin (-)")
    made = iter(distinct_labels([run.path for run in runs if run.label is None]))
    labelled = [(next(made) if run.label is None else run.label, run.path) for run in runs]
    seen: set[str] = set()
    for label, path in labelled:
        if label in seen:
            raise UserError(f"{path}: another run is also called {label}; rename this one with --run LABEL:{path}")
        seen.add(label)
    return labelled


def distinct_labels(paths: Sequence[str]) -> list[str]:
    """File names without extension and shared endings (.graded); with folders where two would be the same."""
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


# --- runs ---------------------------------------------------------------------------------------


class RunRows(NamedTuple):
    """The rows of one run by prompt id, in the order of the file; `changed` are ids left out for another input."""

    label: str
    rows: RowTable
    changed: Sequence[str] = ()
    clustered: bool = False  # whether prompts that belong together are one cluster (--cluster-by)
    has_stop_rule: bool = False  # whether it could be stopped early (--stop-when-known)
    stop_margin: float | None = None  # by which it could be known to be hardly worse
    stopped: bool = False  # whether it was

    def values(self, field: str) -> list[float]:
        """The field of each row in which it is known."""
        return [value for row in self.rows.values() if (value := getattr(row, field)) is not None]

    def measured(self, name: str) -> dict[str, float]:
        """A measure (RowTable.measure) of each prompt in which it is known, by id."""
        found = self.rows.measure(name)
        return {id: value for id, at in self.rows.places.items() if (value := found[at]) == value}

    def total(self, field: str) -> int:
        """The sum of a count, or the number of rows for which a flag holds."""
        return sum(self.rows.column(field))

    def ids_with(self, flag: str) -> list[str]:
        """The prompts for which a flag holds."""
        return [id for id, holds in zip(self.rows, self.rows.column(flag), strict=True) if holds]

    def all_values(self, field: str) -> list[float]:
        """The values of all attempts, of a field that has one for each."""
        return self.rows.samples(field)

    def clusters(self, ids: Iterable[str]) -> list[str] | None:
        """The cluster of each prompt; None if prompts are not clustered."""
        return [self.rows[id].cluster_name(id) for id in ids] if self.clustered else None

    def attempt_clusters(self, field: str) -> list[str] | None:
        """The cluster of each of all_values(): trials of a prompt are one, or part of one; None if all are apart."""
        column, places = self.rows.columns[field], self.rows.places
        if not self.clustered and (column.most <= 1 or all(len(column[at]) <= 1 for at in places.values())):
            return None
        return [self.rows[id].cluster_name(id) for id, at in places.items() for _ in column[at]]


def with_failures_graded(rows: MutableMapping[str, Any]) -> None:
    """If any row of a run is graded, a prompt whose agents all failed has not passed, with score 0."""
    if not any(row.graded for row in rows.values()):
        return
    scored = any(row.scores for row in rows.values())
    for id, row in rows.items():
        if row.failed and not row.graded:
            zeros = (0.0,) * row.failed if scored else ()
            rows[id] = replaced(row, graded=row.failed, scores=zeros, pass_at_k=0.0, pass_exp_k=0.0)


class RunSource(Source):
    """A source whose first lines can be peeked at."""

    def __init__(self, path: str | None, *, max_line: int = LONGEST_LINE) -> None:
        super().__init__(path, max_line=max_line)
        self._peeked: list[Batch] = []
        self._batches: Iterator[Batch] | None = None

    def lines(self) -> Iterator[Batch]:
        """Yields all lines, those that were peeked at first."""
        peeked, self._peeked = self._peeked, []
        return chain(peeked, self._batches or super().lines())

    def peek(self) -> Iterator[bytes]:
        """Yields the first lines; lines() yields them again."""
        self._batches = super().lines()
        for batch in self._batches:
            self._peeked.append(batch)
            for _, line in batch:
                yield line

    def make_seekable(self) -> None:
        """Copies a pipe to a temporary file, which has no name and ends with the process."""
        if self.regular:
            return
        with tempfile.TemporaryFile() as spool:
            while piece := self._read():
                spool.write(piece)
            spool.flush()
            self.fd, self.regular = os.dup(spool.fileno()), True
        self.rewind()


def find_format(sources: Sequence[RunSource], asked: str) -> str:
    """`capture` or `trials`: as asked, else as the first records of the files; raises UserError if they differ."""
    found = {source.name: name for source in sources if (name := first_record(source)) is not None}
    expected = asked if asked != "auto" else next(iter(found.values()), "capture")
    for name, other in found.items():
        if other != expected and asked != "auto":
            raise UserError(f"{name}: contains {NOUNS[other]}, and --input-format {asked} expects {NOUNS[asked]}")
        if other != expected:
            raise UserError(
                f"{name}: contains {NOUNS[other]}, and {next(iter(found))} contains {NOUNS[expected]}: only "
                f"files of the same kind can be compared"
            )
    return expected


def first_record(source: RunSource) -> str | None:
    """`capture` or `trials`, by the first record of a file; None if it has none, UserError if it is neither."""
    for line in islice(source.peek(), PEEKED):
        try:
            record = decode_record(line)
        except BadRecord:
            continue  # reported when the file is read
        if "score" not in record and (kind := kind_of(record)) in (RAW, PROMPTS):
            raise UserError(f"{source.name}: {kind}")
        return "trials" if holds_trials(record) else "capture"
    return None


def read_run(
    label: str, source: Source, console: Console, *, trials: bool, options: RowOptions, uses: Sequence[KeyUse] = ()
) -> RunRows:
    """The rows of one file; a line that cannot be used is reported and left out."""
    rows = RowTable()
    rules: list[Any] = []
    for batch in source.lines():
        for number, line in batch:
            try:
                row = parse_row(line, RowWithCalls, keys=options.keys, answered=False)
            except BadRecord as error:
                refuse(source, number, line, error, console)
                continue
            if why := _why_not_kept(row, rows, trials):
                console.refuse(f"{source.name}:{number}", why)
                continue
            rows[row.id] = compared_row(row, number, options)
            rules = rules or [rule for rule in [(row.metadata or {}).get(STOP_RULE)] if isinstance(rule, dict)]
            for use in uses:
                use.add(row.metadata)
    clustered = options.cluster_by is not None
    margin = rules[0].get("margin") if rules else None
    with_failures_graded(rows)
    return RunRows(
        label,
        rows,
        clustered=clustered,
        has_stop_rule=bool(rules),
        stop_margin=margin if isinstance(margin, float) else None,
    )


def _why_not_kept(row: Row, rows: Container[str], trials: bool) -> str | None:
    if row.id in rows:
        return f'duplicate "id" {row.id}; the first one counts'
    if trials and not row.is_trials:
        return f'"{"k" if row.given_k is None else "trials"}" is missing: trials are expected here'
    return "this is a trial, and results are expected here" if row.is_trials and not trials else None


def read_runs(
    files: Sequence[tuple[str, RunSource]],
    console: Console,
    *,
    trials: bool,
    options: RowOptions,
    counted: bool,
    uses: Sequence[KeyUse] = (),
) -> list[RunRows]:
    """All runs, one after the other; `counted` if they are what the progress shows.

    `uses` are the keys that the user asked for, each to learn whether any record has it.
    """
    if counted:
        console.begin(len(files), "runs")
    runs = []
    for label, source in files:
        runs.append(read_run(label, source, console, trials=trials, options=options, uses=uses))
        if counted:
            console.advance(f"{label}: {len(runs[-1].rows)} {'prompts' if trials else 'results'}")
    return runs
