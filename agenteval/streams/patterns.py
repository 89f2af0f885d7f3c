"""Regular expressions of users and schemas, with a limit of time: agents choose the text they are applied to."""

from typing import Any

from agenteval.errors import BadRecord

SECONDS = 2.0  # that the search of one text may take
PER_RECORD = 5.0  # seconds that all texts of a record may take


class SlowPattern(BadRecord):
    """A regular expression took too long on a text; the message names it."""


class Pattern:
    """A regular expression with a limit of time; raises ValueError if the text is not a regular expression.

    The searches of the package `regex` can be stopped, those of `re` cannot.
    """

    def __init__(
        self, text: str, *, multiline: bool = False, ignore_case: bool = False, version_1: bool = False
    ) -> None:
        import regex

        flags = (regex.MULTILINE if multiline else 0) | (regex.IGNORECASE if ignore_case else 0)
        flags |= regex.VERSION1 if version_1 else 0  # which has sets within sets
        try:
            self._compiled: Any = regex.compile(text, flags)
        except (regex.error, ArithmeticError, ValueError, RecursionError, MemoryError) as error:  # a{99999999999}
            raise ValueError(f"not a regular expression: {str(error) or type(error).__name__}") from None
        self.text = text
        self.groups: frozenset[str] = frozenset(self._compiled.groupindex)

    def search(self, text: str, at: int = 0, *, seconds: float = SECONDS) -> Any:
        """Returns the first match from `at` on, or None; raises SlowPattern if it is not found in time."""
        return self._within(self._compiled.search, text, at, seconds)

    def match(self, text: str, *, seconds: float = SECONDS) -> Any:
        """Returns the match at the beginning of the text, or None; raises SlowPattern if it is not found in time."""
        return self._within(self._compiled.match, text, 0, seconds)

    def fullmatch(self, text: str, *, seconds: float = SECONDS) -> Any:
        """Returns the match of the whole text, or None; raises SlowPattern if it is not found in time."""
        return self._within(self._compiled.fullmatch, text, 0, seconds)

    def _within(self, search: Any, text: str, at: int, seconds: float) -> Any:
        try:
            return search(text, at, timeout=max(0.0, seconds), concurrent=True)
        except TimeoutError:
            problem = "took too long"
        except MemoryError:  # a pattern that calls itself, such as (?R)
            problem = "took too much memory"
        shown = self.text if len(self.text) <= 60 else f"{self.text[:60]}…"
        raise SlowPattern(
            f"the regular expression {shown!r} {problem} on a text of {len(text):,} characters: "
            "it backtracks too much, make it simpler"
        )
