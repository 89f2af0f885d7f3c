"""A Ray cluster: connected to or started, its workers as slots of the dispatcher, and its processes ended with it."""

from __future__ import annotations

import logging
import os
import resource
import shlex
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from typing import IO, Any, NamedTuple

from agenteval.cluster.worker import FilterWorker, Node, Worker
from agenteval.errors import MissingExtra, Stopped, UserError
from agenteval.processes.guardian import Guardian
from agenteval.processes.tree import MARKED_LIMIT, can_mark, find_mark, mark_of, process_table

LOCAL_STORE = 256 << 20  # bytes of shared memory for a cluster on this machine
LONGEST_FOLDER = 27  # bytes: what Ray makes below it takes 80, and the path of a socket may have 107
WORKPLACES = ("--workspace-dir", "-c", "--cwd")  # directories that the filter makes or that nodes have
# Ray reads them when it is imported: no report over the network, no advice about accelerators, and what a thread still
# asks for when the tool ends does not connect again.
SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_ENABLE_AUTO_CONNECT": "0",
}

NO_TOOL = 1 << 22  # added to a pid it is that of no process: a guardian would also kill filters that have its mark
TITLE = b"ray::"  # how the names start that Ray's programs give themselves
CONNECTING = 10.0  # seconds that a node has to accept a connection
LOCAL_INSTEAD = " (--address local starts a cluster here)"
NO_TOKEN = b"InvalidAuthToken"  # what Ray then says
WANTS_TOKEN = ": it asks for a token: set RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN unless it is in ~/.ray/auth_token"
LONGEST_END = 10.0  # seconds until what cannot be killed is left alone


class SlotRequest(NamedTuple):
    """What each slot asks the cluster for, in the words of Ray."""

    num_cpus: float
    num_gpus: float
    memory: int
    resources: dict[str, float]


