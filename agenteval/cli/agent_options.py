"""The options that name an agent and say how to run it: those of ae-run, ae-capture and ae-trials."""

import click

from agenteval.agents.session import parse_rate
from agenteval.cli.options import (
    Decorator,
    F,
    NumberRange,
    Parsed,
    agent_arg_option,
    append_options,
    combined,
    concurrency_option,
    count_option,
    grade_failed_option,
    grader_option,
    output_option,
    parse_size,
    progress_option,
    redact_option,
    stream_option,
    turn_timeout_option,
    verdict_options,
)
from agenteval.cli.sandbox_options import sandbox_options
from agenteval.cluster.shards import parse_shard
from agenteval.streams.patterns import Pattern


def parse_pattern(text: str) -> Pattern:
    """Returns a regular expression."""
    try:
        return Pattern(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is {error}") from None


EXIT_1 = (
    "some lines were refused or graders erred (they are reported), agents failed and -e is given, or the run was "
    "stopped: by --strict, a limit such as --max-failures or --max-cost, or because the first five agents failed alike"
)
AGENT_OPTIONS: Decorator = combined(
    click.option(
        "-s", "--schema", metavar="FILE|NAME", help="Adapter schema: a file, or a bundled one by name (claude)."
    ),
    agent_arg_option,
    click.option(
        "--simple", metavar='"CMD {} …"', help="Command to run without a shell; {} is replaced by the prompt."
    ),
    click.option("--shell", metavar="'… \"$PROMPT\" …'", help="Shell command to run; the prompt is in $PROMPT."),
    click.option(
        "--deny-permissions", is_flag=True, help="With -- CMD: deny every permission that the agent asks for."
    ),
    click.option("--no-acp-fs", is_flag=True, help="With -- CMD: let the agent access files itself, not over ACP."),
    concurrency_option("agents"),
    turn_timeout_option,
    click.option("-c", "--cwd", metavar="DIR", help="Working directory for the agents.  [default: the current one]"),
    click.option(
        "--workspace-dir",
        metavar="DIR",
        help="Give each prompt a fresh directory, DIR/prompt-<id>. One that you created yourself is used as is.",
    ),
    click.option("--fresh-workspaces", is_flag=True, help="Also replace directories that the suite did not create."),
    click.option("--workspace-template", metavar="DIR|GIT-REPO", help="Initial contents of each fresh directory."),
    click.option("--workspace-git", is_flag=True, help="Make each fresh directory a git repository with one commit."),
    click.option(
        "--keep-workspaces",
        type=click.Choice(["all", "failed", "none"]),
        default="all",
        help="Which fresh directories to keep; failed: those whose agent failed or whose result did not pass.",
    ),
    click.option(
        "--isolate",
        is_flag=True,
        help="Give each session its own HOME: the agent sees your login, but none of your configuration.",
    ),
    click.option("--model", metavar="NAME", help="Model the agent is to use."),
    click.option(
        "--instructions", metavar="FILE", help="Instructions for the agent: its AGENTS.md, CLAUDE.md, GEMINI.md, …"
    ),
    click.option(
        "--skill", multiple=True, metavar="DIR", help="Skill for the agent: a folder with SKILL.md; repeatable."
    ),
    click.option(
        "--mcp",
        metavar="FILE",
        help='The only MCP servers to use: {"mcpServers": {…}}; ${VAR} is taken from the environment.',
    ),
    click.option("--overlay", metavar="DIR", help="Files to copy over each fresh workspace."),
    sandbox_options("agents", net="host"),
    click.option(
        "--env",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Set an environment variable, or pass yours on; repeatable.",
    ),
    click.option(
        "--clean-env", is_flag=True, help="Pass on only PATH, HOME, LANG and the like, plus what --env names."
    ),
    redact_option,
    click.option(
        "--rate",
        type=Parsed("rate", parse_rate),
        metavar="N/s|N/min|N/h",
        help="Start at most this many agents per second, minute or hour.",
    ),
    count_option(
        "--retries",
        least=0,
        default=0,
        help="Retry up to N times after a failed start, a timeout or an overloaded provider, with backoff.",
    ),
    click.option(
        "--warm-up/--no-warm-up",
        default=None,
        help="Let the first agent finish before others start, to set up an empty HOME.  [default: set by the schema]",
    ),
    click.option("--retry-on", type=Parsed("regex", parse_pattern), help="Also retry if the agent's output matches."),
    click.option("--keep-order", is_flag=True, help="Write records in input order.  [default: as they finish]"),
    click.option(
        "--shard",
        type=Parsed("i/n|slurm|k8s", parse_shard),
        metavar="I/N|slurm|k8s",
        help="Run only share I of N of the ids; slurm, k8s: take I and N from the array task or the indexed Job.",
    ),
    click.option("--max-output", type=Parsed("bytes", parse_size), default="64M", help="Maximum output per prompt."),
    click.option("-e", "--exit-status", is_flag=True, help="Exit 1 if an agent failed, as jq -e does."),
    count_option("--max-failures", least=1, help="Stop after N failed agents, and exit 1."),
    click.option(
        "--keep-going",
        is_flag=True,
        help="Continue even if the first five agents fail in the same way.  [default: stop]",
    ),
    click.option(
        "--max-cost",
        type=NumberRange(0, min_open=True),
        metavar="USD",
        help="Start no more agents once the run has cost this much; at list prices if agents report only tokens.",
    ),
    count_option("--max-total-tokens", least=1, help="Start no more agents once the run has used N tokens."),
    click.option("--label", metavar="NAME", help="Name of the run, for its records and the titles of reports."),
    click.option(
        "--retry-failed",
        is_flag=True,
        help="Like --resume, but also rerun failed agents and regrade records whose grader erred.",
    ),
    click.option("--no-sync", is_flag=True, help="Let the system decide when records of -o FILE reach the disk."),
    click.option("--dry-run", is_flag=True, help="Print what would be started, without starting it."),
    click.option("--force", is_flag=True, help="Let --resume continue a file written with another agent."),
    output_option,
    append_options,
    click.option("--overwrite", is_flag=True, help="With -o: replace the records that are in the file."),
    click.option("--strict", is_flag=True, help="Stop at the first refused line, failed agent or grader error."),
    progress_option,
)
extraction_option: Decorator = click.option(
    "--extract",
    metavar="FILE|NAME",
    help="Schema that reads the agent's output.  [default: that of -s; text for --simple and --shell]",
)

stop_options: Decorator = combined(
    click.option(
        "--stop-when-known", is_flag=True, help="Stop once the question of --against or --threshold is settled."
    ),
    click.option("--against", metavar="FILE", help="Baseline run: is this one better or worse?"),
    click.option(
        "--threshold", type=NumberRange(0.01, 0.99), metavar="RATE", help="Is the pass rate above or below RATE?"
    ),
    click.option(
        "--margin",
        type=NumberRange(0.001, 0.99),
        metavar="D",
        help="Also stop once the run is known to be at most D worse than --against.",
    ),
    click.option("--fail-if-worse", is_flag=True, help="Exit 1 if the run was stopped because it is worse."),
)

inline_grader_options: Decorator = combined(  # of graders that run beside agents
    grader_option,
    stream_option,
    verdict_options(
        time="Time limit per record, for all graders or for NAME; a bare number is ms; repeatable.  [default: 60000]"
    ),
    grade_failed_option,
)


def agent_options(function: F) -> F:
    """Adds AGENT_OPTIONS, and the command after `--`."""
    function.takes_command = True  # type: ignore[attr-defined]
    function.exit_status = {1: EXIT_1}  # type: ignore[attr-defined]
    return AGENT_OPTIONS(function)
