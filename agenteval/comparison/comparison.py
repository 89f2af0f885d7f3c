"""Runs → the report of ae-compare: rows are paired by prompt, figures computed, and the outcome put in words.

Results and trials go the same way, a result being a prompt with one trial. What differs is which blocks the two reports
have (wire/comparison.py keeps the form of agent-eval-harness for both) and the terms of the weighted strategy.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

from msgspec.structs import asdict

from agenteval.comparison import figures, pairing
from agenteval.comparison.figures import Report, run_k
from agenteval.comparison.pairing import (
    Listing,
    PairAnalysis,
    PromptScores,
    Rows,
    Scores,
    Strategy,
    WinCounts,
    shared_prompts,
    winner,
)
from agenteval.comparison.preference import PromptRanking, by_rankings, preference_of
from agenteval.comparison.ranking import information, ranking_of
from agenteval.comparison.row_table import RowFigures, at_k
from agenteval.comparison.rows import RowOptions, RunRows
from agenteval.comparison.verdicts import STOPPED, decide_by_preference, details
from agenteval.statistics.paired import mid_p, sign_test
from agenteval.statistics.samples import MOST_PROMPTS
from agenteval.streams.text import counted, whole_number
from agenteval.wire import comparison as wire
from agenteval.wire.differences import Difference
from agenteval.wire.records import Record

Weights = Mapping[str, float]
RESULT_WEIGHTS: Weights = {"quality": 0.5, "latency": 0.3, "reliability": 0.2}
TRIAL_WEIGHTS: Weights = {"capability": 0.4, "reliability": 0.4, "consistency": 0.2}
FEW_CLUSTERS = 20
OF_RESULT = ("output", "trajectory", "toolErrors")
OF_TRIALS = ("passRate", "passAtK", "passExpK", "passAt", "passExp", "k", "trials")


class CompareSettings(NamedTuple):
    """The strategy and what it needs: weights, or the resamples of the bootstrap and their seed."""

    strategy: wire.StrategyName
    weights: Weights | None = None
    iterations: int | None = None
    seed: int | None = None
    on: str = "passes"  # or score, or pass^k: the measure that decides
    margin: float = 0.05
    missing_fail: bool = False  # whether a prompt that the first run has and another lacks counts as not passed
    prompts: bool = False  # whether to say which prompts separate the runs
    brief: bool = False  # whether categories, who won which prompt and, of three runs or more, resources are left out


class Comparison:
    """Compares runs of results, or of trials, which are then a cluster of their prompt."""

    def __init__(self, *, trials: bool, options: RowOptions = RowOptions()) -> None:  # noqa: B008
        self.trials, self.options = trials, options
        self.default_weights = TRIAL_WEIGHTS if trials else RESULT_WEIGHTS

    def compare(
        self,
        runs: Sequence[RunRows],
        settings: CompareSettings,
        rankings: Mapping[str, PromptRanking] | None = None,
        now: float = 0.0,
    ) -> Report:
        """The whole report; `rankings` are the answers of the comparison grader, for the custom strategy."""
        runs = pairing.with_stops(runs)
        meta, strategy = self._meta(runs, settings, rankings, now), self.strategy(settings, rankings)
        report = self._report(runs, strategy, meta, settings)
        pairs = report.statistics.pairs
        if rankings is not None:
            report.preference = preference_of([run.label for run in runs], rankings)
            decide_by_preference(pairs, report.preference)
        for pair in pairs:
            pair.sentences = [f"{line.title}: {line.text}." for line in details(pair, report)]
        if settings.prompts:
            report.prompts = separation(runs)
        if len(runs) > 2:
            report.ranking = ranking_of(report, runs)
            for ranked in report.ranking.runs:
                report.statistics.runs[ranked.run].rank = ranked.rank
        if settings.iterations is not None:
            for run in runs:
                interval = figures.mean_latency_interval(run, settings.iterations, settings.seed or 0)
                report.performance[run.label].confidence_intervals = interval
        return report

    def _meta(
        self,
        runs: Sequence[RunRows],
        settings: CompareSettings,
        rankings: Mapping[str, PromptRanking] | None,
        now: float,
    ) -> wire.ReportMeta:
        """What was compared, and all that is needed to do it again."""
        ids, by, cluster_by = pairing.prompt_ids(runs), *self.options
        set_back = {run.label: run.total("clock_set_back") for run in runs}
        facts: dict[str, Any] = {
            "generated_at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03}Z",
            "runs": [run.label for run in runs],
            "prompt_count": len(ids),
            "prompts_with_all_runs": sum(all(id in run.rows for run in runs) for id in ids),
            "missing": pairing.missing_prompts(runs),
            "strategy": settings.strategy,
            "weights": dict(settings.weights) if settings.weights else None,
            "bootstrap_iterations": settings.iterations,
            "seed": settings.seed,
            "by": by.removeprefix("metadata.") if any(any(run.rows.column("categories")) for run in runs) else None,
            "cluster_by": cluster_by.removeprefix("metadata.") if cluster_by else None,
            "clusters": len({name for run in runs for name in run.clusters(run.rows) or ()}) if cluster_by else None,
            "changed_input": {run.label: list(run.changed) for run in runs if run.changed} or None,
            "negative_durations": {label: count for label, count in set_back.items() if count} or None,
            "on": settings.on,
            "margin": settings.margin,
            "grader_errors": None if rankings is None else sum(found.error is not None for found in rankings.values()),
        }
        if not self.trials:
            return wire.ReportMeta(**facts)
        ks = {run.label: Counter(run.rows.column("k")) for run in runs}
        mixed = {label: {str(k): counts[k] for k in sorted(counts)} for label, counts in ks.items()}
        return wire.ReportMeta(
            **facts,
            trials_per_prompt=min((run_k(run) for run in runs if run.rows), default=None),
            input_format="trials",
            mixed_k=mixed if len({k for counts in ks.values() for k in counts}) > 1 else None,
        )

    # --- how a prompt is won ---

    def strategy(self, settings: CompareSettings, rankings: Mapping[str, PromptRanking] | None = None) -> Strategy:
        """How prompts are won: by the comparison grader, by the weighted score, or by score or pass rate alone."""
        if rankings is not None:
            return by_rankings(rankings)
        weights = settings.weights
        if weights is None:
            return pairing.by_scores(self.plain_scores)

        def weighted(_id: str, rows: Rows) -> PromptScores:
            if self.trials:
                scores, alone = weighted_trials(rows, weights), len({row.k for row in rows.values()}) == 1
            else:
                scores, alone = weighted_results(rows, weights)
            return PromptScores(scores, scores, alone=alone)

        return weighted

    def plain_scores(self, rows: Rows) -> Scores:
        """The grader's scores, of trials the share that passed."""
        return {label: row.pass_rate if self.trials else row.score for label, row in rows.items()}

    def payload(self, id: str, records: Mapping[str, Record], rows: Rows) -> Record:
        """What a comparison grader gets for one prompt; a field that the first record lacks is left out."""
        first = next(iter(records.values()))
        prompt = {field: first[field] for field in ("input", "hint", "metadata") if first.get(field) is not None}
        of_run = trials_payload if self.trials else result_payload
        return {"id": id, **prompt, "runs": {label: of_run(record, rows[label]) for label, record in records.items()}}

    # --- the two forms of the report ---

    def _report(
        self, runs: Sequence[RunRows], strategy: Strategy, meta: wire.ReportMeta, settings: CompareSettings
    ) -> Report:
        """The figures of each run and of every two."""
        paired, compared = runs, [] if settings.brief else runs
        if settings.missing_fail:
            paired, missing = pairing.with_missing(runs)
            meta.counted_as_failed = missing or None

        def each(figure: Callable[[RunRows], Any]) -> dict[str, Any]:
            return {run.label: figure(run) for run in runs}

        shared: dict[str, Any] = {
            "meta": meta,
            "performance": each(partial(figures.performance, trials=self.trials)),
            "usage": figures.usage(runs),
            "by_category": None if settings.brief else pairing.by_category(paired, figures.category_run),
        }
        exponent = whole_number(meta.on.removeprefix("pass^"))
        analyses = zip(
            pairing.analyse_pairs(paired, exponent, trials=self.trials, brief=settings.brief and len(runs) > 2),
            combinations(runs, 2),
            strict=True,
        )
        statistics = wire.Statistics(
            runs=each(figures.run_statistics),
            pairs=[self._pair(pair, meta.on, a, b) for pair, (a, b) in analyses],
        )
        if not self.trials:
            return wire.ComparisonReport(
                **shared,
                quality=each(figures.quality),
                reliability=each(figures.reliability),
                trajectory_info=each(figures.trajectory_info),
                statistics=statistics,
                head_to_head=head_to_head(compared, strategy),
            )
        wins, prompts = trials_head_to_head(compared, strategy)
        scored = {label: found for label, found in each(figures.trial_quality).items() if found}
        return wire.TrialsComparisonReport(
            **shared,
            capability=each(figures.capability),
            reliability=each(figures.trial_reliability),
            flakiness=each(figures.flakiness),
            quality=scored or None,
            statistics=statistics,
            head_to_head=wins,
            per_prompt=prompts,
        )

    def _pair(self, pair: PairAnalysis, on: str, a: RunRows, b: RunRows) -> wire.PairStatistics:
        """What the report says of two runs; its own fields are those of the measure that decides."""
        deciding: Difference = pair.scores if on == "score" else pair.passes
        if on.startswith("pass^") and pair.pass_exp is not None:
            deciding = pair.pass_exp
            if pair.passes.n and not deciding.n:
                deciding.verdict = f"no prompt has {counted(pair.pass_exp.k, 'graded trial')} in both"
        elif pair.passes.n and not deciding.n:
            deciding.verdict = "no prompt has a score in both"
        return wire.PairStatistics(
            **{name: value for name, value in asdict(deciding).items() if name != "k"},
            stopped=(a.stopped or b.stopped) and pairing.is_known(deciding, b.stop_margin),
            pass_rate=pair.passes,
            mcnemar=None if self.trials else mcnemar(pair.passes),
            score=pair.scores if pair.scores.n else None,
            pass_exp=pair.pass_exp,
            flips=pair.flips,
            resources=pair.resources,
            sentences=[],
        )


