"""Bradley-Terry strengths: P(A is preferred to B) = 1 / (1 + exp(strength of B - strength of A)); ties count half.

The comparisons of one prompt are not independent (a ranking of three runs makes three), so the errors are robust to
clusters of a prompt; with few prompts or a sweep, those of the model are larger and are used.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agenteval.statistics.distributions import t_quantile
from agenteval.statistics.intervals import TAIL

Outcomes = Mapping[tuple[int, int], float]
"""The outcomes of one prompt: for two runs by number, 1 if the first is preferred, 0 if the second, 0.5 for a tie."""
PRIOR = 0.5  # half a tie between every two runs, so that one that always wins is not infinitely strong
STEPS = 100
PRECISION = 1e-10

Matrix = list[list[float]]


class FittedStrength(NamedTuple):
    """The strength of a run and its 95% interval."""

    value: float
    interval: tuple[float, float]


def fit_strengths(count: int, prompts: Sequence[Outcomes]) -> list[FittedStrength]:
    """Returns the strengths of `count` runs, with mean 0, by Newton's method."""
    strengths = [0.0] * count
    for _ in range(STEPS):
        slopes = [math.fsum(column) for column in zip(*scores_of(strengths, prompts), prior_of(strengths), strict=True)]
        change = solve(information(strengths, prompts), slopes)
        largest = max(map(abs, change))
        strengths = [value + step * min(1.0, 2 / (largest or 1)) for value, step in zip(strengths, change, strict=True)]
        if largest < PRECISION:
            break
    centre = math.fsum(strengths) / count
    errors = standard_errors(strengths, prompts)
    reach = t_quantile(TAIL, max(1, len(prompts) - 1))
    return [
        FittedStrength(value - centre, (value - centre - reach * error, value - centre + reach * error))
        for value, error in zip(strengths, errors, strict=True)
    ]


def chance(strengths: Sequence[float], i: int, j: int) -> float:
    """The probability that run i is preferred to run j."""
    return 1 / (1 + math.exp(strengths[j] - strengths[i]))


def scores_of(strengths: Sequence[float], prompts: Sequence[Outcomes]) -> Matrix:
    """For each prompt, the wins of each run less those that the model expects."""
    rows = []
    for outcomes in prompts:
        row = [0.0] * len(strengths)
        for (i, j), won in outcomes.items():
            surprise = won - chance(strengths, i, j)
            row[i] += surprise
            row[j] -= surprise
        rows.append(row)
    return rows


def prior_of(strengths: Sequence[float]) -> list[float]:
    """The same for the assumed ties, in sum."""
    count = len(strengths)
    return [math.fsum(PRIOR * (0.5 - chance(strengths, i, j)) for j in range(count) if j != i) for i in range(count)]


def information(strengths: Sequence[float], prompts: Sequence[Outcomes]) -> Matrix:
    """The information matrix; a constant added to all cells fixes the mean, which comparisons do not determine."""
    count = len(strengths)
    weights = {(i, j): PRIOR for i in range(count) for j in range(i + 1, count)}
    for outcomes in prompts:
        for i, j in outcomes:
            weights[min(i, j), max(i, j)] += 1
    matrix = [[1.0] * count for _ in range(count)]
    for (i, j), weight in weights.items():
        p = chance(strengths, i, j)
        spread = weight * p * (1 - p)
        for row, column, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            matrix[row][column] += sign * spread
    return matrix


def standard_errors(strengths: Sequence[float], prompts: Sequence[Outcomes]) -> list[float]:
    """The error of each strength: by the model, or robust to clusters, whichever is larger."""
    count, clusters = len(strengths), max(2, len(prompts))
    matrix = information(strengths, prompts)
    units = [[float(row == column) for column in range(count)] for row in range(count)]
    inverse = [solve(matrix, unit) for unit in units]
    robust = [0.0] * count
    for row in scores_of(strengths, prompts):
        for i in range(count):
            robust[i] += math.fsum(inverse[i][k] * row[k] for k in range(count)) ** 2
    model = [inverse[i][i] - 1 / count**2 for i in range(count)]  # without the part that fixes the mean
    return [math.sqrt(max(model[i], robust[i] * clusters / (clusters - 1))) for i in range(count)]


def solve(matrix: Matrix, right: Sequence[float]) -> list[float]:
    """Solves a system of linear equations, by Gaussian elimination with pivots."""
    size = len(right)
    rows = [[*matrix[i], right[i]] for i in range(size)]
    for at in range(size):
        pivot = max(range(at, size), key=lambda i: abs(rows[i][at]))
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for below in range(at + 1, size):
            factor = rows[below][at] / rows[at][at]
            rows[below] = [x - factor * y for x, y in zip(rows[below], rows[at], strict=True)]
    found = [0.0] * size
    for at in reversed(range(size)):
        found[at] = (rows[at][-1] - math.fsum(rows[at][k] * found[k] for k in range(at + 1, size))) / rows[at][at]
    return found
