"""Files → the history of an evaluation: runs apart by `runId`, in the order of time, and when the pass rate changed.

`read_history` keeps a row per record. `history_of` computes the figures of each run, its change against the run before,
and the changes that are shown (statistics/changes.py). `worse_than` is the gate of ae-compare for two runs of it.
"""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from agenteval.comparison.comparison import CompareSettings, Comparison
from agenteval.comparison.figures import amount, pass_interval
from agenteval.comparison.pairing import measures, paired_values, without_changed_inputs
from agenteval.comparison.row_table import RowTable
from agenteval.comparison.rows import (
    EXTENSIONS,
    NOUNS,
    RunRows,
    RunSource,
    compared_row,
    distinct_labels,
    first_record,
    with_failures_graded,
)
from agenteval.comparison.verdicts import GateSettings, gate_reasons, p_text, points
from agenteval.errors import BadRecord, UserError
from agenteval.statistics.changes import Change, find_changes
from agenteval.statistics.paired import compare_paired
from agenteval.statistics.samples import mean, percentile
from agenteval.streams.console import Console
from agenteval.streams.output import Output
from agenteval.streams.rows import parse_row
from agenteval.streams.source import refuse
from agenteval.streams.text import counted
from agenteval.wire.history import History, HistoryChange, HistoryRun
from agenteval.wire.records import STOP_RULE
from agenteval.wire.row import AGENT_VERSION, LABEL, MODEL, Row, agent_name, first_text

EPOCH = 1e11  # a smaller time does not count from 1970
FACTS = {"agent": "agent", "model": "model", "agent_version": "version"}

Prompt = tuple[str, int]
"""The id of a prompt and the checksum of its input: with another input it is another prompt."""


class PastRun(msgspec.Struct):
    """A run as it was read; `name` is given once all are known."""

    file: str
    run_id: str | None
    name: str = ""
    label: str | None = None
    agent: str | None = None
    model: str | None = None
    agent_version: str | None = None
    start: float | None = None
    has_stop_rule: bool = False
    rows: RowTable = msgspec.field(default_factory=RowTable)

    def learn(self, row: Row) -> None:
        """Takes what the record says of the run, unless an earlier one has said it."""
        notes = row.metadata or {}
        self.label = self.label or first_text(notes, LABEL)
        self.agent = self.agent or agent_name(notes)
        self.model = self.model or first_text({"model": row.model}, ("model",)) or first_text(notes, MODEL)
        self.agent_version = self.agent_version or first_text(notes, AGENT_VERSION)
        self.has_stop_rule = self.has_stop_rule or STOP_RULE in notes
        starts = [start for one in row.attempts if (start := one.timing.start) is not None and start > EPOCH]
        self.start = min([*starts, *([] if self.start is None else [self.start])], default=None)

    def as_rows(self) -> RunRows:
        """The run for a comparison, which may take prompts out of it."""
        return RunRows(self.name, self.rows.only(self.rows), has_stop_rule=self.has_stop_rule)


# --- reading ------------------------------------------------------------------------------------


def read_history(paths: Sequence[str], console: Console, output: str | None = None) -> tuple[list[PastRun], bool]:
    """The runs of all files in the order of time, and whether they hold trials; a file may hold several runs."""
    found: dict[tuple[str, ...], PastRun] = {}
    kind = ""
    for path, from_folder in files_of(paths):
        try:
            source = RunSource(path)
            Output(output, inputs=[source], lazy=True)  # refuses an input as the output
            this = first_record(source)
        except UserError as error:
            if not from_folder:
                raise
            console.say(f"left out: {error}")
            continue
        if this and kind and this != kind:
            raise UserError(
                f"{path}: contains {NOUNS[this]}, and other files contain {NOUNS[kind]}: a history needs one kind"
            )
        kind = kind or this or ""
        if this or not from_folder:
            _read_file(source, console, found, trials=this == "trials")
        if source.path is not None:
            os.close(source.fd)
    runs = [run for run in found.values() if run.rows]
    for run in runs:
        with_failures_graded(run.rows)
    if all(run.start is not None for run in runs):
        runs.sort(key=lambda run: run.start or 0.0)
    elif len(runs) > 1:
        console.say("not every run has its start time (timing.start): runs are in the order of their files")
    _name(runs)
    return runs, kind == "trials"


