"""--group-by: how many of the listed answers belong to each group, by a key of metadata or by why they did not pass."""

import re
from copy import deepcopy

import msgspec

from agenteval.comparison.run_summary import MOST_GROUPS, OTHER_GROUPS, RunSummary, add_to_groups
from agenteval.reports.answers import ReportedAnswer, story
from agenteval.reports.figures import group_names
from agenteval.reports.forms import ReportContext
from agenteval.streams.rows import NO_GROUP, groups_at
from agenteval.streams.text import one_line, width
from agenteval.wire.row import PASS, UNGRADED, Row

REASON = "reason"
LONGEST_REASON = 160
IDS_SHOWN, LONGEST_LIST = 5, 1000
MOST_UNASKED = 20  # categories that a summary shows if --by does not ask for them
# Parts that differ between answers that failed for the same reason: numbers and quoted text.
_VALUE = re.compile(r"""(?<!\w)(?:"[^"]*"|'[^']*'|`[^`]*`)(?!\w)|\d+(?:[.,:]\d+)*""")


class AnswerGroup(msgspec.Struct):
    """The answers of one group: their number, the first ids, and the text that is shown for it."""

    text: str
    count: int = 0
    ids: list[str] = msgspec.field(default_factory=list)


class AnswerGroups:
    """The answers of a report by group; needs memory per group, not per answer."""

    def __init__(self, by: str) -> None:
        self._by = by
        self._groups: dict[str, AnswerGroup] = {}

    def add(self, answer: ReportedAnswer) -> None:
        """Adds an answer to its groups; by reason, a passed or ungraded answer has no group."""
        for name in reasons(answer) if self._by == REASON else groups_at(answer.row.metadata, self._by) or [NO_GROUP]:
            key = _VALUE.sub(_placeholder, name) if self._by == REASON else name
            if key not in self._groups and len(self._groups) >= MOST_GROUPS:
                key = name = OTHER_GROUPS
            group = self._groups.setdefault(key, AnswerGroup(name))
            group.text = group.text if group.text == name else key
            group.count += 1
            if len(group.ids) < IDS_SHOWN:
                group.ids.append(answer.id)

    def largest_first(self) -> list[AnswerGroup]:
        """The groups, the largest first."""
        return sorted(self._groups.values(), key=lambda group: -group.count)


def ids_text(group: AnswerGroup, room: int = LONGEST_LIST) -> str:
    """The first ids of a group on one line, as many as fit in the room, and how many more it has; at least one id."""
    text, ids = "", [one_line(id, LONGEST_REASON) for id in group.ids]
    for shown in range(len(ids), 0, -1):
        more = group.count - shown
        text = ", ".join(ids[:shown]) + (f" and {more:,} more" if more else "")
        if width(text) <= room:
            break
    return text


def reasons(answer: ReportedAnswer) -> list[str]:
    """Why an answer did not pass: the names of the checks that do not hold, else the error or the reasoning."""
    attempt = answer.attempt
    if attempt.status in (PASS, UNGRADED):
        return []
    broken = (
        [] if attempt.agent_failed else [one_line(one.name, LONGEST_REASON) for one in attempt.checks if not one.passes]
    )
    text = "" if broken or not (answer.why or attempt.failures) else story([attempt])
    return broken or [one_line(text, LONGEST_REASON)[:LONGEST_REASON] or "(no reason)"]


def _placeholder(found: re.Match[str]) -> str:
    return "#" if found[0][0].isdigit() else f"{found[0][0]}…{found[0][0]}"


class Categories:
    """The summary of all records, and of each group of them: those of --by or, if none was asked for, a few categories.

    As long as all records are in the same group, it has no summary of its own: most runs have no other.
    """

    def __init__(self, context: ReportContext) -> None:
        self._by, self._asked = context.by, context.grouped
        self.whole = RunSummary()
        self._only = ""  # the group of all records, as long as there is only one
        self._groups: dict[str, RunSummary] = {}

    def add(self, row: Row) -> None:
        """Adds a record to the whole and to each of its groups."""
        names = group_names(row.metadata, self._by) or [NO_GROUP]
        if not self.whole.prompts and len(names) == 1:
            self._only = names[0]
        if self._only and names != [self._only]:
            self._groups, self._only = {self._only: deepcopy(self.whole)}, ""
        if not self._only:
            add_to_groups(self._groups, names, row)
        self.whole.add(row)

    def found(self) -> dict[str, RunSummary]:
        """The groups by name; none if the user did not ask for them and there is only one, or too many."""
        groups = {self._only: self.whole} if self._only else self._groups
        shown = self._asked or 1 < len(groups) <= MOST_UNASKED
        return dict(sorted(groups.items())) if shown else {}
