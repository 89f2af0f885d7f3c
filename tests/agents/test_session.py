"""One prompt run to its end, with a scripted process layer: retries, turns, limits and the fields of the record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from agenteval.agents.kinds import ShellAgent, TemplateAgent
from agenteval.agents.session import Conditions, Limits, PromptJob, RateLimiter
from agenteval.errors import UserError, WorkspaceError
from agenteval.processes.process import Command, Outcome, failure_of
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.patterns import Pattern
from agenteval.streams.redaction import Redactor

GOOD = Outcome(
    stdout=b"line\n",
    arrivals=[(1, 1.0)],
    stderr=b"",
    exit_code=0,
    signal=None,
    timed_out=False,
    too_much=False,
    started=1.0,
    error=None,
    left_helpers=False,
)
LATE = replace(GOOD, exit_code=None, signal="SIGTERM", timed_out=True)
UNSTARTED = replace(GOOD, stdout=b"", arrivals=[], exit_code=None, started=None, error="cannot start x: not executable")


class FullDisk:
    """A disk on which no directory for temporary files can be made: agents do without."""

    def new_directory(self) -> str:
        raise OSError


class Script:
    """A process layer that returns these outcomes one after the other, and keeps what it was asked for."""

    stopping = False
    scratch = FullDisk()

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[tuple[Command, float | None, int]] = []
        self.ended: list[int | None] = []
        self.pauses: list[float] = []

    def run(self, _key: int, command: Command, *, timeout: float | None, max_output: int, **_more: object) -> Outcome:
        self.asked.append((command, timeout, max_output))
        return self.outcomes.pop(0)

    def terminate_tree(self, key: int) -> None:
        self.ended.append(key)

    def left_running(self, _key: int) -> list[str]:
        return []

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


def run_prompt(
    script: Script, conditions: Conditions, prepare: Callable[[], str] | str = "/somewhere", **prompt: Any
) -> dict[str, Any]:
    """The raw record of a prompt."""
    record = {"id": "a", "input": "x", **prompt}
    processes = cast(ProcessSupervisor, script)
    return PromptJob(record, ShellAgent("true"), processes, 7, prepare=prepare, conditions=conditions).run()


def run_script(script: Script, limits: Limits, **prompt: Any) -> tuple[dict[str, Any], list[float]]:
    return run_prompt(script, Conditions(RateLimiter(), limits), **prompt), script.pauses


def test_timeouts_and_failed_starts_are_tried_again_with_growing_pauses() -> None:
    script = Script(LATE, UNSTARTED, LATE, LATE, LATE, LATE, LATE, GOOD)
    record, pauses = run_script(script, Limits(retries=9))
    assert record["attempts"] == 8
    assert "errors" not in record
    assert record["rawLines"] == ["line"], "only the last try counts"
    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_retries_end() -> None:
    record, pauses = run_script(Script(LATE, LATE, LATE), Limits(timeout=5, retries=2))
    assert (record["attempts"], record["timedOut"], len(pauses)) == (3, True, 2)
    assert record["errors"] == ["timeout: not done after 5 ms"]


@pytest.mark.parametrize(
    "outcome",
    [
        GOOD,
        replace(GOOD, exit_code=1),
        replace(GOOD, exit_code=None, signal="SIGSEGV"),
        replace(GOOD, too_much=True),
    ],
)
def test_other_ends_are_not_tried_again(outcome: Outcome) -> None:
    record, pauses = run_script(Script(outcome), Limits(retries=3))
    assert pauses == []
    assert "attempts" not in record


@pytest.mark.parametrize(
    ("prompt", "limits", "seconds"),
    [
        ({}, Limits(), 60),
        ({}, Limits(timeout=100), 0.1),
        ({"timeout": 50}, Limits(timeout=100), 0.05),
        ({"timeout": None}, Limits(), 60),
    ],
)
def test_timeout(prompt: dict[str, Any], limits: Limits, seconds: float) -> None:
    script = Script(GOOD)
    run_script(script, limits, **prompt)
    assert script.asked[0][1] == seconds


def test_turns_share_the_output_limit_and_stop_at_a_failure() -> None:
    script = Script(GOOD, replace(GOOD, exit_code=3))
    record, _ = run_script(script, Limits(max_output=100), input=["1", "2", "3"])
    assert [asked[2] for asked in script.asked] == [100, 95]
    assert [turn["exitCode"] for turn in record["turns"]] == [0, 3]
    assert record["errors"] == ["turn 2 of 3: exited with code 3"]
    assert (record["exitCode"], record["rawLines"]) == (3, ["line", "line"])


def test_helpers_are_ended_once_after_the_last_turn() -> None:
    script = Script(replace(GOOD, left_helpers=True), GOOD, GOOD)
    run_script(script, Limits(), input=["1", "2", "3"])
    assert script.ended == [7]
    script = Script(GOOD, GOOD)
    run_script(script, Limits(), input=["1", "2"])
    assert script.ended == []


def test_a_workspace_that_cannot_be_made_is_no_error_of_the_record() -> None:
    def prepare() -> str:
        raise WorkspaceError("No space left on device", full=True)

    with pytest.raises(WorkspaceError):
        run_prompt(Script(), Conditions(RateLimiter(), Limits(retries=2)), prepare)


@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (GOOD, None),
        (replace(GOOD, stderr=b"a warning"), None),
        (LATE, "timeout: not done after 250 ms"),
        (replace(GOOD, exit_code=3), "exited with code 3"),
        (replace(GOOD, exit_code=3, stderr=b"first\n  last \n\n"), "exited with code 3: last"),
        (replace(GOOD, exit_code=3, stderr=b"\xff"), "exited with code 3: \ufffd"),
        (replace(GOOD, exit_code=3, stderr=b"x" * 999), f"exited with code 3: {'x' * 300}"),
        (replace(GOOD, exit_code=None, signal="SIGKILL"), "killed by SIGKILL"),
        (UNSTARTED, "cannot start x: not executable"),
    ],
)
def test_failure_of(outcome: Outcome, message: str | None) -> None:
    assert failure_of(outcome, 250) == message


@pytest.mark.parametrize(
    ("template", "argv"),
    [
        ("echo {}", ["echo", "<P>"]),
        ("echo '{}' \"{}\"", ["echo", "<P>", "<P>"]),
        ("echo a{}b --x={}", ["echo", "a<P>b", "--x=<P>"]),
        (r"echo \| {}", ["echo", "|", "<P>"]),
        ("echo '|' \"&&\" {}", ["echo", "|", "&&", "<P>"]),
        (r'echo "\$HOME" {}', ["echo", "$HOME", "<P>"]),
        ("echo '$HOME `x`' {}", ["echo", "$HOME `x`", "<P>"]),
        ("echo   {}   end", ["echo", "<P>", "end"]),
    ],
)
def test_templates(template: str, argv: list[str]) -> None:
    assert TemplateAgent(template).open()("<P>", "/", None).argv == argv


@pytest.mark.parametrize(
    "template", ["echo {} | x", "echo {} & x", "echo <{}", "(echo {})", "echo {}\nls", 'echo "`{}`"', "echo"]
)
def test_templates_for_a_shell(template: str) -> None:
    with pytest.raises(UserError, match="--simple"):
        TemplateAgent(template)


def test_a_program_is_found_before_anything_is_run(tmp_path: Path) -> None:
    for name in ("no-such-command-anywhere", str(tmp_path / "nowhere"), str(tmp_path)):
        with pytest.raises(UserError):
            TemplateAgent(f"{name} {{}}")


# --- a provider that wants to be asked more slowly ----------------------------------------------

BUSY = replace(GOOD, exit_code=1, stderr=b"API Error: 429 Too Many Requests\n")


def test_overload_is_tried_again_and_told() -> None:
    record, pauses = run_script(Script(BUSY, BUSY, GOOD), Limits(retries=5))
    assert (record["exitCode"], record["attempts"]) == (0, 3)
    assert record["retried"] == ["exited with code 1: API Error: 429 Too Many Requests"] * 2
    assert "errors" not in record
    assert pauses[0] == 1.0 and sum(pauses) > 2.9, "all starts are held, not only this one"


def test_retries_have_an_end() -> None:
    record, _ = run_script(Script(BUSY, BUSY), Limits(retries=1))
    assert record["attempts"] == 2
    assert record["errors"] == ["exited with code 1: API Error: 429 Too Many Requests"]


def test_an_answer_about_rate_limits_is_no_overload() -> None:
    record, _ = run_script(Script(replace(GOOD, stdout=b"HTTP 429 means rate limit\n")), Limits(retries=3))
    assert "attempts" not in record


def test_what_the_user_wants_to_be_tried_again() -> None:
    odd = replace(GOOD, stdout=b"please come back tomorrow\n")
    record, _ = run_script(Script(odd, GOOD), Limits(retries=3, retry_on=Pattern("come back")))
    assert record["retried"] == ["please come back tomorrow"]
    assert run_script(Script(odd), Limits(retry_on=Pattern("come back")))[0]["rawLines"], "not without --retries"


@pytest.mark.usefixtures("short_searches")
def test_a_slow_retry_on_is_said_and_costs_no_record() -> None:
    said: list[str] = []
    limits = Limits(retries=1, retry_on=Pattern("(?:a|aa)+$"))
    slow = replace(GOOD, stdout=b"a" * 60 + b"b\n")
    record = run_prompt(Script(slow), Conditions(RateLimiter(), limits, say=said.append))
    assert "errors" not in record and "attempts" not in record and record["rawLines"] == ["a" * 60 + "b"]
    (message,) = said
    assert message.startswith("a: not retried: --retry-on: the regular expression") and "took too long" in message


def test_secrets_are_not_recorded() -> None:
    spoken = replace(GOOD, stdout=b"my key is sk-secret-1\n", stderr=b"sk-secret-1 is wrong\n", exit_code=2)
    conditions = Conditions(RateLimiter(), redact=Redactor({"MY_API_KEY": "sk-secret-1"}))
    record = run_prompt(Script(spoken), conditions)
    assert record["rawLines"] == ["my key is [redacted:MY_API_KEY]"]
    assert record["stderr"] == "[redacted:MY_API_KEY] is wrong\n"
    assert record["errors"] == ["exited with code 2: [redacted:MY_API_KEY] is wrong"]