def mcnemar(passes: Difference) -> wire.McNemar:
    """McNemar's test of the prompts that only one of two runs passed."""
    b, c = passes.wins, passes.losses
    return wire.McNemar(b=b, c=c, p=mid_p(b, c), exact_p=sign_test(b, c))


def separation(runs: Sequence[RunRows]) -> wire.Separation:
    """Which prompts tell the runs apart, those that tell most first, and which tell nothing."""
    separating, never, always = [], [], []
    for id, rows in shared_prompts(runs):
        rates = {label: row.pass_rate for label, row in rows.items() if row.pass_rate is not None}
        if len(rates) < 2:
            continue
        rate, spread = sum(rates.values()) / len(rates), information(list(rates.values())) or 0.0
        if not any(rates.values()):
            never.append(id)
        elif all(one == 1 for one in rates.values()):
            always.append(id)
        else:
            separating.append(wire.SeparatingPrompt(id=id, pass_rate=rate, information=spread, runs=rates))
    separating.sort(key=lambda prompt: -prompt.information)
    return wire.Separation(prompts=separating, never_pass=never, always_pass=always)


def remarks(report: Report) -> list[str]:
    """What a reader of the figures should know about the files."""
    meta = report.meta
    lines = [
        f"{label}: {counted(count, 'record')} with a negative duration: the clock was set back, so it is unknown"
        for label, count in (meta.negative_durations or {}).items()
    ]
    stopped = [f"{pair.run_b} against {pair.run_a}" for pair in report.statistics.pairs if pair.stopped and pair.better]
    if stopped:
        lines.append(f"stopped early: {STOPPED} ({', '.join(stopped)})")
    if meta.clusters and meta.clusters == meta.prompt_count:
        key = f"metadata.{meta.cluster_by}"
        lines.append(f"no two prompts have the same {key}: each is its own cluster, as without --cluster-by")
    elif meta.clusters and meta.clusters < FEW_CLUSTERS:
        few = f"only {counted(meta.clusters, 'cluster')}"
        lines.append(f"{few}: intervals are wide, and less reliable than with {FEW_CLUSTERS} or more")
    lines += [
        f"{label}: the mean latency includes {counted(found.timeouts, 'timeout')}"
        for label, found in report.performance.items()
        if found.timeouts and found.confidence_intervals
    ]
    if meta.mixed_k:
        ks = ", ".join(f"{label} {' and '.join(counts)}" for label, counts in meta.mixed_k.items())
        lines.append(
            f"k differs ({ks}): passAtK and passExpK of a run are for its own k, "
            "and a prompt is compared at the smallest k of its runs"
        )
    for label, found in report.statistics.runs.items():
        if found.prompts and not found.graded_prompts and report.preference is None:
            lines.append(f"{label}: no record is graded; grade the run with ae-grade")
        if found.incomplete:
            incomplete = f"{label}: {found.incomplete} of {found.prompts} prompts do not have k trials"
            lines.append(f"{incomplete}; those they have are counted")
        reliability, k = report.reliability[label], str(meta.trials_per_prompt)
        over = reliability.pass_exp_n.get(k, 0) if isinstance(reliability, wire.TrialReliability) else found.prompts
        if over < MOST_PROMPTS * found.graded_prompts:
            lines.append(
                f"{label}: pass@{k} and pass^{k} are over {over} of {found.graded_prompts} prompts, those with "
                f"{k} graded trials: they may differ from the others, so no interval is given"
            )
    return lines


