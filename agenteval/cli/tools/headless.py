"""ae-headless: serve any headless command line as an Agent Client Protocol agent."""

import os

import click

from agenteval.adapters.schema_file import load_adapter
from agenteval.agents.acp.server import AcpServer
from agenteval.agents.kinds import SchemaAgent
from agenteval.cli.options import agent_arg_option, redact_option, turn_timeout_option
from agenteval.cli.tool import tool
from agenteval.errors import UserError
from agenteval.streams.console import Console
from agenteval.streams.redaction import Redactor
from agenteval.streams.source import Source


@tool("ae-headless", exit_status={0: "the client has closed stdin or stdout", 1: "stdout cannot be written"})
@click.option("-s", "--schema", required=True, metavar="FILE|NAME", help="Adapter schema of the command line to serve.")
@agent_arg_option
@turn_timeout_option
@click.option("-v", "--verbose", is_flag=True, help="Print each command line on stderr.")
@redact_option
def main(
    schema: str, agent_arg: tuple[str, ...], timeout: float | None, verbose: bool, no_redact: bool, debug: bool
) -> None:
    """Serve a command-line agent over the Agent Client Protocol: JSON-RPC on stdin and stdout.

    An editor or any other ACP client starts it as the agent. Each session is a conversation with the command line
    that the schema describes; what that prints is sent on as messages, thoughts, tool calls and plans while it runs.
    Cancelling, or closing stdin, ends its whole process tree. If the schema has `resume`, session/load continues an
    earlier session, whose id is _meta.sessionId in each reply.

    Examples:
      ae-run prompts.jsonl -- ae-headless -s claude
      ae-capture prompts.jsonl -j 2 --workspace-dir ws -- ae-headless -s ./my-agent.json -t 300000
      echo '{"id":1,"method":"initialize","params":{"protocolVersion":1}}' | ae-headless -s claude
    """
    console = Console("ae-headless", progress=False)
    agent = SchemaAgent(load_adapter(schema), agent_arg)
    redact = Redactor(None if no_redact else {**os.environ, **(agent.config.env or {})})
    console.redact = redact
    if os.isatty(0):
        raise UserError(
            "stdin is a terminal: this tool is started by an ACP client, such as ae-run -- ae-headless -s NAME"
        )
    source = Source(None)
    trace = console.say if verbose or debug else None
    server = AcpServer(agent, timeout=timeout, trace=trace, redact=redact)
    server.run(source)
