"""ae-import: session logs of an agent → results: grade what it did yesterday."""

import os
from collections.abc import Iterable, Iterator
from datetime import datetime

import click

from agenteval.adapters.foreign.formats import FOREIGN, read_foreign
from agenteval.adapters.sessions.logs import default_root, session_results
from agenteval.adapters.sessions.schema import load_session_schema, session_formats
from agenteval.cli.options import (
    Names,
    Parsed,
    count_option,
    max_line_option,
    output_option,
    progress_option,
    redact_option,
    strict_option,
)
from agenteval.cli.tool import tool
from agenteval.errors import FAILED, OK, UserError, nearest
from agenteval.streams.console import Console
from agenteval.streams.output import Output, write_record
from agenteval.streams.redaction import Redactor
from agenteval.streams.text import counted, first_few
from agenteval.wire.records import Record


def parse_date(text: str) -> float:
    """Returns a date, with or without a time and time zone (default: local), as milliseconds since 1970."""
    try:
        return datetime.fromisoformat(text).astimezone().timestamp() * 1000
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a date, such as 2026-11-01 or 2026-11-01T09:30") from None


def formats() -> dict[str, str]:
    """Returns the formats, each with a description."""
    return dict.fromkeys(session_formats(), "sessions of this agent") | FOREIGN


@tool("ae-import")
@click.argument("format_", metavar="FORMAT", type=Names(formats))
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option(
    "--since", type=Parsed("date", parse_date), metavar="DATE", help="Only sessions that were active on DATE or later."
)
@click.option("--cwd", metavar="DIR", help="Only sessions that worked in DIR or below it.")
@count_option("--min-turns", least=1, default=1, help="Only sessions with N turns or more.")
@redact_option
@max_line_option
@output_option
@strict_option
@progress_option
def main(
    format_: str,
    paths: tuple[str, ...],
    since: float | None,
    cwd: str | None,
    min_turns: int,
    no_redact: bool,
    max_line: int,
    output: str | None,
    strict: bool,
    progress: bool | None,
    debug: bool,
) -> int:
    """Turn session logs that agents keep on disk into results, to grade what they did.

    FORMAT is an agent, whose own session logs are read: claude, codex, gemini, goose, opencode, pi,
    qwen; or the format of another harness: atif (trajectories), claude-evals (aggregate-result.json of
    `claude plugin eval`), harbor (a job's directory), inspect (logs of inspect_ai), otlp (GenAI traces
    as OTLP/JSON), promptfoo (its results). PATH is a file, or a directory that is
    searched for session files. Without a PATH the agent's own directory below HOME is searched; formats of other
    harnesses are read from stdin.

    A session becomes one result: the user's turns, the last answer, the trajectory with sub-agents
    (`parentId` names the `callId` of the call), tokens, times, cwd; model and git branch in `metadata`.

    Values of variables named like secrets become [redacted:NAME], and what looks like a key or token becomes
    [redacted:KIND]: PEM private keys, JWTs, sk-…, GitHub (ghp_…, github_pat_…), GitLab (glpat-…), Slack (xox…), AWS
    (AKIA…, secret access keys), Google (AIza…), Hugging Face (hf_…), npm_…, pypi-…, bearer tokens, passwords in URLs.

    Examples:
      ae-import claude --since 2026-11-01 | ae-grade -g ./grader.py | ae-summarize
      ae-import codex --cwd . --min-turns 2 -o sessions.jsonl
      ae-import gemini ~/.gemini/tmp | ae-format -f table
      ae-import inspect logs/ | ae-format -f html -o report.html
    """
    console = Console("ae-import", progress=progress, strict=strict, output=output)
    records = results(format_, list(paths), console)
    target = Output(output)
    console.redact = redact = Redactor(None if no_redact else os.environ, everywhere=True)
    target.encode = redact.line
    console.begin(None, "sessions")
    console.max_line = max_line
    folder = os.path.realpath(cwd) if cwd is not None else None
    found = written = 0
    for record in with_unique_ids(records, console):
        found += 1
        try:
            wanted = is_wanted(record, since, folder, min_turns)
        except Exception as error:
            console.fault(record["id"], error)
            continue
        if wanted:
            write_record(target, record, console)
            console.advance(record["id"])
            written += 1
    console.finish()
    target.close()
    if not found and not console.refused:
        place = first_few(list(paths), 3) if paths else "stdin" if format_ in FOREIGN else "its logs"
        console.say(f"{place}: contains no {'results' if format_ in FOREIGN else 'sessions'} of {format_}")
    elif found and not written and not console.refused:
        console.say(f"none of {counted(found, 'session')} passes --since, --cwd and --min-turns: nothing was written")
    return FAILED if console.refused else OK


def results(format_: str, paths: list[str], console: Console) -> Iterator[Record]:
    """Returns the results of all files; raises UserError if there is nothing to read."""
    if format_ not in formats():
        if (meant := next((path for path in paths if path in formats()), None)) and os.path.exists(format_):
            raise UserError(f"the format comes first: ae-import {meant} {format_}")
        raise UserError(f'no format is named "{format_}"; {nearest(format_, formats())}')
    for path in paths:
        if path != "-" and not os.path.exists(path):
            raise UserError(f"{path}: No such file or directory")
    if format_ in FOREIGN:
        return read_foreign(format_, paths or ["-"], console)
    schema = load_session_schema(format_)
    paths = paths or [default_root(schema)]
    return session_results(paths, schema, console)


def is_wanted(record: Record, since: float | None, folder: str | None, min_turns: int) -> bool:
    """Returns whether a session passes the filters; a filter on the time or cwd excludes sessions without one."""
    if since is not None and (record.get("timing") or {}).get("end", 0) < since:
        return False
    if folder is not None:
        where = record.get("cwd")
        if not where or "\0" in where or os.path.commonpath([folder, os.path.realpath(where)]) != folder:
            return False
    return len(record["input"]) >= min_turns if isinstance(record["input"], list) else min_turns == 1


def with_unique_ids(records: Iterable[Record], console: Console) -> Iterator[Record]:
    """Yields the records; adds a number to a repeated id, and reports it."""
    seen: dict[str, int] = {}  # id → the last number added to it
    for record in records:
        ident = record["id"]
        while record["id"] in seen:
            seen[ident] += 1
            record["id"] = f"{ident}-{seen[ident]}"
        if record["id"] != ident:
            console.say(f"{ident}: several sessions have this id; this one becomes {record['id']}")
            for step in record["trajectory"]:
                step["stepId"] = step["stepId"].replace(ident, record["id"], 1)
        seen[record["id"]] = 1
        yield record
