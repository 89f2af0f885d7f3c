"""Agents on the nodes of a cluster, for a run that is managed here (agents/run.py).

Each call of answer() is a record on its way, in a thread of the run: it waits for a place in a slot, and for the answer
of the node. A record whose worker dies goes to another one; as a worker has many records, the last try is in a slot of
its own, so that only the record which kills its worker is given up. A record that fails on a node where nothing has
worked so far is tried on another one: if it works there, the node is at fault.
"""

import io
import os
import shutil
import tarfile
import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from agenteval.agents.run import RemoteAnswer
from agenteval.agents.workspaces import workspace_name
from agenteval.cluster.slots import Slot, Slots, reason_of
from agenteval.cluster.worker import NOT_FOUND, Node, NodeAnswer, describe_end
from agenteval.errors import USAGE, CannotGoOn
from agenteval.streams.console import Console
from agenteval.streams.files import replace_file
from agenteval.streams.jsonl import decode_record, encode
from agenteval.wire.records import Record

STRIKES = 5  # records that fail in the same way on a node where nothing works, until it gets no more
ALONE = 4  # slots for single records at a time
STOPPED = (130, 143)  # by us
CANNOT_RUN = "the command cannot run"


class NodeTry(NamedTuple):
    """One try of a record: the answer and where it was given; without an answer, why its worker died."""

    answer: Record | None
    node: Node
    death: str = ""
    packed: bytes | None = None

    @property
    def errors(self) -> list[str]:
        """Why the agent failed."""
        return ((self.answer or {}).get("record") or {}).get("errors") or []


class ClusterAgents:
    """Runs prompts on nodes.

    `connect` makes slots for a run of that id. `bring_to` is the directory that workspaces are brought to.
    """

    def __init__(self, connect: Callable[[str], Slots], retries: int, console: Console, bring_to: str | None) -> None:
        self._connect, self._retries, self._console, self._bring_to = connect, retries, console, bring_to
        self._slots: Slots = None  # type: ignore[assignment]  # until open()
        self._alone = threading.Semaphore(ALONE)
        self._lock = threading.Lock()  # of what follows
        self._worked: set[str] = set()  # nodes on which an agent has not failed
        self._strikes: dict[str, Counter[str]] = {}  # of the others, by reason
        self._agreed: Counter[str] = Counter()  # how often another node failed, too, so that the node is not at fault
        self._keys = 0

    def open(self, run_id: str) -> int:
        """Starts the workers; returns how many records they have under way at a time."""
        self._slots = self._connect(run_id)
        self._slots.start()
        return self._slots.records

    def finish(self) -> None:
        """Ends the workers after the last record: nothing of theirs is left on the nodes."""
        if self._slots is not None:
            self._slots.finish()

    def close(self) -> None:
        """Kills the workers, with their agents."""
        if self._slots is not None:
            self._slots.stop()

    def answer(self, prompt: Record, trial: int | None) -> RemoteAnswer:
        """Returns what became of a prompt; waits until there is a place for it."""
        found = self._survive(prompt, trial)
        if found.errors and self._is_doubtful(found.node):
            found = self._second_opinion(prompt, trial, found)
        if found.answer is None:
            self._console.say(f"{prompt['id']}: given up: {found.death}")
            return RemoteAnswer(None, died=found.death)
        if (problem := found.answer.get("noWorkspace")) is not None:
            return RemoteAnswer(None, f"{problem} (on {self._slots.name_of(found.node)})", full=found.answer["full"])
        if not found.errors:
            with self._lock:
                self._worked.add(found.node.id)
        record: Record = found.answer["record"]
        record["metadata"] = {**(record.get("metadata") or {}), "node": self._slots.name_of(found.node)}
        if self._bring_to is not None:
            self._bring_home(prompt, trial, found, record)
        return RemoteAnswer(record)

    # --- workers that die ---

    def _survive(self, prompt: Record, trial: int | None) -> NodeTry:
        """Has workers try a record until one answers; the last try is in a slot of its own."""
        # A worker that has one record dies of it; of several, the last try tells which.
        shared = self._retries + 1 if self._slots.window == 1 else max(1, self._retries)
        tries = 0
        while tries < shared:
            found = self._try_in(self._slots.take(), prompt, trial)
            if not found.death:
                return found
            if found.death != CANNOT_RUN:  # that is the node's fault: it gets no more records
                tries += 1
        if self._slots.window > 1:
            found = self._try_alone(prompt, trial)
            tries += 1
        times = f"{tries} times" if tries > 1 else "once"
        return found._replace(death=f"its worker died {times}, last: {found.death}") if found.death else found

    def _try_in(self, slot: Slot, prompt: Record, trial: int | None) -> NodeTry:
        """Has a worker with other records try a record; replaces it if it dies."""
        found = self._try(slot, prompt, trial)
        if found.death:
            self._slots.replace(slot)
        else:
            self._slots.give_back(slot)
        return found

    def _try_alone(self, prompt: Record, trial: int | None) -> NodeTry:
        with self._alone:
            try:
                slot = self._slots.open_alone()
            except Exception as error:
                return NodeTry(None, Node("", ""), reason_of(error))
            try:
                return self._try(slot, prompt, trial)
            finally:
                self._slots.close(slot)

    def _try(self, slot: Slot, prompt: Record, trial: int | None) -> NodeTry:
        """Has one worker try a record."""
        node = self._slots.node_of(slot)
        with self._lock:
            self._keys += 1
            key = str(self._keys)
        try:
            request = encode({"key": key, "prompt": prompt, "trial": trial})
            given: NodeAnswer = self._slots.call(slot, "run", key, request).result()
        except Exception as error:
            return NodeTry(None, node, CANNOT_RUN if self._slots.is_excluded(node) else reason_of(error))
        if given.line is not None:
            self._slots.relay(given.messages)
            return NodeTry(decode_record(given.line), node, packed=given.packed)
        if given.code in (USAGE, NOT_FOUND):
            reason = next(reversed(given.messages), "it printed nothing")
            self._slots.exclude(node, f"the command cannot run: {reason}")
            return NodeTry(None, node, CANNOT_RUN)
        if given.code not in STOPPED:
            self._slots.relay(given.messages, node)
        return NodeTry(None, node, f"the process on {self._slots.name_of(node)} {describe_end(given.code)}")

    # --- nodes on which nothing works ---

    def _is_doubtful(self, node: Node) -> bool:
        if node.id in self._worked or self._agreed[node.id] >= STRIKES:
            return False
        return self._slots.has_others(node)

    def _second_opinion(self, prompt: Record, trial: int | None, first: NodeTry) -> NodeTry:
        """Has another node try a record that failed on one where nothing has worked so far; returns what counts."""
        slot = self._slots.take_elsewhere(first.node)
        if slot is None:
            return first
        second = self._try_in(slot, prompt, trial)
        if second.answer is None or second.errors:
            with self._lock:
                self._agreed[first.node.id] += second.errors == first.errors
            return first
        reason = "; ".join(first.errors)[:200]
        with self._lock:
            strikes = self._strikes.setdefault(first.node.id, Counter())
            strikes[reason] += 1
            is_out = strikes[reason] >= STRIKES and first.node.id not in self._worked
        if is_out:
            self._slots.exclude(first.node, f"its first {STRIKES} records failed in the same way: {reason}")
        return second

    # --- workspaces ---

    def _bring_home(self, prompt: Record, trial: int | None, found: NodeTry, record: Record) -> None:
        """Unpacks the workspace of a record; the record then says that it is here."""
        assert self._bring_to is not None and found.answer is not None
        if (problem := found.answer.get("notPacked")) is not None:
            self._console.say(f"{prompt['id']}: its workspace stays on {record['metadata']['node']}: {problem}")
        if found.packed is None:
            return
        name = workspace_name(prompt["id"], trial)
        try:
            record["metadata"]["workspaceDir"] = unpack(found.packed, self._bring_to, name)
        except (OSError, ValueError, tarfile.TarError) as error:  # ValueError: a name with a null character
            self._console.say(f"{prompt['id']}: {self._keep_packed(found.packed, name)}: {error}")

    def _keep_packed(self, packed: bytes, name: str) -> str:
        """Keeps a workspace that cannot be unpacked, because its node has it no longer; returns what to report."""
        path = os.path.join(self._bring_to or "", f"{name}.tar.gz")
        try:
            replace_file(path, packed)
        except OSError as error:  # without its record, --resume runs the prompt again
            raise CannotGoOn(f"--bring-workspaces: cannot write {path}: {error.strerror}") from None
        return f"its workspace could not be unpacked, and is in {path}"


