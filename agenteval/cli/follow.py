"""ae-format --follow: rewrites the page of a run as it grows, until the run has ended.

A tool of the suite locks the file that it writes, and its journal says how many records there will be: the run
continues as long as the lock is held, or there is no record yet. Each page is a new file that atomically replaces the
previous one, and memory holds the figures of one page at a time.
"""

import math
import os
import stat
import time
from typing import Any, NamedTuple

from agenteval.errors import FAILED, OK, CannotGoOn, Stopped, UserError
from agenteval.reports.forms import Following, ReportContext, ReportForms
from agenteval.reports.reader import RowReader
from agenteval.streams.console import Console
from agenteval.streams.files import PIECE, create_file, make_directories
from agenteval.streams.output import is_being_written, planned_records
from agenteval.streams.rows import KeyUse
from agenteval.streams.source import Source
from agenteval.streams.spool import file_with

POLL = 0.2  # seconds between two looks at the file
LEAST_PAUSE = 1.0  # seconds between two pages
BUSY = 0.1  # largest share of the time that is spent on writing pages
AT_ONCE = 2.0  # seconds: a page that takes longer is not written after Ctrl-C
LEAST_RELOAD = 3.0  # seconds until the page loads itself again


class Seen(NamedTuple):
    """The attributes by which a change of a file is noticed."""

    device: int
    inode: int
    size: int
    changed: int


class ReportedOnce:
    """Reports each refused line once, although the file is read again for every page."""

    def __init__(self, console: Console) -> None:
        self.strict, self.max_line = console.strict, console.max_line
        self._console = console
        self._reported: set[str] = set()

    def refuse(self, where: str, why: str) -> None:
        if where not in self._reported:
            self._reported.add(where)
            self._console.refuse(where, why)

    def forget(self) -> None:
        """Forgets all lines, because the file was replaced."""
        self._reported.clear()


class Follower:
    """The page of a file that grows."""

    def __init__(self, console: Console, forms: ReportForms, path: str, page: str, wishes: dict[str, Any]) -> None:
        self.path, self.page = path, os.path.realpath(page)
        self._console, self._forms = console, forms
        self._use: KeyUse | None = wishes.pop("use")
        self._sort, self._max_line = wishes.pop("sort"), wishes.pop("max_line")
        self._wishes = wishes
        self._refusals = ReportedOnce(console)
        self._reload, self._took = LEAST_RELOAD, math.inf  # seconds
        self._refuse_other_kinds(page)

    def _refuse_other_kinds(self, page: str) -> None:
        """Raises UserError if the page or the input is not a file, or both are the same."""
        for name in (page, self.path):
            if os.path.exists(name) and not os.path.isfile(name):
                raise UserError(f"--follow needs regular files, and {name} is not one")
        if os.path.realpath(self.path) == self.page:
            raise UserError(f"{page}: is also the input; write to another file")

    def run(self) -> None:
        """Writes pages until no tool writes to the file any more, and a last one if it is stopped.

        It does not write the last one if that takes long, so that Ctrl-C does.
        """
        try:
            self._follow()
        except Stopped:
            if self._took < AT_ONCE:
                self.write(Following(planned_records(self.path)))
            raise

    def _follow(self) -> None:
        last: tuple[Seen | None, int | None] | None = None
        pause_until = 0.0
        while True:
            seen = look_at(self.path)
            goes_on = seen is None or seen.size == 0 or is_being_written(self.path)  # before the file is read
            if not goes_on:
                self.write(None)
                return
            planned = planned_records(self.path)
            if (seen, planned) != last and time.monotonic() >= pause_until:
                if last and last[0] and not (seen and is_continued(last[0], seen)):
                    self._refusals.forget()
                began = time.monotonic()
                self.write(Following(planned, self._reload))
                self._took = took = time.monotonic() - began
                if last is None:
                    self._console.say(f"following {self.path} until its run ends (Ctrl-C stops it): file://{self.page}")
                last, pause_until = (seen, planned), time.monotonic() + max(LEAST_PAUSE, took / BUSY)
                self._reload = max(LEAST_RELOAD, 2 * took / BUSY)
            time.sleep(POLL)

    def write(self, following: Following | None) -> None:
        """Writes the page of the file's present content, atomically; only of whole lines while the run continues."""
        source = self._open()
        if following is not None:
            source.end = end_of_lines(source.fd)
        if self._use is not None:
            self._use = KeyUse(self._use.option, self._use.key)
        reader = RowReader(source, self._refusals, None, self._use, self._sort)
        generated = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        say = self._console.say if following is None else lambda _message: None
        context = ReportContext(generated=generated, source=self.path, say=say, following=following)
        new = f"{self.page}.new"
        try:
            make_directories(self.page)
            with os.fdopen(create_file(new), "wb") as file:
                file.writelines(self._forms.render("html")(reader, context._replace(**self._wishes)))
            os.replace(new, self.page)
        except OSError as error:
            raise CannotGoOn(f"cannot write to {self.page}: {error.strerror}") from None
        finally:
            os.close(source.fd)
            if os.path.lexists(new):
                os.unlink(new)

    def _open(self) -> Source:
        """Returns the file, or an empty one until it exists."""
        if os.path.exists(self.path):
            return Source(self.path, max_line=self._max_line)
        source = Source(self.path, opened=file_with(b""))
        source.name = self.path
        return source

    def complaint(self) -> str | None:
        """Returns the message that no record has the key to group by, else None."""
        return self._use.complaint() if self._use and self._wishes["grouped"] else None


def look_at(path: str) -> Seen | None:
    """Returns the present attributes of the file; None if it does not exist."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"--follow needs regular files, and {path} is not one")
    return Seen(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def is_continued(before: Seen, now: Seen) -> bool:
    """Whether it is the same file and not shorter."""
    return before[:2] == now[:2] and before.size <= now.size


def end_of_lines(fd: int) -> int:
    """Returns the end of the last whole line of a file to which another program writes."""
    at = os.fstat(fd).st_size
    while at > 0:
        start = max(0, at - PIECE)
        if (found := os.pread(fd, at - start, start).rfind(b"\n")) >= 0:
            return start + found + 1
        at = start
    return 0


def follow_results(console: Console, forms: ReportForms, path: str, page: str, wishes: dict[str, Any]) -> int:
    """Follows a run until it has ended; returns the exit code."""
    follower = Follower(console, forms, path, page, wishes)
    follower.run()
    if complaint := follower.complaint():
        console.say(complaint)
    return FAILED if console.refused or complaint else OK
