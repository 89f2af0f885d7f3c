"""The scenarios that are run with each agent, and the checks of the record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.agent_rig.catalogue import (
    CACHED,
    EXIT,
    HINT,
    KILLED,
    MODEL_2,
    RUNNING,
    SECRET,
    STOP,
    SUB_AGENT_TOKENS,
    THOUGHT_TOKENS,
    THOUGHTS,
    TOKENS,
    TOOLS,
    Agent,
)
from tests.agent_rig.mcp_server import RESULT, TOOL
from tests.agent_rig.poison import HOOK, SERVER
from tests.agent_rig.script import (
    AGAIN,
    ANSWER,
    BEFORE,
    CODEWORD,
    FILE,
    REFUSAL,
    REMEMBERED,
    SUBMIT,
    THOUGHT,
    Script,
)
from tests.agent_rig.server import ScriptedModel

PROMPT = f"Please create {FILE} with a shell command, then tell me the answer. The codeword is {CODEWORD}."
PROMPT_AGAIN = f"{AGAIN}: what was the answer?"
PROMPT_TO_REMEMBER = f"{PROMPT} Remember this for next time: {SECRET}."
LATER = "saffron"  # in the prompt of the second of two sessions, and in no other
INSTRUCTED = "celadon-heron"
SKILL = "rig-skill-amaranth"
HIDDEN = "ochre-lynx"
VALUE = "value-of-a-variable-of-the-user"
PRINTED = "it-was-written"
PRINTED_TOO = "so-was-this"
STARTED = "started.txt"
FOREVER = "nohup tail -f /dev/null"  # some agents refuse to run `sleep`
PATIENCE = 400_000  # ms: some agents retry a failing model for five minutes
ENDS_WITHIN = 6.0  # seconds from the timeout or Ctrl-C to the exit of ae-capture; two of them are the grace period
INTERRUPTED = 130

_SERVER = {"command": "{python}", "args": ["{server}", "{folder}/started"], "env": {"RIG_VALUE": "${RIG_VALUE}"}}
_MCP = json.dumps({"mcpServers": {"rig": _SERVER}})

Record = dict[str, Any]
Problems = Iterator[str]


class Run(NamedTuple):
    """A scenario that has been run with an agent."""

    agent: Agent
    record: Record
    code: int
    stderr: str
    workspace: Path
    model: ScriptedModel
    started: bool
    """The tool was running, or for agents without tools the model was waiting, when the run was stopped."""
    overtime: float
    """Seconds from the timeout or Ctrl-C to the exit of ae-capture."""
    folder: Path = Path()
    """Where its files are: HOME of the user, workspaces and what options name."""
    poison: frozenset[str] = frozenset()
    """What of the user's configuration the agent has seen: files, HOOK, SERVER."""
    not_isolated: Run | None = None
    """The same before, without --isolate."""
    not_walled: Run | None = None
    """The same before, without --sandbox, which it needs beside --isolate."""
    unlisted: frozenset[str] = frozenset()
    """Files in `poison` that its schema does not list."""
    remembered: bool = False
    """An earlier session, without the adapter's switch, saw what was in the agent's memory."""

    def reports(self, fact: str) -> bool:
        """Returns whether the program prints that fact at all."""
        return fact not in self.agent.unreported


class Scenario(NamedTuple):
    """One column of the table."""

    name: str
    script: Script
    check: Callable[[Run], Problems]
    prompt: str | list[str] = PROMPT
    timeout: int | None = PATIENCE
    """ms; None: the agent's `time_out`."""
    interrupted: bool = False
    limited: bool = False
    """The agent may send one request to the model."""
    remembers: bool = False
    """Two sessions with the agent's memory on come first, with the same HOME."""
    options: tuple[str, ...] = ()
    """Options of ae-capture; {folder} stands for the folder of the run, {model} for MODEL_2 as the agent names it."""
    files: dict[str, str] = {}
    """What is in that folder; {folder}, {python} and {server} are replaced."""
    poisoned: bool = False
    """The user's HOME and the directory above the workspaces are full of configuration; it is run without the options
    first."""
    reads: bool = False
    """The model reads a file outside of the workspace."""
    before: str = ""
    """Prompt of a session of its own, before that of `prompt`."""


# --- checks of a record ----------------------------------------------------------------------------


