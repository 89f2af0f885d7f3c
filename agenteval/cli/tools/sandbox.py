"""ae-sandbox: run a command in a sandbox, where it sees its own directory, the system and nothing else."""

import os

import click

from agenteval.agents.kinds import agent_environment
from agenteval.agents.sandbox import BUBBLEWRAP, ENGINES, NETWORKS, find_sandbox, programs_of, run_behind
from agenteval.cli.tool import tool
from agenteval.errors import UserError
from agenteval.processes.process import Command, find_program

EXIT_STATUS = {
    0: "the exit code is that of the command; 128 + N if signal N killed it",
    1: "also if the command cannot be started",
    2: "also on a usage error, or if nothing here can provide a sandbox; nothing was run",
    130: "also if it was interrupted (Ctrl-C); 143 terminated",
}


@tool("ae-sandbox", exit_status=EXIT_STATUS)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    help="What provides the sandbox.  [default: bwrap; with --image podman or docker]",
)
@click.option("--net", type=click.Choice(NETWORKS), default="none", help="Network access: none, or this machine's.")
@click.option("--image", metavar="IMAGE", help="Container image, for podman and docker; it must have /bin/sh.")
@click.option("--writable", multiple=True, metavar="DIR", help="A directory that the command may write to; repeatable.")
@click.option(
    "--readable", multiple=True, metavar="PATH", help="A file or directory that the command may read; repeatable."
)
@click.option("--home", metavar="DIR", help="Its HOME.  [default: an empty directory, removed afterwards]")
@click.option(
    "--env", multiple=True, metavar="NAME[=VALUE]", help="Set an environment variable, or pass yours on; repeatable."
)
@click.option(
    "--engine-arg", multiple=True, metavar="ARG", help="An argument for podman run or docker run; repeatable."
)
def main(
    engine: str | None,
    net: str,
    image: str | None,
    writable: tuple[str, ...],
    readable: tuple[str, ...],
    home: str | None,
    env: tuple[str, ...],
    engine_arg: tuple[str, ...],
    debug: bool,
    command: list[str] | None,
) -> int:
    """Run a command in a sandbox: it sees its own directory, the system and nothing else.

    It can write to the current directory, to --writable DIR and to its HOME; it can read the system
    (/usr, /etc, …), the files that its program was installed with, and --readable PATH. It sees no other files and no
    other processes, and has no network unless --net host is given. From the environment it gets PATH, LANG and the
    like, plus what --env names. Stdin, stdout, stderr and the exit code are those of the command; on SIGTERM, SIGINT
    or SIGHUP everything that it has started gets SIGTERM, and SIGKILL two seconds later.

    bwrap (bubblewrap) works with and without root. With --image the command runs in a podman or docker container with
    the image's programs, 2 GB of memory, 1 CPU and 512 processes; --engine-arg changes that.

    Examples:
      ae-sandbox -- make test
      ae-sandbox --net host --env ANTHROPIC_API_KEY -- claude -p "Fix the failing test."
      ae-sandbox --engine podman --image my-image --engine-arg=--memory=8g -- pytest -q
      ae-grade results.jsonl -g "ae-grader-git --sandbox --command 'make test'"
    """
    if not command:
        raise UserError("name the command after --, as in ae-sandbox -- make test")
    for place in (*writable, *filter(None, [home])):
        if not os.path.isdir(place):
            raise UserError(f"--writable {place}: no such directory")
    sandbox = find_sandbox(engine or "", net, image, read=readable, arguments=engine_arg, option="--engine")
    sandbox = sandbox.showing(programs_of(command))
    environment = agent_environment(env, clean=True)
    walled = sandbox.engine == BUBBLEWRAP
    variables = environment.with_own({}) if walled else environment.chosen
    variables = {name: value for name, value in variables.items() if name in environment.chosen or name != "TMPDIR"}
    program = find_program(command[0]) if walled else command[0]
    started = Command(program, command, os.getcwd(), variables, alone=walled)
    places = [os.path.abspath(place) for place in writable]
    return run_behind(sandbox, started, home and os.path.abspath(home), places)


main.takes_command = True  # the words after `--` are the command