# --- results ------------------------------------------------------------------------------------


def weighted_results(rows: Rows, weights: Weights) -> tuple[Scores, bool]:
    """Quality, speed and reliability in one number, over the terms that all the rows have; and whether that is all.

    agent-eval-harness takes 0 for a missing score and 10 s for a missing duration. Here such a term is left out for
    every run of that prompt, and the others are scaled up to the full weight: what is not known neither helps nor
    hurts.
    """
    terms = {label: (row.score, row.duration, row.unreliable) for label, row in rows.items()}
    scored = all(score is not None for score, _, _ in terms.values())
    timed = all(duration is not None for _, duration, _ in terms.values())
    quality, latency = weights["quality"] if scored else 0.0, weights["latency"] if timed else 0.0
    known = quality + latency + weights["reliability"]
    if known <= 0:
        return dict.fromkeys(rows), False
    scale = sum(weights.values()) / known
    scores: Scores = {
        label: scale
        * (
            quality * (score or 0.0)
            + latency / (1 + (duration or 0.0) / 1000)
            + (0.0 if unreliable else weights["reliability"])
        )
        for label, (score, duration, unreliable) in terms.items()
    }
    return scores, scored and timed


def grades(rows: Rows) -> Scores:
    """The grader's scores, one that passed above any that did not."""
    return {label: None if (score := row.score) is None else score + 2 * row.passed for label, row in rows.items()}