def tool_used(run: Run) -> Problems:
    """Checks a run with one prompt, one tool call and one answer."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)
    yield from _tool_step(run, "completed")
    yield from _steps(run)
    yield from _tokens(run)
    yield from _file(run)


def tool_failed(run: Run) -> Problems:
    """Checks that after a command that exits with 3 the step is failed, but the agent is not."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)
    yield from _tool_step(run, "failed" if run.reports(EXIT) else "completed")
    if run.reports(TOOLS) and run.reports(EXIT) and not run.record["toolErrors"]:
        yield "toolErrors is false"
    yield from _tokens(run)


def resumed(run: Run) -> Problems:
    """Checks that the second turn has the context of the first, and that the tokens of both are counted once."""
    yield from _no_trouble(run)
    yield from _output(run, REMEMBERED)
    yield from _tool_step(run, "completed")
    yield from _tokens(run)
    yield from _file(run)


def refused(run: Run) -> Problems:
    """Checks that the agent's own message is in `errors` when the model answers 500."""
    if run.code:
        yield f"ae-capture exited with {run.code}"
    if not run.model.refused:
        yield "the model received no request"
    errors = run.record.get("errors") or []
    if not any(REFUSAL in error or run.agent.failure in error for error in errors):
        yield f"errors do not mention the refusal: {errors}"
    if run.record["metadata"].get("timedOut"):
        yield "the agent did not give up in time"


def timed_out(run: Run) -> Problems:
    """Checks that a run that timed out has a record with what the agent printed before."""
    yield from _cut_short(run, code=0)
    if not run.record["metadata"].get("timedOut"):
        yield "timedOut is false"
    if not any("timeout" in error for error in run.record.get("errors") or []):
        yield f"errors do not mention the timeout: {run.record.get('errors')}"
    if run.reports(TOOLS) and run.reports(RUNNING):
        yield from _pending(run)


def timed_out_later(run: Run) -> Problems:
    """Checks the tokens of a run that timed out in its second turn: all that were spent, or fewer and marked so."""
    if run.code:
        yield f"ae-capture exited with {run.code}: {run.stderr.strip()[-300:]}"
    if not run.record["metadata"].get("timedOut"):
        yield "timedOut is false"
    if not run.reports(TOKENS):
        return
    timing = run.record["timing"]
    if timing.get("tokensPartial"):
        if timing["inputTokens"] > run.model.spent().task.input + run.model.spent().side.input:
            yield f"inputTokens is {timing['inputTokens']}, more than were spent"
    else:
        yield from _tokens(run, with_side_requests=False)


def answered_with_nothing(run: Run) -> Problems:
    """Checks that the empty answer is not replaced by what was said before it, unless the agent failed."""
    if run.code:
        yield f"ae-capture exited with {run.code}: {run.stderr.strip()[-300:]}"
    if run.record.get("output", "").strip() and not run.record.get("errors"):
        yield f"output is {_short(run.record['output'])}"


def called_in_parallel(run: Run) -> Problems:
    """Checks that two calls in one reply are two steps, each with its own result."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)
    yield from _tokens(run)
    if not run.reports(TOOLS):
        return
    calls = _calls(run)
    if len(calls) != 2:
        yield f"{len(calls)} tool calls instead of two: {_short([call['name'] for call in calls])}"
    for printed in (PRINTED, PRINTED_TOO):  # they may start in any order
        given = [call for call in calls if printed in json.dumps(call.get("input"))]
        if len(given) != 1 or printed not in json.dumps(given[0].get("output")):
            yield f"the output of {printed} is {_short([call.get('output') for call in given])}"


def delegated(run: Run) -> Problems:
    """Checks that the tokens of a sub-agent count, and that its answer is not taken for that of the agent."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)
    if run.model.sub_agents == 0:
        yield "there was no sub-agent"
    if run.reports(SUB_AGENT_TOKENS):
        yield from _tokens(run)


def forgot(run: Run) -> Problems:
    """Checks that a session does not see what an earlier one committed to the agent's memory."""
    yield from _no_trouble(run)
    if not run.remembered:
        yield "no session saw what was in the memory, so that nothing is proven"
    if run.model.saw(SECRET):
        yield "the memory of an earlier session is there"


