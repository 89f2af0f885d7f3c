"""What a comparison keeps of each prompt in memory: a table per run, field by field in compact columns.

A million prompts as Python objects would take a gigabyte. A `RowTable` takes a `ComparedRow` per prompt and gives back
a `StoredRow`, which reads its fields from the columns; `column` and `measure` read them whole.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from agenteval.statistics.samples import geometric_mean, mean, plug_in_pass_at_k, plug_in_pass_exp_k
from agenteval.wire.records import Richness

NOISE = 1e-9  # rounding: 1-(1-p) is not p to the last digit, and that does not make a prompt flaky
NOT_KNOWN = math.nan  # in a column of numbers; no number of a record is NaN


# --- one row ------------------------------------------------------------------------------------


class RowFigures:
    """What follows from the fields of a row; None is not known."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @property
    def pass_rate(self) -> float | None:
        """The share of the graded attempts that passed; None if none is graded."""
        graded = self.graded
        return self.passed / graded if graded else None

    @property
    def score(self) -> float | None:
        """The mean over the attempts that have a score."""
        return mean(self.scores)

    @property
    def duration(self) -> float | None:
        """The mean over the attempts whose duration is known."""
        return mean(self.durations)

    @property
    def tokens(self) -> float | None:
        """The mean over the attempts whose tokens are known."""
        return mean(self.token_values)

    @property
    def cost(self) -> float | None:
        """The mean over the attempts whose cost is known."""
        return mean(self.cost_values)

    @property
    def flakiness(self) -> float | None:
        """passAtK - passExpK, 0 if that is only noise; None if it is not graded."""
        at, exp = self.pass_at_k, self.pass_exp_k
        if at is None or exp is None:
            return None
        gap: float = at - exp
        return gap if gap > NOISE else 0.0

    @property
    def unreliable(self) -> bool:
        """Whether a tool or the agent itself failed."""
        return bool(self.tool_errors or self.errors > 0)

    def cluster_name(self, id: str) -> str:
        """The cluster of this prompt; one without a cluster is a cluster of its own."""
        return f"={self.cluster}" if self.cluster is not None else f"#{id}"


class ComparedRow(RowFigures, msgspec.Struct, gc=False, frozen=True):
    """What is known of one prompt's attempts; it stands on this line of its file."""

    line: int = 0
    input_digest: int = 0
    categories: tuple[str, ...] = ()
    cluster: str | None = None
    k: int = 1
    attempts: int = 1
    graded: int = 0
    passed: int = 0
    failed: int = 0  # agents, without those whose answer was graded nevertheless
    errors: int = 0  # all agents that failed
    grader_errors: int = 0
    pass_at_k: float | None = None
    pass_exp_k: float | None = None
    scores: tuple[float, ...] = ()
    durations: tuple[float, ...] = ()
    first_responses: tuple[float, ...] = ()
    token_values: tuple[float, ...] = ()
    cost_values: tuple[float, ...] = ()
    cost_estimated: bool = False
    clock_set_back: bool = False
    tool_errors: bool = False
    timed_out: bool = False
    has_output: bool = True
    steps: int | None = None
    richness: Richness = "minimal"


FIELDS = ComparedRow.__struct_fields__
_field_values = attrgetter(*FIELDS)


def replaced(row: RowFigures, **fields: Any) -> ComparedRow:
    """The row with these fields instead."""
    return ComparedRow(**{name: getattr(row, name) for name in FIELDS} | fields)


def at_k(row: RowFigures, k: int) -> RowFigures:
    """The row with the plug-in rates for k trials."""
    rate = row.pass_rate
    if row.k == k or rate is None:
        return row
    return replaced(row, k=k, pass_at_k=plug_in_pass_at_k(rate, k), pass_exp_k=plug_in_pass_exp_k(rate, k))


# --- columns ------------------------------------------------------------------------------------


class Choices:
    """A column of values of which many are the same: each different one is kept once."""

    def __init__(self) -> None:
        self._codes, self._values, self._numbers = array("I"), list[Any](), dict[Any, int]()

    def append(self, value: Any) -> None:
        """Adds a value."""
        code = self._numbers.get(value)
        if code is None:
            code = self._numbers[value] = len(self._values)
            self._values.append(value)
        self._codes.append(code)

    def __getitem__(self, at: int) -> Any:
        return self._values[self._codes[at]]


class OptionalNumbers:
    """A column of numbers that may not be known."""

    def __init__(self) -> None:
        self._numbers = array("d")

    def append(self, value: float | None) -> None:
        """Adds a number or None."""
        self._numbers.append(NOT_KNOWN if value is None else value)

    def __getitem__(self, at: int) -> float | None:
        value = self._numbers[at]
        return value if value == value else None


class Samples:
    """A column with several numbers for each row, or none."""

    def __init__(self) -> None:
        self._numbers, self._ends = array("d"), array("I", [0])
        self.fewest, self.most = 1, 1  # numbers of a row

    def append(self, values: Sequence[float]) -> None:
        """Adds the numbers of a row."""
        self._numbers.extend(values)
        self._ends.append(len(self._numbers))
        if len(values) != 1:
            self.fewest, self.most = min(self.fewest, len(values)), max(self.most, len(values))

    def __getitem__(self, at: int) -> array[float]:
        return self._numbers[self._ends[at] : self._ends[at + 1]]

    def mean(self, at: int) -> float | None:
        """The mean of the numbers of a row; None if it has none."""
        first, end = self._ends[at], self._ends[at + 1]
        return self._numbers[first] if end - first == 1 else mean(self._numbers[first:end])

    def all(self, places: Iterable[int]) -> list[float]:
        """The numbers of these rows."""
        numbers, ends = self._numbers, self._ends
        if self.fewest == self.most:  # one of each row
            return [numbers[at] for at in places]
        return [number for at in places for number in numbers[ends[at] : ends[at + 1]]]

    def each(self, figure: Callable[[Sequence[float]], float | None]) -> array[float]:
        """A figure of the numbers of each row."""
        return known_or_nan(figure(self[at]) for at in range(len(self._ends) - 1))

    def means(self) -> array[float]:
        """The mean of the numbers of each row."""
        return self._numbers if self.fewest == self.most else known_or_nan(map(self.mean, range(len(self._ends) - 1)))


