"""--sandbox and its further options, for agents and for the commands of graders.

They are in a file of their own because a sandbox imports everything that starts processes, and most tools start none.
"""

import click

from agenteval.agents.sandbox import ENGINES, NETWORKS, Sandbox, find_sandbox
from agenteval.cli.options import Decorator, combined, refuse_without


class EngineChoice(click.Choice[str]):
    """The name of an engine, or nothing for the default one."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the name; raises BadParameter for any other word."""
        return value and super().convert(value, param, ctx)


def sandbox_options(what: str, *, net: str) -> Decorator:
    """--sandbox and its further options; `net` is the default network."""
    return combined(
        click.option(
            "--sandbox",
            is_flag=False,
            flag_value="",
            type=EngineChoice(ENGINES),
            metavar="[bwrap|podman|docker]",
            help=f"Run {what} in a sandbox: they see their own directory, the system and nothing else.",
        ),
        click.option("--sandbox-net", type=click.Choice(NETWORKS), help=f"Network in the sandbox.  [default: {net}]"),
        click.option("--sandbox-image", metavar="IMAGE", help="Container image to run in, for podman and docker."),
        click.option(
            "--sandbox-read",
            multiple=True,
            metavar="PATH",
            help="Another file or directory to make readable; repeatable.",
        ),
    )


def sandbox_of_graders(engine: str | None, net: str | None, image: str | None, read: tuple[str, ...]) -> Sandbox | None:
    """Returns the sandbox of a grader's options; None without --sandbox."""
    if engine is None:
        refuse_without("--sandbox", "sandbox_net", "sandbox_image", "sandbox_read")
        return None
    return find_sandbox(engine, net or "none", image, read=read)
