"""markdown: the verdict in words, or the ranking of three or more runs, then the figures behind it"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Any

from agenteval.comparison import figures
from agenteval.comparison.figures import STEPS, Pair, Report, RunFigure, measures
from agenteval.comparison.ranking import by_names, difference_of, separating
from agenteval.comparison.verdicts import capitalized, dropped, headline, p_text, points, preference_words
from agenteval.reports.figures import UNKNOWN, number, percent, span
from agenteval.reports.forms import ReportContext
from agenteval.reports.markup import inline, page, table
from agenteval.reports.run_columns import INTERVAL, SHOW, interval_text, ranking_table, run_columns
from agenteval.streams.text import counted, first_few
from agenteval.wire.comparison import (
    ComparisonReport,
    Pairwise,
    PromptComparison,
    RankedPrompt,
    ReportMeta,
    Separation,
    TrialsComparisonReport,
    TrialsPrompt,
)
from agenteval.wire.differences import Category, Difference, PositionBias, Preference
from agenteval.wire.row import ERROR, FAIL, PASS

PROMPTS_SHOWN = 10
MARKS = {PASS: "✅", FAIL: "❌", ERROR: "💥"}
ESTIMATED = " An asterisk marks a cost that is estimated at list prices, not billed."
MISSING_SHOWN = 20
WOULD_SHOW = "Would show: the smallest difference that this many prompts detect with 80% power."
RESULTS_WON_BY = {
    "weighted": "the weighted score of quality, speed and reliability",
    "statistical": "the grader's score",
    "custom": "the comparison grader's ranking",
}
TRIALS_WON_BY = {
    "weighted": "the weighted score of capability, reliability and consistency",
    "statistical": "the pass rate",
    "custom": "the comparison grader's ranking",
}


def render(report: Report, _context: ReportContext) -> Iterator[bytes]:
    """Yields the report as markdown."""
    sections = trial_sections(report) if isinstance(report, TrialsComparisonReport) else result_sections(report)
    yield page(sections).encode()


def result_sections(report: ComparisonReport) -> list[list[str]]:
    """All sections of a report on results, the verdict first."""
    meta = report.meta
    return [
        head("Comparison Report", meta),
        preference_section(report.preference),
        *ranking_sections(report),
        verdicts(report),
        quality_section(report),
        categories_section(report.by_category, meta),
        flips_section(report),
        *latency_sections(report),
        usage_section(report),
        by_run("## Reliability", figures.RELIABILITY, report),
        wins_section(report),
        differences_section(report),
        differing_prompts(((prompt, prompt.scores) for prompt in report.head_to_head.prompts), meta),
        separation_section(report.prompts),
        missing_section(meta),
    ]


def trial_sections(report: TrialsComparisonReport) -> list[list[str]]:
    """All sections of a report on trials, the verdict first."""
    meta = report.meta
    clusters = "The trials of a prompt are a cluster: intervals are based on prompts, not trials."
    scored = [label for label in meta.runs if label in (report.quality or {})]
    return [
        head("Trials Comparison Report", meta, f"Trials: {trials_per_prompt(meta)}"),
        preference_section(report.preference),
        *ranking_sections(report),
        verdicts(report),
        [*by_run("## Pass rate", figures.TRIAL_RATES, report), "", clusters],
        estimates_section(report),
        categories_section(report.by_category, meta),
        flips_section(report),
        by_run("## Flakiness", figures.FLAKINESS, report),
        flaky_prompts_section(report),
        by_run("## Quality (scores)", figures.TRIAL_SCORES, report, scored) if scored else [],
        *latency_sections(report),
        usage_section(report),
        ["## Head to head", "", *wins_table(TRIALS_WON_BY[meta.strategy], report.head_to_head.overall)],
        differences_section(report),
        differing_prompts(((prompt, prompt.pass_rate) for prompt in report.per_prompt), meta),
        separation_section(report.prompts),
        missing_section(meta),
    ]


# --- the top ------------------------------------------------------------------------------------


def head(title: str, meta: ReportMeta, *more: str) -> list[str]:
    """Title, and what was compared."""
    facts = [
        f"Runs: {', '.join(map(inline, meta.runs))}",
        f"Prompts: {meta.prompt_count} in all, {meta.prompts_with_all_runs} in every run",
        *more,
        *([f"Clusters: prompts with the same {inline(meta.cluster_by)}"] if meta.cluster_by else []),
        f"Decided by: {inline(meta.on)}",
        f"Strategy: {meta.strategy}{_settings(meta)}",
        f"Generated: {meta.generated_at}",
    ]
    if meta.grader_errors:
        facts.append(f"Grader errors: {counted(meta.grader_errors, 'prompt')} could not be ranked")
    return [f"# {title}", "", *(f"- {fact}" for fact in facts)]


def _settings(meta: ReportMeta) -> str:
    if meta.weights:
        return f" ({', '.join(f'{term} {weight:g}' for term, weight in meta.weights.items())})"
    return f" ({meta.bootstrap_iterations} resamples, seed {meta.seed})" if meta.bootstrap_iterations else ""


def trials_per_prompt(meta: ReportMeta) -> str:
    """k, or which run has which."""
    if meta.trials_per_prompt is None:
        return "none"
    if not meta.mixed_k:
        return f"{meta.trials_per_prompt} per prompt"
    runs = (f"{inline(label)} {' and '.join(counts)}" for label, counts in meta.mixed_k.items())
    return f"k differs ({', '.join(runs)}); a prompt is compared at the smallest k of its runs"


def verdicts(report: Report) -> list[str]:
    """Which run is better, then a sentence on each measure and on what it takes; of many runs every two, folded."""
    pairs, lines = report.statistics.pairs, list[str]()
    for pair in pairs:
        lines += ["", f"**{inline(headline(pair))}**", "", *(f"- {inline(sentence)}" for sentence in pair.sentences)]
    if not report.ranking:
        return ["## Verdict", *lines]
    summary = f"Every pair of runs: verdicts and intervals, adjusted for the {len(pairs)} pairs (Holm's method)"
    return ["<details>", f"<summary>{summary}</summary>", *lines, "", "</details>"]


# --- three runs or more -------------------------------------------------------------------------


def ranking_sections(report: Report) -> Iterator[list[str]]:
    """The ranking, each against each, and the prompts that separate the runs; nothing of two runs."""
    ranking = report.ranking
    if ranking is None:
        return
    titles, rows, estimated = ranking_table(ranking)
    cells = [[str(at), rank, inline(label), *more] for at, (rank, label, *more) in enumerate(rows, 1)]
    lines = ["## Ranking", "", f"**{inline(capitalized(ranking.headline))}.**", ""]
    lines += table(["", *titles], cells, names=3)
    notes = "Rank: the range that the verdicts leave open (adjusted by Holm's method)."
    if figures.COST.title in titles:
        notes += f" Cost: mean per {'trial' if report.meta.input_format else 'prompt'}.{ESTIMATED * estimated}"
    if front := ranking.front:
        best = ", ".join(map(inline, front.runs))
        notes += f" The Pareto front of quality and {front.against} (no other run is better in both): {best}."
    yield [*lines, "", notes]
    runs, pairs = [one.run for one in ranking.runs], by_names(report.statistics.pairs)
    numbers = [str(at) for at in range(1, len(runs) + 1)]
    differences = [
        [f"{at} {inline(row)}", *(matrix_cell(pairs, row, column) for column in runs)] for at, row in enumerate(runs, 1)
    ]
    title = f"Percentage points of {ranking.measure.lower()}, row minus column; bold where one is shown to be better."
    yield ["## All pairs", "", *table(["", *numbers], differences), "", title]
    graded = [prompt.pass_rate for prompt in ranking.prompts if prompt.pass_rate is not None]
    never, always = graded.count(0), graded.count(1)
    telling = [
        [inline(prompt.id), *(prompt_mark(prompt, run) for run in runs)]
        for prompt in separating(ranking, PROMPTS_SHOWN)
    ]
    lines = ["## Prompts that separate the runs most", "", *table(["Prompt", *numbers], telling), ""] if telling else []
    yield [*lines, f"{counted(len(graded), 'graded prompt')}; passed by every run: {always:,}, by no run: {never:,}."]


def matrix_cell(pairs: Mapping[tuple[str, str], Pair], row: str, column: str) -> str:
    """By how many points a run is better than another; bold where one is shown to be."""
    if row == column:
        return ""
    difference, better = difference_of(pairs, row, column)
    text = UNKNOWN if difference is None else points(difference).removesuffix(" points")
    return f"**{text}**" if better else text


def prompt_mark(prompt: RankedPrompt, run: str) -> str:
    """What became of a prompt in a run: a mark, of trials its pass rate."""
    if prompt.rates is not None:
        return percent(prompt.rates.get(run))
    return MARKS.get(prompt.statuses[run], UNKNOWN)


def preference_section(found: Preference | None) -> list[str]:
    """Who wins by the comparison grader, how sure that is, and whether the order mattered."""
    if found is None:
        return []
    lines = [f"- {inline(pair.run_a)}, {inline(pair.run_b)}: {inline(preference_words(pair))}." for pair in found.pairs]
    parts = ["## The comparison grader's verdict", "", *lines]
    if found.strengths:
        rows = [
            [inline(row.run), number(row.strength, 2), span(row.interval, 2), percent(row.win_rate)]
            for row in found.strengths
        ]
        title = "Bradley-Terry strengths (log odds of being preferred to an average run):"
        parts += ["", title, "", *table(["Run", "Strength", INTERVAL, "Won"], rows)]
    bias = found.position_bias
    orders = (
        position_line(bias)
        if bias
        else "Asked once, in an order that varies by prompt: a preference for a position is noise."
    )
    return [*parts, "", orders]


def position_line(bias: PositionBias) -> str:
    """How often the order of the runs decided."""
    if not bias.n:
        return "No pair was ranked in both orders."
    changed = bias.n - bias.consistent
    text = f"Asked in both orders; {changed} of {counted(bias.n, 'answer')} changed with the order, and count as ties"
    if changed:
        text += f": {bias.first_preferred} for the run shown first, {bias.second_preferred} for the one shown second"
        text += f" (sign test: {p_text(bias.p)})"
    return f"{text}."


# --- each run -----------------------------------------------------------------------------------


def by_run(title: str, shown: Sequence[RunFigure], report: Report, labels: Sequence[str] | None = None) -> list[str]:
    """A section with a row of figures for each run, with intervals where the figures have them."""
    titles, rows = run_columns(report, shown, labels)
    return [title, "", *table(titles, [[inline(label), *cells] for label, *cells in rows])]


def quality_section(report: ComparisonReport) -> list[str]:
    """Passes and scores of each run with their intervals, and how many records they are over."""
    lines = by_run("## Quality", figures.QUALITY, report)
    if len({found.n for found in report.quality.values()}) > 1 or report.meta.missing:
        lines += ["", "A run's figures cover its own graded records; the verdict covers prompts graded in both runs."]
    return lines


def latency_sections(report: Report) -> Iterator[list[str]]:
    """Latency of each run, and the time to the first response, where they are known."""
    shown = list(figures.LATENCY)
    if report.meta.bootstrap_iterations:
        shown = [one._replace(interval=figures.BOOTSTRAPPED) if one.title == "Mean" else one for one in shown]
    if any(found.latency.n for found in report.performance.values()):
        yield by_run("## Latency", shown, report)
    first = [label for label in report.meta.runs if report.performance[label].first_response]
    if first:
        yield by_run("First response:", figures.FIRST_RESPONSE, report, first)


def usage_section(report: Report) -> list[str]:
    """Tokens and cost of each run, if any is known."""
    if not report.usage:
        return []
    lines = by_run("## Tokens and cost", figures.USAGE, report)
    if any(found.cost and found.cost.estimated for found in report.usage.values()):
        lines += ["", "Estimated costs are tokens times the model's list price (genai-prices), not what was billed."]
    return lines


def estimates_section(report: TrialsComparisonReport) -> list[str]:
    """pass@j and pass^j with their intervals, each over the prompts that have j graded trials."""
    most = max((int(j) for found in report.capability.values() for j in found.pass_at), default=0)
    if most < 2:
        return []
    rows = []
    for j in [str(j) for j in sorted({*STEPS, most}) if 1 < j <= most]:
        for label, once in report.capability.items():
            every = report.reliability[label]
            if j in once.pass_at:
                at = [number(once.pass_at[j]), interval_text(once.pass_at_intervals.get(j), "score")]
                exp = [number(every.pass_exp.get(j)), interval_text(every.pass_exp_intervals.get(j), "score")]
                rows.append([inline(label), j, *at, *exp, str(once.pass_at_n[j])])
    header = ["Run", "j", "pass@j", INTERVAL, "pass^j", INTERVAL, "Prompts with j trials"]
    title = "## Passed once (pass@j), passed every time (pass^j), of j trials"
    return [title, "", *table(header, rows), "", "Unbiased estimates (docs/statistics.md)."]


def flaky_prompts_section(report: TrialsComparisonReport) -> list[str]:
    """The most flaky prompts of each run."""
    rows = [
        [inline(label), inline(prompt.id), percent(prompt.pass_rate)]
        for label, found in report.flakiness.items()
        for prompt in found.top_flaky_prompts
    ]
    return ["Most flaky:", "", *table(["Run", "Prompt", "Pass rate"], rows, names=2)] if rows else []


def categories_section(categories: Mapping[str, Category] | None, meta: ReportMeta) -> list[str]:
    """Pass rates in each category, with their intervals, and what is shown of every two runs."""
    if not categories:
        return []
    rows = [
        [
            inline(name),
            inline(label),
            percent(run.pass_rate),
            interval_text(run.interval, "rate"),
            number(run.avg_score),
        ]
        + [interval_text(run.score_interval, "score"), str(run.n)]
        for name, category in categories.items()
        for label, run in category.runs.items()
    ]
    header = ["Category", "Run", "Pass rate", INTERVAL, "Mean score", INTERVAL, "Graded"]
    lines = [f"## By {inline(meta.by or 'category')}", "", *table(header, rows, names=2), ""]
    pairs = [
        [inline(name), inline(pair.run_a), inline(pair.run_b), *difference_cells(pair), inline(pair.verdict)]
        for name, category in categories.items()
        for pair in category.pairs
    ]
    title = ["Category", "A", "B", *DIFFERENCE_TITLES, "Verdict"]
    lines += ["Pass rates, paired by prompt; verdicts are adjusted for all of this table:", ""]
    return [*lines, *table(title, pairs, names=3)]


# --- run against run ----------------------------------------------------------------------------


DIFFERENCE_TITLES = ("n", "Mean A", "Mean B", "B - A", INTERVAL, "p", "Adjusted p")


def difference_cells(found: Difference, show: Callable[[Any], str] = percent) -> list[str]:
    """Both means, their difference with its interval and p values, and the number of prompts that they are over."""
    change, bounds = found.change, found.change_interval
    sure = f"{points(bounds[0]).removesuffix(' points')} to {points(bounds[1])}" if bounds else UNKNOWN
    means = [show(found.mean_a), show(found.mean_b), points(change), sure]
    return [str(found.n), *means, *(p_text(p).removeprefix("p ") or UNKNOWN for p in (found.p, found.adjusted_p))]


def wins_section(report: ComparisonReport) -> list[str]:
    """Prompts won: by the grades, then by the strategy if it is another."""
    wins, strategy = report.head_to_head, report.meta.strategy
    lines = ["## Head to head", ""]
    if wins.quality and any(pair.n for pair in wins.quality):
        lines += wins_table("the grades", wins.quality)
        if strategy == "statistical":
            return lines
        lines.append("")
    return [*lines, *wins_table(RESULTS_WON_BY[strategy], wins.pairwise)]


def wins_table(by: str, pairwise: Iterable[Pairwise]) -> list[str]:
    """Prompts won by each of every two runs."""
    rows = [
        [inline(pair.run_a), inline(pair.run_b), *map(str, (pair.a_wins, pair.b_wins, pair.ties, pair.n))]
        for pair in pairwise
    ]
    return [f"Prompts won, by {by}:", "", *table(["A", "B", "A wins", "B wins", "Ties", "Compared"], rows, names=2)]


def differences_section(report: Report) -> list[str]:
    """The paired differences of pass rates, pass^k and scores."""
    rows = []
    for pair in report.statistics.pairs:
        for name, unit, found in measures(pair):
            if name != "pass^1":
                counts = map(str, (found.wins, found.losses, found.ties))
                of = name if name.startswith("pass^") else name.lower()
                cells = [inline(pair.run_a), inline(pair.run_b), of, *difference_cells(found, SHOW[unit]), *counts]
                least = found.minimum_detectable_difference
                rows.append([*cells, UNKNOWN if least is None else f"{least * 100:.1f} points"])
    header = ["A", "B", "Of", *DIFFERENCE_TITLES, "A higher", "B higher", "Equal", "Would show"]
    return ["Paired by prompt:", "", *table(header, rows, names=3), "", WOULD_SHOW]


# --- prompts ------------------------------------------------------------------------------------


def flips_section(report: Report) -> list[str]:
    """The prompts that only one of two runs passed: the first few ids and how many more; of many runs folded."""
    lines = []
    for pair in report.statistics.pairs:
        for label, other, ids in (
            (pair.run_a, pair.run_b, pair.flips.only_a),
            (pair.run_b, pair.run_a, pair.flips.only_b),
        ):
            if ids:
                shown = first_few([inline(id) for id in ids], MISSING_SHOWN)
                lines.append(f"- Passed in **{inline(label)}**, not in {inline(other)} ({len(ids)}): {shown}")
    if not lines or not report.ranking:
        return ["## Prompts that flipped", "", *lines] if lines else []
    return ["<details>", "<summary>Prompts passed by only one of two runs</summary>", "", *lines, "", "</details>"]


def differing_prompts(
    prompts: Iterable[tuple[PromptComparison | TrialsPrompt, Mapping[str, float | None]]], meta: ReportMeta
) -> list[str]:
    """The prompts whose values are furthest apart, with the values of all runs."""
    spreads = ((spread(values), prompt, values) for prompt, values in prompts)
    apart = nlargest(PROMPTS_SHOWN, (found for found in spreads if found[0]), key=lambda found: found[0])
    if not apart:
        return []
    rows = []
    for _, prompt, values in apart:
        winner = UNKNOWN if prompt.winner is None else inline(prompt.winner)
        rows.append([inline(prompt.id), *(number(values.get(label)) for label in meta.runs), winner])
    title = "## Prompts that differ most" if len(apart) > 1 else "## The prompt that differs"
    return [title, "", *table(["Prompt", *map(inline, meta.runs), "Winner"], rows)]


def spread(values: Mapping[str, float | None]) -> float:
    """How far apart the highest and the lowest value are."""
    known = [value for value in values.values() if value is not None]
    return max(known) - min(known) if known else 0.0


def separation_section(found: Separation | None) -> list[str]:
    """The prompts that tell the runs apart, with --prompts, and those that do not."""
    if found is None:
        return []
    rows = [[inline(one.id), percent(one.pass_rate), number(one.information, 2)] for one in found.prompts]
    lines = ["## Prompts that separate the runs", "", *table(["Prompt", "Pass rate", "Information"], rows), ""]
    nothing = [(found.never_pass, "Never pass"), (found.always_pass, "Always pass")]
    return [*lines, dropped(found), "", *(f"- {name}: {_ids(ids)}" for ids, name in nothing if ids)]


def missing_section(meta: ReportMeta) -> list[str]:
    """The prompts that a run lacks, or asks otherwise: the first few ids and how many more."""
    lines = [f"- **{inline(label)}** lacks {_ids(ids)}" for label, ids in meta.missing.items()]
    lines += [
        f"- **{inline(label)}** has a different input for these, so they are left out: {_ids(ids)}"
        for label, ids in (meta.changed_input or {}).items()
    ]
    return ["## Missing prompts", "", *lines] if lines else []


def _ids(ids: Sequence[str]) -> str:
    return f"{len(ids)}: {first_few([inline(id) for id in ids], MISSING_SHOWN)}"