def unpack(packed: bytes, base: str, name: str) -> str:
    """Unpacks a workspace below a directory; returns its path. What would be written outside of it is left out."""
    target = os.path.join(os.path.abspath(base), name)
    part = f"{target}.part"
    for old in (part, target):
        shutil.rmtree(old, ignore_errors=True)
    os.makedirs(part)
    folder = os.path.realpath(part)
    links = []
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        archive.extraction_filter = lambda entry, _path: entry  # Python 3.11.3 has no filters
        for entry in archive:
            if _may_be_unpacked(entry, folder):
                _make_ours(entry)
                archive.extract(entry, folder)
                links += [os.path.join(folder, entry.name)] if entry.issym() else []
    for link in links:  # now that all are there: one may lead out by way of another
        if os.path.isabs(os.readlink(link)) or not _is_below(folder, os.path.realpath(link)):
            os.unlink(link)
    os.rename(part, target)
    return target


def _may_be_unpacked(entry: tarfile.TarInfo, folder: str) -> bool:
    """Whether an entry is a file, directory or link, is in the folder, and is not reached by a link."""
    names = [entry.name, entry.linkname] if entry.islnk() else [entry.name]
    is_kind = entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()
    is_there = not entry.islnk() or os.path.exists(os.path.join(folder, entry.linkname))
    return is_kind and all(_is_direct(folder, name) for name in names) and is_there


def _is_direct(folder: str, name: str) -> bool:
    path = os.path.normpath(os.path.join(folder, name))
    return ".." not in name.split("/") and _is_below(folder, path) and path == os.path.realpath(path)


def _is_below(folder: str, path: str) -> bool:
    return os.path.commonpath([folder, path]) == folder


def _make_ours(entry: tarfile.TarInfo) -> None:
    entry.uid, entry.gid, entry.uname, entry.gname = os.getuid(), os.getgid(), "", ""
    entry.mode = entry.mode & 0o755 | (0o700 if entry.isdir() else 0o600)
