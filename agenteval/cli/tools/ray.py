"""ae-ray: run any filter of the suite on the nodes of a Ray cluster."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import click

from agenteval.agents.resume import refuse_another_kind
from agenteval.agents.run_settings import RunSettings
from agenteval.cli.agent_runs import run_prompts
from agenteval.cli.graded_runs import capture_prompts, run_trials
from agenteval.cli.node import TOOLS, parse
from agenteval.cli.options import (
    Parsed,
    append_options,
    checks_grader,
    count_option,
    input_argument,
    output_option,
    parse_size,
    progress_option,
)
from agenteval.cli.tool import tool
from agenteval.cluster.dispatch import Dispatcher, Task, failed_record, work_through
from agenteval.cluster.ray_cluster import RayCluster, SlotRequest
from agenteval.cluster.remote import ClusterAgents
from agenteval.cluster.slots import Slots
from agenteval.cluster.worker import PACK_VARIABLE, RUNS_VARIABLE, NodeWorker, Worker
from agenteval.errors import FAILED, Stopped, UserError
from agenteval.grading.graders import grader_digests, named_graders
from agenteval.grading.references import ValidationCounts
from agenteval.grading.resume import GradedRecords
from agenteval.grading.run import keeps_each
from agenteval.grading.verdict import check_gradable
from agenteval.processes.pool import raise_on_signals
from agenteval.streams.console import Console
from agenteval.streams.files import write_new
from agenteval.streams.jsonl import decode_record, encode
from agenteval.streams.output import Output, open_output, refuse_to_replace
from agenteval.streams.redaction import Redactor
from agenteval.streams.source import Source
from agenteval.wire.records import RUN_ID_VARIABLE, Record

SLOT_CPUS = 0.01  # agents wait for their provider most of the time
LARGEST_WINDOW = 64  # agents that one worker runs at the same time
OF_NODES = "/var/tmp"  # where runs have their workspaces on a node, below a directory of the user
OURS = ("-o", "--output", "--resume", "--append", "--overwrite", "--keep-order")
BROUGHT = ".agenteval-workspaces"  # marks a directory in which --resume may replace workspaces
AGENT_TOOLS = ("ae-run", "ae-capture", "ae-trials")
EXIT_1 = "finished, but records were refused or given up on, or a filter exited with 1; all are reported"


def parse_resources(text: str) -> dict[str, float]:
    """Returns the resources of a slot: cpu=2,mem=4G,gpu=1 and custom resources of the cluster."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            found[name] = parse_size(value) if name == "mem" else float(value)
        except ValueError:
            found[name] = -1
        if not name or not 0 <= found[name] < float("inf"):
            raise ValueError(f"{part!r} is not NAME=AMOUNT, such as cpu=2 or mem=4G")
    return found


