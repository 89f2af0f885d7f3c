"""The top of the page of a file of trials: how often prompts pass, how steadily, and at what cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from agenteval.comparison.inference.intervals import bounds, clustered_rate_interval
from agenteval.comparison.pass_at_k import pass_at, pass_exp
from agenteval.comparison.trial_rows import TrialRow, trial_row
from agenteval.reports.figures import breakdown, percent, percent_span, whole
from agenteval.reports.page.histogram import count_score, score_counts
from agenteval.reports.page.overview import MOST_GROUPS, OTHER_GROUPS, Measurements, Tile, tile, timings_of
from agenteval.reports.page.rows import FLAKY, PageTrial, group_of, tokens_of, trials_row, trials_status, trials_text
from agenteval.reports.page.run_facts import RunFacts
from agenteval.reports.run_summary import Mean
from agenteval.streams.text import counted
from agenteval.wire.records import Interval, Record

Counts = tuple[int, int, int]  # graded trials, those that passed, k


class TrialCounts:
    """Prompts counted by how many of their trials are graded and pass; memory grows with the kinds, not with them."""

    def __init__(self) -> None:
        self.prompts = self.trials = self.failed = self.grader_errors = 0
        self.alike: Counter[Counts] = Counter()

    def add(self, row: TrialRow) -> None:
        """Adds a prompt."""
        self.prompts += 1
        self.trials += row.trials
        self.failed += row.failed
        self.grader_errors += row.grader_errors
        self.alike[row.graded, row.passed, row.k] += 1

    @property
    def graded(self) -> int:
        """Graded trials."""
        return sum(graded * prompts for (graded, _, _), prompts in self.alike.items())

    @property
    def passed(self) -> int:
        """Trials that passed."""
        return sum(passed * prompts for (_, passed, _), prompts in self.alike.items())

    @property
    def rate(self) -> float | None:
        """The share of graded trials that passed; None if there is none."""
        return self.passed / self.graded if self.graded else None

    @property
    def interval(self) -> Interval | None:
        """The interval of the rate; the trials of a prompt are not independent."""
        alike = [pair[:2] for pair, prompts in self.alike.items() if pair[0] for _ in range(prompts)]
        found = clustered_rate_interval([passed for _, passed in alike], [graded for graded, _ in alike])
        return bounds(found)

    def at_k(self) -> tuple[int, float | None, float | None, int]:
        """k, the means of the unbiased pass@k and pass^k, and over how many prompts; None where there is none."""
        k = max((k for graded, _, k in self.alike if graded), default=0)
        at, exp = Mean(), Mean()
        for (graded, passed, _), prompts in self.alike.items():
            one, every = (pass_at(graded, passed, k), pass_exp(graded, passed, k)) if k and graded else (None, None)
            for mean, value in ((at, one), (exp, every)):
                if value is not None:
                    mean.total += value * prompts
                    mean.count += prompts
        return k, at.value if at.count else None, exp.value if exp.count else None, at.count


class TrialsOverview:
    """The overview of a file of trials."""

    kind = "trials"
    noun = "prompt"

    def __init__(self, by: str) -> None:
        self.records = 0
        self.facts = RunFacts()
        self.statuses: Counter[str] = Counter()
        self._by = by
        self._counts = TrialCounts()
        self._groups: dict[str, TrialCounts] = {}
        self._measured = Measurements()
        self._scores = score_counts()
        self._tokens, self._cost = Mean(), Mean()

    def add(self, record: PageTrial) -> list[Any]:
        """Adds a prompt with its trials; returns its row."""
        row, group = trial_row(record), group_of(record.metadata, self._by)
        self.records += 1
        self._counts.add(row)
        name = group if group in self._groups or len(self._groups) < MOST_GROUPS else OTHER_GROUPS
        self._groups.setdefault(name, TrialCounts()).add(row)
        self.statuses[trials_status(row)] += 1
        self.facts.add(record.metadata, timings_of(record.trials or ()))
        for trial in record.trials or ():
            tokens = tokens_of(trial.timing) if trial.timing else None
            self._measured.add(trial.milliseconds, tokens)
            self._tokens.add(tokens)
            self._cost.add(trial.timing.cost_usd if trial.timing else None)
        for score in row.scores:
            count_score(self._scores, score)
        return trials_row(record, row, group)

    def text(self, record: PageTrial) -> str:
        """What the quick search finds the prompt by."""
        return trials_text(record)

    def page_data(self) -> Record:
        """All figures, for the script."""
        return {
            "tiles": [*self._rate_tiles(), *self._count_tiles(), *self._usage_tiles(), self._measured.latency_tile()],
            "graders": [],
            "groups": [trials_bar(name, counts) for name, counts in sorted(self._groups.items())],
            "scores": self._scores if any(self._scores) else None,
            **self._measured.plots(),
        }

    def _rate_tiles(self) -> list[Tile]:
        counts = self._counts
        if counts.rate is None:
            return [tile("Pass rate", None, "nothing is graded")]
        interval = counts.interval
        sure = f"; 95% interval {percent_span(interval)}" if interval else ""
        note = f"{counts.passed:,} of {counted(counts.graded, 'trial')} passed{sure}"
        k, at, exp, over = counts.at_k()
        prompts = f"over {counted(over, 'prompt')}"
        return [
            tile("Pass rate", percent(counts.rate), note, interval, counts.rate),
            tile(f"pass@{k}", percent(at), f"at least one of {k} passes, {prompts}"),
            tile(f"pass^{k}", percent(exp), f"all {k} pass, {prompts}"),
            tile("Flaky prompts", whole(self.statuses[FLAKY]), f"of {counted(counts.prompts, 'prompt')}"),
        ]

    def _count_tiles(self) -> list[Tile]:
        counts = self._counts
        of = f"of {counted(counts.trials, 'trial')}"
        ungraded = counts.trials - counts.graded
        errors = "grader error" if counts.grader_errors == 1 else "grader errors"
        waiting = ungraded - counts.grader_errors
        why = breakdown((waiting, "not graded"), (counts.grader_errors, errors)).strip(" ()")
        return [
            tile("Agents failed", whole(counts.failed), of),
            tile("Ungraded", whole(ungraded), why or "every trial has a grade"),
        ]

    def _usage_tiles(self) -> list[Tile]:
        tokens, cost = self._tokens, self._cost
        return [
            tile("Tokens", whole(tokens.total), f"mean {whole(tokens.value)} over {tokens.count:,}")
            if tokens.count
            else tile("Tokens", None, "not reported"),
            tile("Cost", f"${cost.total:,.2f}", f"mean ${cost.value:,.4f} over {cost.count:,}")
            if cost.count
            else tile("Cost", None, "not reported"),
        ]


def trials_bar(name: str, counts: TrialCounts) -> Mapping[str, Any]:
    """The pass rate of the trials of one category, with its interval."""
    rate, interval = counts.rate, counts.interval
    return {
        "name": name,
        "passed": counts.passed,
        "count": counts.graded,
        "rate": rate,
        "interval": interval,
        "mean": "",
        "shown": percent(rate) if counts.graded else "not graded",
        "sure": percent_span(interval) if interval else "",
        "records": counts.prompts,
        "errors": counts.failed,
    }