def ran_out_of_turns(run: Run) -> Problems:
    """Checks that the last message is the output, and that the record says why there is no answer."""
    if run.code:
        yield f"ae-capture exited with {run.code}: {run.stderr.strip()[-300:]}"
    yield from _output(run, BEFORE)
    errors = run.record.get("errors") or [""]
    if not re.search("turns?|steps|limits|actions", errors[0], re.IGNORECASE):
        yield f"the first error does not mention the turns: {_short(errors)}"
    if run.record["metadata"].get("stopReason") != "max_turns":
        yield f"stopReason is {run.record['metadata'].get('stopReason')}, not max_turns"


def interrupted(run: Run) -> Problems:
    """Checks that ae-capture exits soon after Ctrl-C."""
    yield from _cut_short(run, code=INTERRUPTED)


def cut_off(run: Run) -> Problems:
    """Checks that the record says so if the answer ended at the limit of tokens, unless the agent failed."""
    if run.code:
        yield f"ae-capture exited with {run.code}"
    reason = run.record["metadata"].get("stopReason")
    if run.reports(STOP) and not run.record.get("errors") and reason != "length":
        yield f"stopReason is {reason}, not length"
    if not run.reports(STOP) and reason == "length":
        yield "stopReason is length, although the agent is listed as one that does not report it"


def child_left(run: Run) -> Problems:
    """Checks that the answer arrives although the tool leaves a background process running."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)


def kept_out(run: Run) -> Problems:
    """Checks that nothing of the user's is seen with --isolate, and that the line without it names what is."""
    plain = run.not_isolated
    assert plain is not None
    for what, each in (("without --isolate: ", plain), ("", run)):
        yield from (f"{what}{problem}" for problem in (*_no_trouble(each), *_output(each, ANSWER)))
    yield from _proven(plain)
    if plain.unlisted:
        yield f"it reads what its schema does not list: {', '.join(sorted(plain.unlisted))}"
    if any(path[0] in "~." for path in plain.poison) and "reads your own configuration: " not in plain.stderr:
        yield f"without --isolate no line says what it reads: {plain.stderr.strip()[-300:]}"
    if run.poison:
        yield f"with --isolate: {', '.join(sorted(run.poison))}"
    if half := run.not_walled:
        if inside := sorted(path for path in half.poison if not path.startswith("../")):
            yield f"with --isolate, without --sandbox: {', '.join(inside)}"
        if "also reads files above its workspace: " not in half.stderr or "--sandbox hides it" not in half.stderr:
            yield f"no line says that it needs --sandbox: {half.stderr.strip()[-300:]}"


def _proven(plain: Run) -> Problems:
    """Checks that the poison works without --isolate."""
    if not plain.agent.harmless and not any(path.startswith("~/") for path in plain.poison):
        yield "no file of the user's was read without --isolate, so that nothing is proven"
    planted = "".join([*plain.agent.poison.values(), *plain.agent.poison_above.values()])
    for sign, word in ((HOOK, "{hook"), (SERVER, "{server}")):
        if word in planted and sign not in plain.poison:
            yield f"without --isolate it is not true that {sign}, so that nothing is proven"


def left_nothing(run: Run) -> Problems:
    """Checks that a session does not see what the one before left in its HOME, and that the user's HOME is clean."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)
    left = run.folder / "work" / "prompt-a.home" / ".claude/CLAUDE.md"
    if not left.exists() or SECRET not in left.read_text("utf-8"):
        yield "the first session left nothing, so that nothing is proven"
    if not run.model.saw(LATER):
        yield "the model received no request of the second session"
    if run.model.saw(SECRET, beside=LATER):
        yield "the second session saw what the first left"
    home = run.folder / "home"
    found = [file for file in sorted(home.rglob("*")) if file.is_file() and SECRET.encode() in file.read_bytes()]
    if found:
        yield f"the first session left it in {len(found)} files of the user's, such as ~/{found[0].relative_to(home)}"


def model_chosen(run: Run) -> Problems:
    """Checks that all requests for the task name the model of --model."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)
    if set(run.model.models) != {MODEL_2}:
        yield f"the requests name {_short(run.model.models)}"
    if run.record["metadata"]["variant"] != {"model": run.agent.model}:
        yield f"metadata.variant is {_short(run.record['metadata']['variant'])}"


