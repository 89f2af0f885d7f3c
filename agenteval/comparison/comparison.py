"""A comparison of runs, whatever kind of record they hold: how it goes from rows to the report."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple

from agenteval.comparison.analysis.differences import cluster_name
from agenteval.comparison.analysis.gate import GateSettings
from agenteval.comparison.pairing import (
    PromptScores,
    R,
    RunRows,
    Scores,
    Strategy,
    by_scores,
    missing_prompts,
    prompt_ids,
)
from agenteval.comparison.preference.orders import PromptRanking
from agenteval.comparison.preference.outcome import decide_by_preference
from agenteval.comparison.preference.preference import preference_of
from agenteval.comparison.ranking import by_rankings
from agenteval.comparison.row_facts import RowOptions
from agenteval.statistics.intervals import bounds
from agenteval.streams.text import counted
from agenteval.wire.comparison import PerformanceIntervals, ReportMeta, StrategyName
from agenteval.wire.records import Record

Weights = Mapping[str, float]


class CompareSettings(NamedTuple):
    """The strategy and what it needs: weights, or the resamples of the bootstrap and their seed."""

    strategy: StrategyName
    weights: Weights | None = None
    iterations: int | None = None
    seed: int | None = None
    margin: float = 0.05


class Comparison(ABC, Generic[R]):
    """How runs of one kind of record are compared; a subclass for results, one for trials."""

    noun: ClassVar[str]
    view: ClassVar[type[Any]]
    """The type that decodes the fields of a line that are needed."""
    default_weights: ClassVar[Weights]
    """The terms of the weighted strategy."""
    meta_type: ClassVar[type[ReportMeta]] = ReportMeta

    def __init__(self, options: RowOptions = RowOptions()) -> None:  # noqa: B008
        self.options = options

    @property
    def clustered(self) -> bool:
        """Whether prompts that share a value of the metadata are a cluster."""
        return self.options.cluster_by is not None

    def clusters(self, runs: Sequence[RunRows[R]]) -> int | None:
        """How many clusters the prompts of all runs make; None without clusters."""
        if not self.clustered:
            return None
        return len({cluster_name(id, row) for run in runs for id, row in run.rows.items()})

    # --- what a kind of record defines ---

    @abstractmethod
    def row(self, view: Any, line: int = 0) -> R:
        """What is kept of a record; BadRecord if it is of another kind."""

    def complete(self, rows: dict[str, R]) -> dict[str, R]:
        """The rows of a run once all are read."""
        return rows

    @abstractmethod
    def weighted_scores(self, rows: Mapping[str, R], weights: Weights) -> Scores:
        """The scores of one prompt by the weighted strategy."""

    def standing(self, _rows: Mapping[str, R], scores: Scores) -> Scores:
        """What decides who wins a prompt by the weighted strategy."""
        return scores

    @abstractmethod
    def plain_scores(self, rows: Mapping[str, R]) -> Scores:
        """The scores of one prompt by the statistical strategy."""

    @abstractmethod
    def run_payload(self, record: Record, row: R) -> Record:
        """What a comparison grader gets of one run's record."""

    @abstractmethod
    def report(self, runs: Sequence[RunRows[R]], strategy: Strategy[R], meta: Any) -> Any:
        """The report without bootstrap intervals."""

    @abstractmethod
    def durations(self, row: R) -> Sequence[float]:
        """The times of a record: one, or that of each trial."""

    @abstractmethod
    def gate(self, report: Any, settings: GateSettings) -> list[str]:
        """A sentence for each reason for which a run does not pass the gate against the first one, the baseline."""

    def more_meta(self, _runs: Sequence[RunRows[R]]) -> dict[str, Any]:
        """Further fields of the report's meta."""
        return {}

    def remarks(self, report: Any) -> list[str]:
        """What a reader of the figures should know about the files."""
        lines = [
            f"{label}: {counted(count, 'record')} with a negative duration: the clock was set back, so it is not known"
            for label, count in (report.meta.negative_durations or {}).items()
        ]
        meta = report.meta
        if meta.clusters and meta.clusters == meta.prompt_count:
            key = f"metadata.{meta.cluster_by}"
            lines.append(f"no two prompts have the same {key}: each is a cluster of its own, as without --cluster-by")
        return lines

    # --- what they share ---

    def compare(
        self,
        runs: Sequence[RunRows[R]],
        settings: CompareSettings,
        rankings: Mapping[str, PromptRanking] | None = None,
        now: float = 0.0,
    ) -> Any:
        """The whole report; `rankings` are the answers of the comparison grader, for the custom strategy."""
        report = self.report(runs, self.strategy(settings, rankings), self.meta(runs, settings, rankings, now))
        if rankings is not None:
            report.preference = preference_of([run.label for run in runs], rankings)
            decide_by_preference(report.statistics.pairs, report.preference)
        if settings.iterations is not None:
            from agenteval.statistics.intervals import bootstrap_mean_interval

            for run in runs:
                times = (self.durations(row) for row in run.rows.values())
                found = bootstrap_mean_interval(times, settings.iterations, settings.seed or 0)
                report.performance[run.label].confidence_intervals = PerformanceIntervals(latency_mean=bounds(found))
        return report

    def strategy(self, settings: CompareSettings, rankings: Mapping[str, PromptRanking] | None = None) -> Strategy[R]:
        """How prompts are won."""
        if rankings is not None:
            return by_rankings(rankings)
        weights = settings.weights
        if weights is None:
            return by_scores(self.plain_scores)

        def weighted(_id: str, rows: Mapping[str, R]) -> PromptScores:
            scores = self.weighted_scores(rows, weights)
            return PromptScores(scores, self.standing(rows, scores))

        return weighted

    def meta(
        self,
        runs: Sequence[RunRows[R]],
        settings: CompareSettings,
        rankings: Mapping[str, PromptRanking] | None,
        now: float,
    ) -> ReportMeta:
        """What was compared, and all that is needed to do it again."""
        ids = prompt_ids(runs)
        return self.meta_type(
            generated_at=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}Z",
            runs=[run.label for run in runs],
            prompt_count=len(ids),
            prompts_with_all_runs=sum(all(id in run.rows for run in runs) for id in ids),
            missing=missing_prompts(runs),
            strategy=settings.strategy,
            weights=dict(settings.weights) if settings.weights else None,
            bootstrap_iterations=settings.iterations,
            seed=settings.seed,
            by=".".join(self.options.by) if any(row.category for run in runs for row in run.rows.values()) else None,
            cluster_by=".".join(self.options.cluster_by) if self.options.cluster_by else None,
            clusters=self.clusters(runs),
            changed_input={run.label: list(run.changed) for run in runs if run.changed} or None,
            negative_durations=clocks_set_back(runs) or None,
            margin=settings.margin,
            grader_errors=None if rankings is None else sum(found.error is not None for found in rankings.values()),
            **self.more_meta(runs),
        )

    def payload(self, id: str, records: Mapping[str, Record], rows: Mapping[str, R]) -> Record:
        """What a comparison grader gets for one prompt; a field that the first record lacks is left out."""
        first = next(iter(records.values()))
        prompt = {field: first[field] for field in ("input", "hint", "metadata") if first.get(field) is not None}
        runs = {label: self.run_payload(record, rows[label]) for label, record in records.items()}
        return {"id": id, **prompt, "runs": runs}


def clocks_set_back(runs: Sequence[RunRows[R]]) -> dict[str, int]:
    """For each run that has any: how many records have a negative duration."""
    counts = {run.label: sum(row.clock_set_back for row in run.rows.values()) for run in runs}
    return {label: count for label, count in counts.items() if count}