def result_payload(record: Record, _row: RowFigures) -> Record:
    """Output, trajectory, score and duration; what the record lacks is left out."""
    payload: Record = {field: record[field] for field in OF_RESULT if field in record}
    if record.get("score") is not None and not record.get("graderError"):
        payload["score"] = record["score"]
    if (total := (record.get("timing") or {}).get("total")) is not None:
        payload["duration"] = total
    return payload


def head_to_head(runs: Sequence[RunRows], strategy: Strategy) -> wire.HeadToHead:
    """An entry for every prompt that two runs or more have, and the wins of every two runs."""
    wins = WinCounts(runs, lambda id, rows: strategy(id, rows).standing)
    by_grade = WinCounts(runs, lambda _id, rows: grades(rows))
    for id, rows in shared_prompts(runs):
        judged = strategy(id, rows)
        wins.count(id, rows, judged.standing, alone=judged.alone)
        by_grade.count(id, rows, grades(rows), alone=True)
    prompts = Listing(lambda: prompt_comparisons(runs, strategy))
    return wire.HeadToHead(prompts=prompts, pairwise=wins.pairwise(), quality=by_grade.pairwise())


def prompt_comparisons(runs: Sequence[RunRows], strategy: Strategy) -> Iterator[wire.PromptComparison]:
    """Yields an entry for every prompt that two runs or more have."""
    for id, rows in shared_prompts(runs):
        judged = strategy(id, rows)
        yield wire.PromptComparison(
            id=id,
            winner=winner(judged.standing),
            quality_winner=winner(grades(rows)),
            scores=judged.scores,
            latencies={label: row.duration for label, row in rows.items()},
            had_errors={label: row.unreliable for label, row in rows.items()},
            reasoning=judged.reasoning,
            grader_error=judged.grader_error,
        )