def instructed(run: Run) -> Problems:
    """Checks that the instructions are in a request."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)
    if not run.model.saw(INSTRUCTED, beside=CODEWORD):
        yield "the instructions are not in a request"


def skilled(run: Run) -> Problems:
    """Checks that the model is told about the skill."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)
    if not run.model.saw(SKILL, beside=CODEWORD):
        yield "the skill is not in a request"


def looked_up(run: Run) -> Problems:
    """Checks that the tool of the MCP server is called, and that its result is in the trajectory."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)
    started = run.folder / "started"
    if not started.exists() or started.read_text().split() != [VALUE] * len(started.read_text().split()):
        yield "the server was not started with the variable of its configuration"
    if not run.model.saw(RESULT):
        yield "the result of the tool is not in a request"
    if VALUE in json.dumps(run.record):
        yield "the value of the variable is in the record"
    calls = [call for call in _calls(run) if TOOL in json.dumps([call["name"], call.get("input")])]
    if run.reports(TOOLS) and not any(RESULT in json.dumps(call.get("output")) for call in calls):
        yield f"the result is not in the trajectory: {_short([[call['name'], call.get('output')] for call in calls])}"


def walled(run: Run) -> Problems:
    """Checks that the agent works behind the wall, and that a file outside cannot be read."""
    yield from _no_trouble(run)
    yield from _output(run, ANSWER)
    yield from _file(run)
    if run.model.saw(HIDDEN) or HIDDEN in json.dumps(run.record):
        yield "a file of the user's was read"
    if not run.agent.without_tools and not run.model.saw(PRINTED):
        yield "the model did not see that the command ran"
    if not run.record["metadata"].get("sandbox"):
        yield "metadata.sandbox is missing"


SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("tool", Script(f"echo hello > {FILE} && echo {PRINTED}"), tool_used),
        Scenario("failing tool", Script(f"echo {PRINTED}; sh -c 'exit 3'"), tool_failed),
        Scenario("two turns", Script(f"echo hello > {FILE} && echo {PRINTED}"), resumed, [PROMPT, PROMPT_AGAIN]),
        Scenario("500", Script("true", status=500), refused),
        Scenario("cut off", Script("true", cut=True), cut_off),
        Scenario("child left", Script(f"{FOREVER} >/dev/null 2>&1 & echo started"), child_left),
        Scenario("empty answer", Script(f"echo {PRINTED}", answer=""), answered_with_nothing),
        Scenario(
            "parallel calls",
            Script(f"echo {PRINTED}", commands=(f"echo {PRINTED_TOO}",)),
            called_in_parallel,
        ),
        Scenario(
            "sub-agent",
            Script("true", sub_agent=True),
            delegated,
            timeout=120_000,
        ),
        Scenario("max turns", Script(f"echo {PRINTED}"), ran_out_of_turns, limited=True),
        Scenario("second session", Script("true", memorizes=True), forgot, remembers=True),
        Scenario(
            "killed later",
            Script(f"echo > {STARTED}", waits_again=True),
            timed_out_later,
            [PROMPT, PROMPT_AGAIN],
            timeout=None,
        ),
        Scenario("time-out", Script(f"echo > {STARTED}; {FOREVER}", waits=True), timed_out, timeout=None),
        Scenario("Ctrl-C", Script(f"echo > {STARTED}; {FOREVER}", waits=True), interrupted, interrupted=True),
        Scenario("poisoned", Script("true"), kept_out, options=("--isolate",), poisoned=True),
        Scenario(
            "memory",
            Script("true", memorizes=True, leaves="sh {folder}/leave.sh"),
            left_nothing,
            f"{PROMPT} Another word is {LATER}.",
            options=("--isolate",),
            before=PROMPT_TO_REMEMBER,
            reads=True,
        ),
        Scenario("model", Script("true"), model_chosen, options=("--isolate", "--model", "{model}")),
        Scenario(
            "instructions",
            Script("true"),
            instructed,
            options=("--isolate", "--instructions", "{folder}/RULES.md"),
            files={"RULES.md": f"Always remember the word {INSTRUCTED}.\n"},
        ),
        Scenario(
            "skill",
            Script("true"),
            skilled,
            options=("--isolate", "--skill", f"{{folder}}/skills/{SKILL}"),
            files={f"skills/{SKILL}/SKILL.md": f"---\nname: {SKILL}\ndescription: Names a colour.\n---\nSay mauve.\n"},
        ),
        Scenario(
            "mcp",
            Script("true", tool=TOOL),
            looked_up,
            options=("--isolate", "--mcp", "{folder}/mcp.json"),
            files={"mcp.json": _MCP},
        ),
        Scenario(
            "sandbox",
            Script(f"cat {{folder}}/{HINT}; echo hello > {FILE} && echo {PRINTED}"),
            walled,
            options=("--isolate", "--sandbox", "bwrap"),
            files={HINT: f"{HIDDEN}\n"},
            reads=True,
        ),
    )
}


# --- parts ----------------------------------------------------------------------------------------


def _no_trouble(run: Run) -> Problems:
    if run.code:
        yield f"ae-capture exited with {run.code}: {run.stderr.strip()[-300:]}"
    if errors := run.record.get("errors"):
        yield f"errors: {errors}"


def _output(run: Run, wanted: str) -> Problems:
    output = run.record.get("output")
    exact = run.reports(TOOLS)
    if not isinstance(output, str) or not (output.strip() == wanted if exact else wanted in output):
        yield f"output is {_short(output)}"


def _trajectory(run: Run) -> list[Record]:
    """Returns the steps without the command by which mini-swe-agent ends."""
    return [step for step in run.record["trajectory"] if not _is_ending(step)]


def _is_ending(step: Record) -> bool:
    return SUBMIT in json.dumps(step.get("input"))


def _calls(run: Run) -> list[Record]:
    return [step for step in _trajectory(run) if step["type"] == "tool_call"]


def _tool_step(run: Run, status: str) -> Problems:
    if not run.reports(TOOLS):
        return
    calls = _calls(run)
    if len(calls) != 1:
        yield f"{len(calls)} tool calls instead of one: {_short([call['name'] for call in calls])}"
        return
    call = calls[0]
    if f"echo {PRINTED}" not in json.dumps(call.get("input")):
        yield f"tool input is {_short(call.get('input'))}"
    if PRINTED not in json.dumps(call.get("output")):
        yield f"tool output is {_short(call.get('output'))}"
    if call["status"] != status:
        yield f"tool status is {call['status']}, not {status}"


def _pending(run: Run) -> Problems:
    calls = _calls(run)
    if len(calls) != 1 or (calls[0]["status"] == "completed" and run.reports(KILLED)):
        yield f"the unfinished tool call is {_short([(call['name'], call['status']) for call in calls])}"


def _steps(run: Run) -> Problems:
    """Checks for thought, message, tool call and answer, each once and in this order."""
    if not run.reports(TOOLS):
        return
    wanted = [("thought", THOUGHT)] * run.reports(THOUGHTS) + [
        ("message", BEFORE),
        ("tool_call", ""),
        ("message", ANSWER),
    ]
    steps = [(step["type"], step.get("content", "").strip()) for step in _trajectory(run)]
    if steps != wanted:
        yield f"steps are {_short(steps)}"


def _tokens(run: Run, *, with_side_requests: bool = True) -> Problems:
    timing = run.record["timing"]
    if not run.reports(TOKENS):
        return
    main, aside = run.model.spent()
    unreported = 0 if run.reports(THOUGHT_TOKENS) else main.reasoning
    for name, task, side in (
        ("inputTokens", main.input, aside.input),
        ("cachedTokens", main.cached, aside.cached),
        ("outputTokens", main.output - unreported, aside.output),
    ):
        wanted = task + side * (run.agent.counts_side_requests and with_side_requests)
        if name == "cachedTokens" and not run.reports(CACHED):
            continue
        if timing.get(name) != wanted:
            yield f"{name} is {timing.get(name)}, not {wanted} (side requests {side})"


def _file(run: Run) -> Problems:
    if not run.agent.writes_files:
        return
    path = run.workspace / FILE
    if not path.exists():
        yield f"{FILE} was not written"
    elif path.read_text().strip() != "hello":
        yield f"{FILE} holds {_short(path.read_text())}"


def _cut_short(run: Run, code: int) -> Problems:
    if run.code != code:
        yield f"ae-capture exited with {run.code}, not {code}: {run.stderr.strip()[-300:]}"
    if not run.started:
        yield "the tool had not started"
    if run.overtime > ENDS_WITHIN:
        yield f"ae-capture took {run.overtime:.1f} s to exit"


def _short(value: object) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 300 else f"{shown[:300]}…"