def files_of(paths: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yields each file, and whether it is from a folder; those of a folder are sorted by name."""
    for path in paths:
        if not os.path.isdir(path):
            yield path, False
            continue
        inside = sorted(
            os.path.join(folder, name)
            for folder, _, names in os.walk(path)
            for name in names
            if name.endswith(EXTENSIONS[:2])
        )
        if not inside:
            raise UserError(f"{path}: contains no file that ends in {' or '.join(EXTENSIONS[:2])}")
        yield from ((file, True) for file in inside)


def _read_file(source: RunSource, console: Console, found: dict[tuple[str, ...], PastRun], *, trials: bool) -> None:
    """Adds the rows of a file to their runs; a prompt that its run already has counts once, the graded one if any."""
    again: Counter[str] = Counter()
    for batch in source.lines():
        for number, line in batch:
            try:
                row = parse_row(line, Row, answered=False)
            except BadRecord as error:
                refuse(source, number, line, error, console)
                continue
            if row.is_trials != trials:
                console.refuse(
                    f"{source.name}:{number}", f"{NOUNS['trials' if trials else 'capture']} are expected here"
                )
                continue
            run_id = first_text(row.metadata or {}, ("runId",))
            key = (run_id,) if run_id else ("", source.name)
            run = found.get(key)
            if run is None:
                run = found[key] = PastRun(source.name, run_id)
            run.learn(row)
            before = run.rows.get(row.id)
            if before is not None:
                again[run.file] += 1
            if before is None or (row.graded and not before.graded):
                run.rows[row.id] = compared_row(row, number)
    for file, count in again.items():
        which = "of the same run" if file == source.name else f"of a run that is also in {file}"
        console.say(f"{source.name}: {counted(count, 'duplicate record')} {which}: each prompt counts once")


def _name(runs: Sequence[PastRun]) -> None:
    """Gives each run a name of its own."""
    files = dict.fromkeys(run.file for run in runs)
    of_file = dict(zip(files, distinct_labels(list(files)), strict=True))
    names = [run.label or of_file[run.file] for run in runs]
    many = Counter(names)
    for number, (run, name) in enumerate(zip(runs, names, strict=True), 1):
        run.name = name if many[name] == 1 else f"{name}#{number}"


# --- the report ---------------------------------------------------------------------------------


def history_of(runs: Sequence[PastRun], now: float) -> History:
    """The figures of each run and the changes that are shown."""
    every = [_run(number, run, runs[number - 2] if number > 1 else None) for number, run in enumerate(runs, 1)]
    changes = shown_changes(runs)
    rates = [run.pass_rate for run in every if run.pass_rate is not None]
    summary = f"{counted(len(runs), 'run')}, pass rate {rates[0]:.1%}" if rates else "no run is graded"
    if len(rates) > 1:
        found = counted(len(changes), "change") if changes else "no change"
        summary += f" → {rates[-1]:.1%}: {found} shown"
    generated = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    return History(generated_at=generated, summary=summary, runs=every, changes=changes)


def _run(number: int, run: PastRun, before: PastRun | None) -> HistoryRun:
    rows = run.as_rows()
    tokens, cost = amount(rows, "token_values"), amount(rows, "cost_values")
    found = HistoryRun(
        number=number,
        name=run.name,
        run_id=run.run_id,
        label=run.label,
        file=run.file,
        started=None if run.start is None else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.start / 1000)),
        agent=run.agent,
        model=run.model,
        agent_version=run.agent_version,
        prompts=len(run.rows),
        graded=sum(graded > 0 for graded in run.rows.column("graded")),
        pass_rate=mean(rows.values("pass_rate")),
        interval=pass_interval(rows),
        p50=percentile(sorted(rows.all_values("durations")), 0.5),
        tokens=tokens.total if tokens else None,
        cost=cost.total if cost else None,
        cost_estimated=any(run.rows.column("cost_estimated")),
    )
    if before is not None:
        earlier, later = without_changed_inputs([before.as_rows(), rows])
        pair = paired_values(earlier, later, measures([earlier, later], "pass_rate"))
        test = compare_paired([-one for one in pair.differences])
        found.shared, found.change = len(pair.ids), test.mean
        found.change_interval = (test.interval.low, test.interval.high) if test.interval else None
        found.marks = [
            f"{title} {old or 'unknown'} → {new or 'unknown'}"
            for field, title in FACTS.items()
            if (old := getattr(before, field)) != (new := getattr(run, field))
        ]
    return found


def shown_changes(runs: Sequence[PastRun]) -> list[HistoryChange]:
    """The changes of the pass rate that are shown, with the levels between them and the prompts that flipped."""
    prompts: dict[Prompt, list[tuple[int, int]]] = {}
    for at, run in enumerate(runs):
        columns = [run.rows.column(name) for name in ("input_digest", "passed", "graded")]
        for id, digest, passed, graded in zip(run.rows, *columns, strict=True):
            prompts.setdefault((id, digest), [(0, 0)] * len(runs))[at] = (passed, graded)
    found = find_changes(list(prompts.values()), len(runs))
    borders = [0, *(change.start for change in found), len(runs)]
    return [_change(change, prompts, *borders[at : at + 3]) for at, change in enumerate(found)]


def _change(
    change: Change, prompts: dict[Prompt, list[tuple[int, int]]], first: int, start: int, end: int
) -> HistoryChange:
    rates: dict[str, tuple[float, float]] = {}
    for (id, _), counts in prompts.items():
        before, after = _rate(counts[first:start]), _rate(counts[start:end])
        if before is not None and after is not None:
            rates[id] = before, after
    level, new = (mean(values) or 0.0 for values in zip(*rates.values(), strict=True))
    runs = f"runs {first + 1} to {start}" if start - first > 1 else f"run {start}"
    others = f"runs {start + 1} to {end}" if end - start > 1 else f"run {end}"
    return HistoryChange(
        number=start + 1,
        shown_after=change.shown + 1,
        before=(first + 1, start),
        after=(start + 1, end),
        prompts=len(rates),
        pass_rate_before=level,
        pass_rate_after=new,
        difference=new - level,
        p=change.p,
        adjusted_p=change.adjusted_p,
        lost=[id for id, (before, after) in rates.items() if before > 0.5 >= after],
        gained=[id for id, (before, after) in rates.items() if after > 0.5 >= before],
        sentence=f"{points(new - level)}: {level:.1%} in {runs} → {new:.1%} in {others}, over "
        f"{counted(len(rates), 'prompt')} ({p_text(change.adjusted_p)} adjusted, shown after run {change.shown + 1})",
    )


def _rate(counts: Iterable[tuple[int, int]]) -> float | None:
    known = [passed / graded for passed, graded in counts if graded]
    return mean(known)


# --- the gate -----------------------------------------------------------------------------------


def worse_than(baseline: PastRun, last: PastRun, *, trials: bool) -> list[str]:
    """Why the last run is worse than the baseline, as ae-compare --fail-if-worse says it; empty if it is not."""
    runs = without_changed_inputs([baseline.as_rows(), last.as_rows()])
    report = Comparison(trials=trials).compare(runs, CompareSettings("statistical", missing_fail=True))
    return gate_reasons(report, GateSettings())


def find_run(runs: Sequence[PastRun], asked: str) -> PastRun:
    """The run of that name, label, number or runId; of several with that label, the latest."""
    for number, run in reversed(list(enumerate(runs, 1))):
        if asked in (run.name, run.label, run.run_id, str(number)):
            return run
    raise UserError(
        f"--baseline {asked}: neither a file nor a run of this history; name a run by its number, name, label or runId"
    )