# --- trials -------------------------------------------------------------------------------------


def weighted_trials(rows: Rows, weights: Weights) -> Scores:
    """passAtK, passExpK and freedom from flakiness in one number; None for a run that is not graded."""

    def score(row: RowFigures) -> float | None:
        if row.pass_at_k is None or row.pass_exp_k is None or row.flakiness is None:
            return None
        steady = 1 - row.flakiness
        passes: float = row.pass_at_k * weights["capability"] + row.pass_exp_k * weights["reliability"]
        return passes + steady * weights["consistency"]

    return {label: score(row) for label, row in at_common_k(rows).items()}


def at_common_k(rows: Rows) -> dict[str, RowFigures]:
    """The rows of one prompt at their smallest k: passing once in five trials is easier than once in three."""
    k = min(row.k for row in rows.values())
    return {label: at_k(row, k) for label, row in rows.items()}


def trials_payload(record: Record, row: RowFigures) -> Record:
    """The trials and their rates; rates that the record lacks are computed."""
    known = {"passRate": row.pass_rate, "passAtK": row.pass_at_k, "passExpK": row.pass_exp_k}
    given = {field: record[field] for field in OF_TRIALS if record.get(field) is not None}
    return {**{field: rate for field, rate in known.items() if rate is not None}, **given}


def trials_head_to_head(
    runs: Sequence[RunRows], strategy: Strategy
) -> tuple[wire.TrialsHeadToHead, Sequence[wire.TrialsPrompt]]:
    """The wins of every two runs, and an entry for every prompt that two runs or more have."""
    overall = WinCounts(runs, lambda id, rows: strategy(id, rows).standing)
    by_at = WinCounts(runs, lambda _id, rows: values_of(at_common_k(rows), "pass_at_k"))
    by_exp = WinCounts(runs, lambda _id, rows: values_of(at_common_k(rows), "pass_exp_k"))
    for id, rows in shared_prompts(runs):
        judged, alike, one_k = strategy(id, rows), at_common_k(rows), len({row.k for row in rows.values()}) == 1
        overall.count(id, rows, judged.standing, alone=judged.alone)
        by_at.count(id, rows, values_of(alike, "pass_at_k"), alone=one_k)
        by_exp.count(id, rows, values_of(alike, "pass_exp_k"), alone=one_k)
    wins = wire.TrialsHeadToHead(capability=by_at.pairwise(), reliability=by_exp.pairwise(), overall=overall.pairwise())
    return wins, Listing(lambda: trials_prompts(runs, strategy))


def trials_prompts(runs: Sequence[RunRows], strategy: Strategy) -> Iterator[wire.TrialsPrompt]:
    """Yields an entry for every prompt that two runs or more have."""
    for id, rows in shared_prompts(runs):
        judged, alike = strategy(id, rows), at_common_k(rows)
        at, exp = values_of(alike, "pass_at_k"), values_of(alike, "pass_exp_k")
        yield wire.TrialsPrompt(
            id=id,
            capability_winner=winner(at),
            reliability_winner=winner(exp),
            winner=winner(judged.standing),
            k=min(row.k for row in rows.values()),
            pass_rate=values_of(alike, "pass_rate"),
            pass_at_k=at,
            pass_exp_k=exp,
            flakiness=values_of(alike, "flakiness"),
            scores=judged.scores,
            reasoning=judged.reasoning,
            grader_error=judged.grader_error,
        )


def values_of(rows: Rows, field: str) -> Scores:
    """A field of the rows of one prompt."""
    return {label: getattr(row, field) for label, row in rows.items()}
