"""ae-ray: any filter of the suite, on the nodes of a Ray cluster."""

import os
from collections.abc import Sequence
from secrets import token_hex

import click

from agenteval.cli.options import (
    Parsed,
    append_options,
    count_option,
    input_argument,
    output_option,
    parse_size,
    progress_option,
)
from agenteval.cli.tool import tool
from agenteval.cluster.dispatch import Dispatcher, failed_record, work_through
from agenteval.cluster.ray_cluster import RayCluster, SlotRequest
from agenteval.errors import UserError
from agenteval.processes.pool import raise_on_signals
from agenteval.streams.console import Console
from agenteval.streams.jsonl import decode_record, encode
from agenteval.streams.output import open_output
from agenteval.streams.source import Source
from agenteval.wire.records import RUN_ID_VARIABLE

SLOT_CPUS = 0.01  # agents wait for their provider most of the time
OURS = ("-o", "--output", "--resume", "--append", "--shard")
EXIT_1 = "finished, but records were refused or given up, or a filter exited with 1; they are reported"


def parse_resources(text: str) -> dict[str, float]:
    """Returns what a slot asks for: cpu=2,mem=4G,gpu=1 and resources that the cluster has names for."""
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
@count_option("-j", "--slots", least=1, help="Filters at a time.  [default: one per CPU]")
@click.option(
    "--resources",
    type=Parsed("resources", parse_resources),
    metavar="NAME=AMOUNT,…",
    help="What each slot asks for, such as cpu=2,mem=4G.  [default: a hundredth of a CPU]",
)
@click.option("--env", multiple=True, metavar="NAME", help="Pass this variable on to the filters; repeatable.")
@click.option("--file", "files", multiple=True, metavar="PATH", help="Send this file or directory too; repeatable.")
@count_option(
    "--retries",
    least=0,
    default=2,
    help="Give a record whose worker died to another one, up to N times; then it gets `errors`.",
)
@click.option("--keep-order", is_flag=True, help="Records in input order.  [default: as they finish]")
@output_option
@append_options
@progress_option
def main(
    path: str | None,
    address: str,
    slots: int | None,
    resources: dict[str, float] | None,
    env: tuple[str, ...],
    files: tuple[str, ...],
    retries: int,
    keep_order: bool,
    output: str | None,
    append: bool,
    resume: bool,
    progress: bool | None,
    debug: bool,
    command: list[str] | None,
) -> int:
    """Run a filter of the suite on the nodes of a Ray cluster.

    RECORDS is what the filter reads (or stdin). The command after -- is started in N slots on the cluster's
    nodes; each gets one record at a time, and what it writes is written here as it finishes. So ae-run,
    ae-capture, ae-trials, ae-extract, ae-grade and ae-validate-refs run on many machines.

    Examples:
      ae-ray prompts.jsonl -j 64 --env ANTHROPIC_API_KEY -o results.jsonl --resume -- ae-capture -s claude -g grader.py
      ae-ray --address local prompts.jsonl -- ae-run --simple "my-agent {}" | ae-extract -s text
      ae-ray --address ray://head:10001 --resources cpu=2,mem=4G results.jsonl -- ae-grade -g ./grader.py

    Every node has agenteval and the agent. Files below the current directory that the command names are sent
    along, and the filter runs in the directory that holds them (with --address local, in this one). If a
    worker or a node dies, its record goes to another one. It needs Ray: pip install 'agenteval[ray]'.
    """
    console = Console("ae-ray", progress=progress, output=output)
    words, secrets, asked = check_command(command), read_variables(env), slot_request(resources or {})
    for file in files:
        if os.path.isabs(file) or os.path.normpath(file).startswith("..") or not os.path.exists(file):
            raise UserError(f"--file {file}: give a path below this directory that exists")
    source = Source(path)
    target = open_output(output, source, append=append, resume=resume)
    if target.path is None:
        target.fd = os.dup(1)
    os.dup2(2, 1)  # Ray, and what it starts, print to stderr: stdout carries records only
    raise_on_signals()  # a cluster that is being started is ended, too
    run_id = target.written.run_id or token_hex(8)
    cluster = RayCluster(address, words, files, {**secrets, RUN_ID_VARIABLE: run_id})
    try:
        dispatcher = Dispatcher(
            lambda: cluster.open_slot(asked),
            slots or cluster.cpus(),
            retries,
            target.write_bytes,
            lambda task, reason: encode(failed_record(decode_record(task.line), reason, words)),
            console,
            keep_order,
        )
        return work_through(dispatcher, source, target, console)
    finally:
        cluster.close()


main.takes_command = True  # the words after `--` are the command of the filter


# --- settings -----------------------------------------------------------------------------------


def check_command(command: list[str] | None) -> list[str]:
    """Returns the filter; UserError if there is none, or if it has options that are for ae-ray."""
    if not command:
        raise UserError("give a filter after --, such as: ae-ray prompts.jsonl -- ae-capture -s claude")
    own = command[: command.index("--")] if "--" in command else command
    for word in own:
        if word.partition("=")[0] in OURS:
            raise UserError(f"{word.partition('=')[0]} of {command[0]} would act on the nodes: put it before --")
    return command


def read_variables(names: Sequence[str]) -> dict[str, str]:
    """Returns the variables of these names; a value on the command line would be seen by everyone."""
    for name in names:
        if "=" in name:
            raise UserError(
                f"--env {name.partition('=')[0]}: give only the name; the value is taken from the environment"
            )
        if name not in os.environ:
            raise UserError(f"--env {name}: not set")
    return {name: os.environ[name] for name in names}


def slot_request(resources: dict[str, float]) -> SlotRequest:
    """Returns what each slot asks for."""
    others = {name: value for name, value in resources.items() if name not in ("cpu", "gpu", "mem")}
    return SlotRequest(resources.get("cpu", SLOT_CPUS), resources.get("gpu", 0), int(resources.get("mem", 0)), others)
