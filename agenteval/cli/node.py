"""The part of ae-ray that runs on a node: runs single prompts or trials for the driver, which controls the run.
`python -m agenteval.cli.node ae-capture OPTIONS…` reads a request per line, {"key", "prompt", "trial"}, and answers
each with a line, {"key", "record"} or, without a workspace, {"key", "noWorkspace", "full"}. The command is the
user's; options for the run as a whole (limits, rate, output) are left to the driver. A workspace that the driver wants
is packed into a file, `packed`.
"""

from __future__ import annotations

import fcntl
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import msgspec

from agenteval.agents.run import PromptRun
from agenteval.agents.run_settings import RunSettings
from agenteval.agents.workspace_changes import FOLDER
from agenteval.cli.graded_runs import inline_graders
from agenteval.cli.tool import Tool, tool
from agenteval.cli.tools import capture, extract, grade, run, trials, validate_refs
from agenteval.cluster.worker import MOST_PACKED, PACK_VARIABLE, RUNS_VARIABLE
from agenteval.errors import UserError, WorkspaceError
from agenteval.grading.verdict import passed
from agenteval.processes.scratch import remove_tree
from agenteval.streams.files import open_private
from agenteval.streams.jsonl import decode_record
from agenteval.streams.source import Source
from agenteval.streams.spool import file_with
from agenteval.wire.records import RUN_ID_VARIABLE, Record

TOOLS: dict[str, Tool] = {
    "ae-run": run.main,
    "ae-capture": capture.main,
    "ae-trials": trials.main,
    "ae-extract": extract.main,
    "ae-grade": grade.main,
    "ae-validate-refs": validate_refs.main,
}
# Options for the run as a whole, as if they were not given.
OF_THE_RUN: dict[str, Any] = {
    "rate": None,
    "keep_order": False,
    "shard": None,
    "exit_status": False,
    "max_failures": None,
    "retry_failed": False,
    "dry_run": False,
    "output": None,
    "append": False,
    "resume": False,
    "overwrite": False,
    "max_cost": None,
    "max_total_tokens": None,
    "strict": False,
    "progress": False,
    "stop_when_known": False,
    "against": None,
    "threshold": None,
    "margin": None,
    "fail_if_worse": False,
}


def parse(words: Sequence[str]) -> dict[str, Any]:
    """Returns the parameters of a tool's command line; raises UserError if they are invalid."""
    command = TOOLS[words[0]]
    context = command.make_context(words[0], list(words[1:]))
    return context.params


class Requests:
    """The work of a node: prompts in, records out."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name, self.keep_raw = name, options.pop("keep_raw", False)
        for own in ("path", "prompt", "k"):
            options.pop(own, None)
        run_id, runs = os.environ[RUN_ID_VARIABLE], os.environ.pop(RUNS_VARIABLE, None)
        self.pack = bool(os.environ.pop(PACK_VARIABLE, None))
        settings = RunSettings(**{**options, **OF_THE_RUN})
        self.place: str | None = None  # a directory for this run alone, if workspaces are below one
        if settings.workspace_dir is not None and runs is not None and not os.path.isabs(settings.workspace_dir):
            self.place = os.path.join(runs, f"agenteval-{os.getuid()}", run_id)
            workspaces = os.path.normpath(os.path.join(self.place, settings.workspace_dir))
            settings = msgspec.structs.replace(settings, workspace_dir=workspaces)
        graders = inline_graders(settings, Source(None, opened=file_with(b"")), name) if settings.grader else None
        self.source = Source("-")
        self.run = PromptRun(name, self.source, settings, graders)

    def __call__(self) -> int:
        """Answers all requests; returns the exit code."""
        base = self.run.settings.workspace_dir
        with nullcontext() if self.place is None or base is None else _directory_of_run(self.place, base):
            return self.run(self.requests(), self.work, self.emit, hold=lambda _answer: None)

    def requests(self) -> Iterator[Record]:
        """Yields the requests as they arrive."""
        for batch in self.source.lines():
            yield from (decode_record(line) for _at, line in batch)

    def work(self, request: Record) -> list[Record]:
        """Returns the answer to a request; nothing if it was interrupted."""
        prompt, trial, key = request["prompt"], request["trial"], request["key"]
        try:
            raw, reading = self.run.run_session(prompt, trial)
        except WorkspaceError as error:
            return [{"key": key, "noWorkspace": str(error), "full": error.full}]
        record: Record | None = raw
        if self.name != "ae-run":
            result = self.run.extract(prompt, raw, reading, keep_raw=self.keep_raw)
            record = self.run.grade(result if trial is None else {**result, "trialNum": trial})
        if record is None or self.run.processes.stopping:
            return []
        failed = bool(record.get("errors")) or not (self.run.graders is None or passed(record))
        self.run.remove_workspace(prompt, trial, failed=failed)
        return [{"key": key, "record": record, **self._packed(prompt, trial, record, failed)}]

    def _packed(self, prompt: Record, trial: int | None, record: Record, failed: bool) -> Record:
        """Packs a workspace that is kept, to be brought home, and removes it here; returns what the answer gets."""
        if not self.pack or self.run.workspaces is None or not self.run.keeps_workspace(failed=failed):
            return {}
        packed = pack(record["metadata"]["workspaceDir"])
        if "packed" in packed:
            self.run.workspaces.remove(prompt["id"], trial)
        return packed

    def emit(self, answer: Record) -> None:
        """Writes an answer."""
        self.run.output.write(answer)


def pack(folder: str) -> Record:
    """Packs a workspace into a file; returns its name, or why it cannot be brought home."""
    descriptor, path = tempfile.mkstemp(prefix="ae-workspace-", suffix=".tar.gz")
    try:
        with open(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
            archive.add(folder, arcname=".", filter=_only_files)
        problem = f"is larger than {MOST_PACKED:,} bytes" if os.path.getsize(path) > MOST_PACKED else None
    except (OSError, tarfile.TarError) as error:
        problem = str(error)
    if problem is None:
        return {"packed": path}
    os.unlink(path)
    return {"notPacked": f"{folder}: {problem}"}


def _only_files(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return entry if entry.isreg() or entry.isdir() or entry.issym() or entry.islnk() else None


@contextmanager
def _directory_of_run(place: str, workspaces: str) -> Iterator[None]:
    """Makes the directory of a run on this node; its last process removes it if it has left no workspace there."""
    try:
        os.close(open_private(os.path.dirname(place)))
        lock = open_private(place)
    except OSError as error:
        raise UserError(
            f"{error.filename} {error.strerror}: remove it on that node, or give an absolute --workspace-dir"
        ) from None
    with suppress(BlockingIOError):  # one that has just ended removes what is empty; or an agent has locked it
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    try:
        yield
    finally:
        fcntl.flock(lock, fcntl.LOCK_UN)
        with suppress(OSError):  # another process of this run has it, or there is something else
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.listdir(workspaces) == [FOLDER]:
                remove_tree(os.path.join(workspaces, FOLDER))
            while workspaces.startswith(place):
                os.rmdir(workspaces)
                workspaces = os.path.dirname(workspaces)
        os.close(lock)


if __name__ == "__main__":
    words = sys.argv[1:]

    def answer(debug: bool) -> int:
        """Answers requests for the command of this process."""
        return Requests(words[0], parse(words))()

    tool(words[0])(answer)([])