@tool("ae-ray", exit_status={1: EXIT_1})
@input_argument("RECORDS")
@click.option(
    "--address",
    default="auto",
    metavar="ADDRESS",
    help="auto: the cluster of this machine or $RAY_ADDRESS; local: start one here; host:port or ray://host:port.",
)
@count_option(
    "-j",
    "--concurrency",
    "--slots",
    least=1,
    help="Maximum number of records at a time, over all nodes.  [default: one per CPU]",
)
@click.option(
    "--resources",
    type=Parsed("resources", parse_resources),
    metavar="NAME=AMOUNT,…",
    help="What each record reserves, such as cpu=2,mem=4G.  [default: next to nothing]",
)
@click.option("--env", multiple=True, metavar="NAME", help="Pass this variable on to the nodes; repeatable.")
@click.option("--file", "files", multiple=True, metavar="PATH", help="Send this file or directory too; repeatable.")
@click.option(
    "--bring-workspaces", metavar="DIR", help="Copy the workspace of each record to DIR as the record is written."
)
@count_option(
    "--retries",
    least=0,
    default=2,
    help="Give a record whose worker died to another worker, up to N times; after that it gets `errors`.",
)
@click.option("--keep-order", is_flag=True, help="Write records in input order.  [default: as they finish]")
@output_option
@append_options
@click.option("--overwrite", is_flag=True, help="With -o: replace the records that are in the file.")
@progress_option
def main(
    path: str | None,
    address: str,
    concurrency: int | None,
    resources: dict[str, float] | None,
    env: tuple[str, ...],
    files: tuple[str, ...],
    bring_workspaces: str | None,
    retries: int,
    keep_order: bool,
    output: str | None,
    append: bool,
    resume: bool,
    overwrite: bool,
    progress: bool | None,
    debug: bool,
    command: list[str] | None,
) -> int:
    """Run a tool of the suite on the nodes of a Ray cluster.

    RECORDS is the input of the tool after -- (or stdin). ae-run, ae-capture and ae-trials run their agents and
    graders on the nodes; the run itself is managed here, so limits, --resume, --stop-when-known and whatever else
    concerns all prompts work as they do without a cluster. ae-extract, ae-grade, ae-validate-refs and other filters
    get batches of records, in which an id may occur only once; of these, ae-grade has --resume.

    Examples:
      ae-ray prompts.jsonl -j 64 --env ANTHROPIC_API_KEY -o r.jsonl --resume -- ae-capture -s claude -g grader.py
      ae-ray --address local prompts.jsonl -- ae-run --simple "my-agent {}" | ae-extract -s text
      ae-ray --address ray://head:10001 results.jsonl -- ae-grade -g ./grader.py

    agenteval and the agent must be installed on every node. Files below the current directory that the command names
    are sent along, and the tool runs in the directory that holds them (with --address local, in the current one). A
    relative --workspace-dir lies below a directory that only this run uses, on each node; --bring-workspaces copies
    the workspaces here. If a worker or a node dies, its records go to others; a node on which nothing works gets no
    more records. This tool needs Ray: pip install 'agenteval[ray]'.
    """
    words, environment = check_command(command), read_variables(env)
    for file in files:
        if os.path.isabs(file) or os.path.normpath(file).startswith("..") or not os.path.exists(file):
            raise UserError(f"--file {file}: give a path below this directory that exists")
    console = Console("ae-ray", progress=progress, output=output)
    source = Source(path)
    share = Share(concurrency, slot_request(resources or {}), alone=resources is not None, retries=retries)
    if words[0] in AGENT_TOOLS:
        options = parse(words)
        if (options.get("path") or "-") != "-" or options.get("prompt") is not None:
            raise UserError(f"{words[0]} gets its prompts from ae-ray: give the file before --")
        if not options.get("grader") and words[0] != "ae-run":
            options["grader"] = checks_grader(source, console.say)
            words[1:1] = [word for grader in options["grader"] for word in ("-g", grader)]
        ours = {"output": output, "append": append, "resume": resume, "overwrite": overwrite, "keep_order": keep_order}
        options |= {
            **ours,
            "progress": options["progress"] if progress is None else progress,
            "debug": debug or options["debug"],
        }
        environment |= node_variables(address, bring_workspaces, options)
        connect = partial(RayCluster, address, words, files)
        return run_agents(connect, words[0], options, source, environment, share, console, bring_workspaces)
    if bring_workspaces is not None:
        raise UserError(f"--bring-workspaces is for tools that run agents, not for {words[0]}")
    if resume and words[0] != "ae-grade":
        raise UserError(f"--resume is for tools that run agents and for ae-grade, not for {words[0]}")
    options = parse_filter(words)
    if words[0] == "ae-grade":
        refuse_another_kind(output if resume or append else None, "ae-grade")
    target = open_output(output, source, append=append, resume=resume)
    if not (append or resume or overwrite):
        refuse_to_replace(output)
    earlier = graded_records(target, source, options) if resume else None
    if target.path is None:
        target.fd = os.dup(1)
    os.dup2(2, 1)  # Ray and its processes print to stderr: stdout carries records only
    raise_on_signals()  # a cluster that is being started is ended, too
    cluster = RayCluster(address, words, files, environment)
    try:
        return run_filter(cluster, words, source, target, share, console, keep_order, earlier)
    finally:
        cluster.close()


main.takes_command = True  # the words after `--` are the command of the filter


