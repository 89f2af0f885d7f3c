"""Every two runs, paired by prompt: passes, scores, prompts that changed sides, time, tokens and cost."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

from agenteval.comparison.analysis.differences import ValueOf, decide, difference, flips, paired_values, same_test
from agenteval.comparison.analysis.usage import resources
from agenteval.comparison.analysis.verdicts import overall, sentences
from agenteval.comparison.pairing import RunRows
from agenteval.wire.differences import Difference, Flips, Resources


class PairAnalysis(NamedTuple):
    """What both kinds of report say of two runs."""

    passes: Difference
    scores: Difference
    flips: Flips
    resources: Resources
    margin: float | None
    """How much worse B may be, if A is the baseline."""

    @property
    def outcome(self) -> dict[str, Any]:
        """The fields of the report that hold the outcome."""
        better, verdict = overall(self.passes, self.scores)
        return {
            "better": better,
            "verdict": verdict,
            "flips": self.flips,
            "resources": self.resources,
            "sentences": sentences(self.passes, self.scores, self.resources, self.margin),
        }


def analyse_pairs(
    runs: Sequence[RunRows[Any]], passes_of: ValueOf, scores_of: ValueOf, *, clustered: bool, margin: float | None
) -> list[PairAnalysis]:
    """The paired analysis of every two runs; the verdicts are adjusted for all tests of the report."""
    found = []
    same = []
    for a, b in combinations(runs, 2):
        passes = paired_values(a, b, passes_of, clustered=clustered)
        scores = paired_values(a, b, scores_of, clustered=clustered)
        by_passes, by_scores = difference(passes), difference(scores)
        if same_test(scores, passes):
            same.append((by_scores, by_passes))
        against_baseline = margin if a is runs[0] else None
        found.append(PairAnalysis(by_passes, by_scores, flips(passes), resources(a, b), against_baseline))
    decide([test for pair in found for test in (pair.passes, pair.scores)], same)
    return found
