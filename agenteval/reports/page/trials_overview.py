"""The top of the page of a file of trials: how often prompts pass, how steadily, and at what cost."""

from __future__ import annotations

from agenteval.comparison.trial_rows import TrialRow, trial_row
from agenteval.reports.figures import percent, whole
from agenteval.reports.page.overview import Overview, Tile, cost_tile, rate_bar, rate_tile, tile, ungraded_tile
from agenteval.reports.page.rows import FLAKY, PageRow, PageTrial, trials_row, trials_status, trials_text
from agenteval.reports.run_summary import Mean, TrialPrompts
from agenteval.streams.text import counted
from agenteval.wire.records import Record


class TrialCounts:
    """Trials by how they ended, and prompts by how many of their trials pass."""

    def __init__(self) -> None:
        self.trials = self.failed = self.grader_errors = 0
        self.prompts = TrialPrompts()

    def add(self, row: TrialRow) -> None:
        """Adds a prompt."""
        self.trials += row.trials
        self.failed += row.failed
        self.grader_errors += row.grader_errors
        self.prompts.add_prompt(row.k, row.graded, row.passed, 1)


class TrialsOverview(Overview[TrialCounts]):
    """The overview of a file of trials."""

    kind = "trials"
    noun = "prompt"

    def __init__(self, by: str) -> None:
        super().__init__(by, TrialCounts)
        self._used, self._cost = Mean(), Mean()

    def add(self, record: PageTrial) -> PageRow:
        """Adds a prompt with its trials; returns its row."""
        row = trial_row(record)
        group, sums = self.count(record.metadata, trials_status(row))
        for counts in sums:
            counts.add(row)
        trials = record.trials or ()
        self.facts.add(record.metadata, [trial.timing for trial in trials])
        for trial in trials:
            tokens = trial.timing.tokens if trial.timing else None
            self.add_measured(trial.milliseconds, tokens)
            self._used.add(tokens)
            self._cost.add(trial.timing.cost_usd if trial.timing else None)
        for score in row.scores:
            self.add_score(score)
        return trials_row(record, row, group)

    def text(self, record: PageTrial) -> str:
        """What the quick search finds the prompt by."""
        return trials_text(record)

    def tiles(self) -> list[Tile]:
        """The tiles of trials."""
        sums, used = self.sums, self._used
        ungraded = sums.trials - sums.prompts.graded - sums.grader_errors
        mean = f"mean {whole(used.value)} over {used.count:,}" if used.count else "not reported"
        return [
            *self._rate_tiles(sums.prompts),
            tile("Agents failed", whole(sums.failed), f"of {counted(sums.trials, 'trial')}"),
            ungraded_tile(ungraded, sums.grader_errors, "trial"),
            tile("Tokens", whole(used.total) if used.count else None, mean),
            cost_tile(self._cost),
        ]

    def _rate_tiles(self, prompts: TrialPrompts) -> list[Tile]:
        rate = rate_tile(prompts.passed, prompts.graded, counted(prompts.graded, "trial"), prompts.interval())
        if not prompts.graded:
            return [rate]
        k = prompts.k
        at, every = (prompts.estimate(sign, k) for sign in "@^")
        over = f"over {counted(at.prompts if at else 0, 'prompt')}"
        return [
            rate,
            tile(f"pass@{k}", percent(at.value if at else None), f"at least one of {k} passes, {over}"),
            tile(f"pass^{k}", percent(every.value if every else None), f"all {k} pass, {over}"),
            tile("Flaky prompts", whole(self.statuses[FLAKY]), f"of {counted(prompts.prompts, 'prompt')}"),
        ]

    def group_bar(self, name: str, group: TrialCounts) -> Record:
        """The pass rate of the trials of one category, with its interval."""
        prompts = group.prompts
        bar = rate_bar(name, prompts.passed, prompts.graded, prompts.interval())
        return {**bar, "records": prompts.prompts, "errors": group.failed}