class Share(NamedTuple):
    """How records are distributed: batch size, resources of each, and how often one may lose its worker."""

    records: int | None  # None: one per CPU
    request: SlotRequest
    alone: bool  # whether each record has a worker of its own, because it needs resources
    retries: int

    def slots_for_filters(self, cluster: RayCluster, console: Console) -> Slots:
        """Returns slots with one batch at a time each."""
        count = self.records or cluster.cpus()
        opener, nodes = partial(cluster.open_slot, self.request, 1), partial(cluster.nodes, self.request)
        return Slots(opener, count, 1, console, all_nodes=nodes)

    def slots_for_agents(self, cluster: RayCluster, console: Console) -> Slots:
        """Returns the fewest slots that serve all records, at least one per node: agents wait, workers take memory."""
        records = self.records or cluster.cpus()
        nodes = partial(cluster.nodes, self.request)
        fewest = records if self.alone else max(len(nodes()), 1, -(-records // LARGEST_WINDOW))
        count = min(records, fewest)
        window = -(-records // count)
        opener = partial(cluster.open_slot, self.request, window)
        return Slots(opener, count, window, console, records, all_nodes=nodes)


# --- agents -------------------------------------------------------------------------------------


def run_agents(
    connect: Callable[[Mapping[str, str], type[Worker]], RayCluster],
    tool: str,
    options: dict[str, Any],
    source: Source,
    environment: Mapping[str, str],
    share: Share,
    console: Console,
    bring_to: str | None,
) -> int:
    """Runs the tool here with its agents on the nodes; connects to the cluster after the options are checked."""
    clusters: list[RayCluster] = []
    is_ours = bring_to is not None and os.path.exists(os.path.join(bring_to, BROUGHT))

    def slots_of(run_id: str) -> Slots:
        raise_on_signals()  # a cluster that is being started is ended, too
        clusters.append(connect({**environment, RUN_ID_VARIABLE: run_id}, NodeWorker))
        if bring_to is not None:
            claim_directory(bring_to, is_ours)
        return share.slots_for_agents(clusters[0], console)

    agents = ClusterAgents(slots_of, share.retries, console, bring_to)
    k, keep_raw = options.pop("k", None), options.pop("keep_raw", False)
    settings = RunSettings(**{name: value for name, value in options.items() if name not in ("path", "prompt")})
    try:
        if tool == "ae-run":
            return run_prompts(source, settings, agents)
        if tool == "ae-trials":
            return run_trials(source, settings, k, agents)
        return capture_prompts(source, settings, keep_raw=keep_raw, remote=agents)
    finally:
        agents.close()
        for cluster in clusters:
            cluster.close()


def node_variables(address: str, bring_to: str | None, options: Mapping[str, Any]) -> dict[str, str]:
    """Returns the variables that tell nodes where workspaces are; raises UserError if they cannot be there or here."""
    base = options["workspace_dir"]
    if address != "local" and os.path.normpath(base or ".").partition(os.sep)[0] == os.pardir:
        raise UserError(
            f"--workspace-dir {base}: leads out of the directory that this run has on each node; give a path below "
            f"it, such as ws, or an absolute one"
        )
    if bring_to is not None:
        if base is None:
            raise UserError("--bring-workspaces needs --workspace-dir DIR, after --")
        resumes = options["resume"] or options["retry_failed"]
        ours = resumes and os.path.exists(os.path.join(bring_to, BROUGHT))
        if os.path.isdir(bring_to) and os.listdir(bring_to) and not ours:
            raise UserError(f"--bring-workspaces {bring_to}: is not empty; give a new or empty directory")
    places = {} if address == "local" else {RUNS_VARIABLE: OF_NODES}
    return {**places, **({PACK_VARIABLE: "1"} if bring_to is not None else {})}


def claim_directory(place: str, is_ours: bool) -> None:
    """Marks the directory that workspaces are brought to, unless that is done; UserError if another run was quicker."""
    marker = os.path.join(place, BROUGHT)
    try:
        os.makedirs(place, exist_ok=True)
        if not is_ours:
            write_new(marker, b"", 0o644)
    except OSError as error:
        reason = "another run brings its workspaces there" if os.path.exists(marker) else error.strerror
        raise UserError(f"--bring-workspaces {place}: {reason}; give a new or empty directory") from None


# --- filters ------------------------------------------------------------------------------------


def parse_filter(words: Sequence[str]) -> dict[str, Any]:
    """Returns the parameters of a filter of the suite; raises UserError if it has a file of its own."""
    if words[0] not in TOOLS:
        return {}
    options = parse(words)
    if (options.get("path") or "-") != "-":
        raise UserError(f"{words[0]} gets its records from ae-ray: give the file before --")
    if options.get("labels") is not None:
        raise UserError("--labels would be counted on each node: leave it out, then run ae-grade GRADED --labels FILE")
    return options


def graded_records(target: Output, source: Source, options: Mapping[str, Any]) -> GradedRecords:
    """Returns the records of an output that ae-grade has written: those it would keep stay, the others are replaced."""
    target.resumed = False  # GradedRecords finds what is replaced
    graders = options["grader"] or checks_grader(source, lambda _line: None, required=True)
    specs = named_graders(
        graders, **{name: options[name] for name in ("stream", "timeout", "limits", "weights", "informational")}
    )
    digests = grader_digests(specs, grade_failed=options["grade_failed"])
    redact = Redactor(None if options["no_redact"] else os.environ)
    return GradedRecords(target, digests, redact, merges=keeps_each(specs))


def run_filter(
    cluster: RayCluster,
    words: Sequence[str],
    source: Source,
    target: Output,
    share: Share,
    console: Console,
    keep_order: bool,
    earlier: GradedRecords | None,
) -> int:
    """Runs a filter on the nodes; what concerns all records is done here: --resume, and what references have passed."""
    counts = ValidationCounts() if words[0] == "ae-validate-refs" else None

    def wants(record: Record) -> bool:
        if earlier is not None:
            check_gradable(record)
            return not earlier.keeps(record)
        return counts is None or counts.wants(record, True)

    def write(line: bytes) -> None:
        target.write_bytes(line)
        if counts is not None:
            counts.add(decode_record(line))

    def give_up(task: Task, reason: str) -> bytes:
        return encode(failed_record(decode_record(task.line), reason, words))

    slots = share.slots_for_filters(cluster, console)
    in_order = keep_order or earlier is not None  # which counts on it
    dispatcher = Dispatcher(slots, share.retries, write, give_up, console, in_order)
    try:
        code = work_through(dispatcher, source, target, console, wants)
    except (Stopped, Exception):
        if earlier is not None and earlier.is_intact():
            with suppress(OSError):  # a full disk: the next --resume does it
                earlier.put_in_place()
        raise
    if earlier is not None and (line := earlier.finish()):
        console.say(line)
    if counts is not None and not counts.report(console, source.name):
        return FAILED
    return code


# --- settings -----------------------------------------------------------------------------------


def check_command(command: list[str] | None) -> list[str]:
    """Returns the filter; raises UserError if it is missing or has options that belong to ae-ray."""
    if not command:
        raise UserError("give a tool after --, such as: ae-ray prompts.jsonl -- ae-capture -s claude")
    own = command[: command.index("--")] if "--" in command else command
    ours = (*OURS, "-j", "--concurrency") if command[0] in AGENT_TOOLS else OURS
    for before, word in zip(["", *own], own, strict=False):
        if before == "--agent-arg":
            continue  # an option of the agent
        if word == "--strict" and command[0] not in AGENT_TOOLS:
            raise UserError(f"--strict of {command[0]} would stop one node, not the run: leave it out")
        if word.partition("=")[0] == "--shard":
            raise UserError(
                "--shard is for machines that do not know of each other; leave it out, ae-ray distributes the "
                "records itself"
            )
        is_joined = command[0] in TOOLS and not word.startswith("--")  # -oFILE is -o FILE
        name = word[:2] if is_joined else word.partition("=")[0]
        if name in ours:
            raise UserError(f"{name} after -- would act on the nodes: put it before --")
    return command


def read_variables(names: Sequence[str]) -> dict[str, str]:
    """Returns the variables with these names; values on the command line would be visible to everyone."""
    for name in names:
        if "=" in name:
            raise UserError(
                f"--env {name.partition('=')[0]}: give only the name; the value is taken from the environment"
            )
        if name not in os.environ:
            raise UserError(f"--env {name}: is not set in the environment")
    return {name: os.environ[name] for name in names}


def slot_request(resources: dict[str, float]) -> SlotRequest:
    """Returns the request for each slot's resources."""
    others = {name: value for name, value in resources.items() if name not in ("cpu", "gpu", "mem")}
    return SlotRequest(resources.get("cpu", SLOT_CPUS), resources.get("gpu", 0), int(resources.get("mem", 0)), others)