class RayCluster:
    """The connection; close() ends it, with the cluster if it was started here."""

    def __init__(
        self,
        address: str,
        command: Sequence[str],
        files: Sequence[str],
        environment: Mapping[str, str],
        worker: type[Worker] = FilterWorker,
    ) -> None:
        self._ray: Any = None
        self._local = address == "local"
        self._command, self._environment = list(command), dict(environment)
        is_long = len(os.fsencode(tempfile.gettempdir())) > LONGEST_FOLDER
        self._folder = tempfile.mkdtemp(prefix="ae-ray-", dir="/tmp" if is_long else None)
        self._mark = cluster_mark()
        self._end_ray = partial(end_ray, self._mark, package_folder())
        self._guardian = Guardian(self._end_ray)
        self._guardian.remove_at_end(self._folder)
        try:
            self._ray = _import_ray()
            self._connect(address, files)
        except BaseException:  # a signal too
            self.close()
            raise
        self._worker = self._ray.remote(_placed(worker))

    def _connect(self, address: str, files: Sequence[str]) -> None:
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
        if self._local:
            settings |= {"include_dashboard": False, "object_store_memory": LOCAL_STORE, "_temp_dir": self._folder}
            settings["_node_ip_address"] = "127.0.0.1"
        else:
            expect_listener(address)
            copy_files(self._command, files, self._folder)
            settings["runtime_env"] = {"working_dir": self._folder}
        with tempfile.TemporaryFile() as said:
            try:
                with marked(self._mark) if self._local else stderr_to(said.fileno()):
                    self._ray.init(address=address, **settings)
            except SystemExit:  # by Ray's own handler of SIGTERM
                raise Stopped(signal.SIGTERM) from None
            except Exception as error:  # Ray raises its base class, too, where a node does not start in time
                reason = " ".join(str(error).split())[:300]
                advice = "" if self._local else WANTS_TOKEN if NO_TOKEN in _content(said) else LOCAL_INSTEAD
                raise UserError(f"--address {address}: {reason}{advice}") from None
            with suppress(OSError):
                os.write(2, _content(said))

    def cpus(self) -> int:
        """Returns the number of CPUs of all nodes."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def nodes(self, request: SlotRequest) -> set[str]:
        """Returns the ids of the nodes that have what a slot asks for, whether or not it is in use."""
        asked = {"CPU": request.num_cpus, "GPU": request.num_gpus, "memory": request.memory, **request.resources}
        return {
            node["NodeID"]
            for node in self._ray.nodes()
            if node["Alive"] and all(node["Resources"].get(name, 0) >= amount for name, amount in asked.items())
        }

    def open_slot(self, request: SlotRequest, window: int, excluded: Collection[str]) -> RaySlot:
        """Returns a worker on a node that has room for it, as soon as there is one; not on an excluded node."""
        asked = {name: value for name, value in request._asdict().items() if value}
        options = {"num_cpus": 0, **asked, "scheduling_strategy": _strategy(excluded), "max_restarts": 0}
        options |= {"max_task_retries": 0, "max_concurrency": window + 1}
        cwd = os.getcwd() if self._local else None  # elsewhere: the directory with the files
        actor = self._worker.options(**options).remote(self._command, cwd, window)
        return RaySlot(self._ray, actor, self._environment)

    def close(self) -> None:
        """Disconnects, and removes what was made here."""
        if self._ray is not None:
            self._ray.shutdown()
        if self._local:
            self._end_ray()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._guardian.dismiss()


def expect_listener(address: str) -> None:
    """Refuses an address where nothing listens: Ray tries for two minutes. What has no port is left to Ray."""
    named = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    host, _, port = named.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECTING).close()
    except OSError as error:
        raise UserError(f"--address {named}: {error.strerror or error}{LOCAL_INSTEAD}") from None


@contextmanager
def stderr_to(file: int) -> Iterator[None]:
    """Redirects stderr to a file: while it connects, Ray reports there each try that failed."""
    before = os.dup(2)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def _content(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _import_ray() -> Any:
    os.environ.update(SETTINGS)
    try:
        import ray
    except ImportError as error:
        raise MissingExtra(f"needs Ray ({error})", "ray") from None
    return ray


class RaySlot:
    """One worker."""

    def __init__(self, ray: Any, actor: Any, environment: Mapping[str, str]) -> None:
        self._ray, self._actor, self._environment = ray, actor, dict(environment)

    def prepare(self) -> Future[Any]:
        """Waits until it has a place and hands it the variables."""
        return self.call("prepare", self._environment)

    def call(self, method: str, *arguments: Any) -> Future[Any]:
        """Calls a method of the worker."""
        future: Future[Any] = getattr(self._actor, method).remote(*arguments).future()
        return future

    def kill(self) -> None:
        """Kills it; its filter notices, and ends its agents."""
        self._ray.kill(self._actor)


def _placed(worker: type[Worker]) -> type[Worker]:
    """Returns the class of workers that know their node."""

    class Placed(worker):  # type: ignore[misc, valid-type]
        def prepare(self, environment: Mapping[str, str], node: str = "") -> Node:
            found: Node = super().prepare(environment, _import_ray().get_runtime_context().get_node_id())
            return found

    Placed.__name__ = Placed.__qualname__ = worker.__name__  # what Ray calls the process
    return Placed


def _strategy(excluded: Collection[str]) -> Any:
    """Returns how Ray is to place a worker: spread over the nodes, or on any node but these."""
    if not excluded:
        return "SPREAD"
    from ray.util.scheduling_strategies import NodeLabelSchedulingStrategy, NotIn

    return NodeLabelSchedulingStrategy(hard={"ray.io/node-id": NotIn(*excluded)})


def copy_files(command: Sequence[str], more: Sequence[str], folder: str) -> None:
    """Copies the files that a command names to the directory in which it runs on the nodes."""
    for path in dict.fromkeys([*named_files(command), *more]):
        target = os.path.join(folder, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if os.path.isdir(path):
            shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(path, target)


def named_files(command: Sequence[str]) -> Iterator[str]:
    """Yields the relative paths below this directory that are words of a command, or parts of such a word."""
    for before, word in zip(command, command[1:], strict=False):
        if before in WORKPLACES or word.partition("=")[0] in WORKPLACES:
            continue
        for part in dict.fromkeys((word, *_words(word))):
            for text in (part, part.partition("=")[2]):
                path = os.path.normpath(text) if text else "."
                if not (path == "." or os.path.isabs(path) or path.startswith("..")) and os.path.exists(path):
                    yield path


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return []


# --- its processes ------------------------------------------------------------------------------

# Ray would leave some for a minute: its agents (ray::DashboardAgent, ray::RuntimeEnvAgent) notice the end of their node
# only once they have started.


def package_folder() -> str:
    """Returns the directory of the package, which all programs of Ray are below."""
    found = find_spec("ray")
    return found.submodule_search_locations[0] if found and found.submodule_search_locations else os.devnull


def cluster_mark() -> int:
    """Returns the mark of the processes of a cluster that this tool starts.

    It is a limit: the environment of a process that has changed its name is overwritten, more or less of it.
    """
    return mark_of(NO_TOOL + os.getpid(), 0)


@contextmanager
def marked(mark: int) -> Iterator[None]:
    """Gives the processes that are started meanwhile the mark, unless they have that of an agent that started us."""
    if MARKED_LIMIT is None or not can_mark() or find_mark(os.getpid()) is not None:
        yield
        return
    before = resource.getrlimit(MARKED_LIMIT)
    resource.setrlimit(MARKED_LIMIT, (mark, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(MARKED_LIMIT, before)


def end_ray(mark: int, package: str) -> None:
    """Kills what is left of the cluster with that mark; not its filters, which end their agents themselves."""
    end = time.monotonic() + LONGEST_END
    while (left := _of_cluster(mark, package)) and time.monotonic() < end:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _of_cluster(mark: int, package: str) -> list[int]:
    """Returns the processes of Ray itself in a cluster."""
    place, found = os.path.join(os.fsencode(package), b""), []
    for pid in process_table():
        with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            program = file.read().split(b"\0")[:3]  # python -u FILE, until it changes its name
            is_ray = program[0].startswith(TITLE) or any(word.startswith(place) for word in program)
            found += [pid] if is_ray and find_mark(pid) == mark else []
    return found