def known_or_nan(values: Iterable[float | None]) -> array[float]:
    """The values as a column, NaN where one is not known."""
    return array("d", (NOT_KNOWN if value is None else value for value in values))


def counts() -> array[int]:
    """A column of numbers from 0 up."""
    return array("I")


COLUMNS: dict[str, Callable[[], Any]] = {
    **dict.fromkeys(("line", "input_digest", "attempts", "graded", "passed", "failed", "errors"), counts),
    "grader_errors": counts,
    **dict.fromkeys(("categories", "cluster", "k", "steps", "richness"), Choices),
    **dict.fromkeys(("pass_at_k", "pass_exp_k"), OptionalNumbers),
    **dict.fromkeys(("scores", "durations", "first_responses", "token_values", "cost_values"), Samples),
    # Booleans, a byte each: 0 or 1.
    **dict.fromkeys(("cost_estimated", "clock_set_back", "tool_errors", "timed_out", "has_output"), bytearray),
}
MEANS = {"score": "scores", "duration": "durations", "tokens": "token_values", "cost": "cost_values"}


# --- a table ------------------------------------------------------------------------------------


class Stored:
    """A field of a stored row, read from the column of that name."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, row: StoredRow, owner: type) -> Any:
        return row.columns[self._name][row.at]


class StoredMean(Stored):
    """The mean of a field that has several numbers."""

    def __get__(self, row: StoredRow, owner: type) -> Any:
        return row.columns[MEANS[self._name]].mean(row.at)


class StoredRow(RowFigures):
    """A row of a table: the fields of a ComparedRow."""

    __slots__ = ("at", "columns")

    def __init__(self, columns: Mapping[str, Any], at: int) -> None:
        self.columns, self.at = columns, at

    line = Stored()
    input_digest = Stored()
    categories = Stored()
    cluster = Stored()
    k = Stored()
    attempts = Stored()
    graded = Stored()
    passed = Stored()
    failed = Stored()
    errors = Stored()
    grader_errors = Stored()
    pass_at_k = Stored()
    pass_exp_k = Stored()
    scores = Stored()
    durations = Stored()
    first_responses = Stored()
    token_values = Stored()
    cost_values = Stored()
    cost_estimated = Stored()
    clock_set_back = Stored()
    tool_errors = Stored()
    timed_out = Stored()
    has_output = Stored()
    steps = Stored()
    richness = Stored()

    score = StoredMean()
    duration = StoredMean()
    tokens = StoredMean()
    cost = StoredMean()


class RowTable(MutableMapping[str, RowFigures]):
    """The rows of a run by prompt id, in the order of its file.

    `places` has the place of each id in the columns. Rows are only ever added to columns: one that is replaced or
    deleted stays there unread, so that several tables can share them.
    """

    def __init__(self, rows: Mapping[str, RowFigures] | None = None) -> None:
        self.places: dict[str, int] = {}
        self.columns: dict[str, Any] = {name: make() for name, make in COLUMNS.items()}
        self._appends = [self.columns[name].append for name in FIELDS]
        self.update(rows or {})

    def __getitem__(self, id: str) -> RowFigures:
        return StoredRow(self.columns, self.places[id])

    def get(self, id: str, default: Any = None) -> Any:
        """The row of a prompt; the default if there is none."""
        place = self.places.get(id)
        return default if place is None else StoredRow(self.columns, place)

    def __setitem__(self, id: str, row: RowFigures) -> None:
        place = len(self.columns["line"])
        for append, value in zip(self._appends, _field_values(row), strict=True):
            append(value)
        self.places[sys.intern(id)] = place  # other runs have the same ids

    def __delitem__(self, id: str) -> None:
        del self.places[id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __contains__(self, id: object) -> bool:
        return id in self.places

    def __len__(self) -> int:
        return len(self.places)

    def only(self, ids: Iterable[str]) -> RowTable:
        """A table of these rows, which shares the columns."""
        table = RowTable.__new__(RowTable)
        table.places = {id: self.places[id] for id in ids}
        table.columns, table._appends = self.columns, self._appends
        return table

    def column(self, name: str) -> list[Any]:
        """A field of each row, in their order."""
        column = self.columns[name]
        return [column[place] for place in self.places.values()]

    def samples(self, name: str) -> list[float]:
        """The numbers of all rows, of a field that has several of each."""
        found: list[float] = self.columns[name].all(self.places.values())
        return found

    def measure(self, name: str) -> array[float]:
        """A figure of each row by its place, NaN where it is not known: pass_rate, score, duration, tokens, cost, and
        pace, which is the geometric mean of durations."""
        if name == "pass_rate":
            rates = zip(self.columns["passed"], self.columns["graded"], strict=True)
            return array("d", [passed / graded if graded else NOT_KNOWN for passed, graded in rates])
        if name == "pace":
            return self.columns["durations"].each(_pace)  # type: ignore[no-any-return]
        return self.columns[MEANS[name]].means()  # type: ignore[no-any-return]


def _pace(durations: Sequence[float]) -> float | None:
    return geometric_mean([value for value in durations if value > 0])
