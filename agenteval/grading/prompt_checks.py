"""Grades a record by the checks that its prompt carries (`checks`), for ae-grader-checks.

Data flow: `checks` → typed, valid checks (parsed_checks) → the finding of each in the output, the tool calls, the files
of the workspace, times and tokens (Evidence) → pass, score and `outcome.checks`. A check that cannot be applied raises
BadRecord, and the record gets no verdict.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, NamedTuple, get_args

from agenteval.agents.sandbox import Sandbox
from agenteval.agents.workspaces import copy_tree
from agenteval.errors import BadRecord, nearest
from agenteval.grading.checks import output_problems, structure_of
from agenteval.grading.workspace import WorkspaceCopy, directory_of, run_in, run_in_copy, workspace_copy
from agenteval.processes.supervisor import ProcessSupervisor
from agenteval.streams.files import open_regular, read_regular
from agenteval.streams.jsonl import decode, encode
from agenteval.streams.patterns import Pattern
from agenteval.streams.text import counted, first_few, one_line, parse_milliseconds, preview
from agenteval.wire import checks as kinds
from agenteval.wire.checks import AnyCheck
from agenteval.wire.records import SHOULD_TRIGGER, SKILL_TRIGGERED, Record
from agenteval.wire.validation import check as convert

CHECKS = "ae-grader-checks"
KINDS = {kind.__struct_config__.tag: kind for kind in get_args(AnyCheck)}
COMMAND_TIMEOUT = 50_000.0  # milliseconds
FILE_LIMIT = 16 << 20  # bytes of a file that is searched
SHOWN = 60  # characters of what a check looks for
SKILL_FIELDS = ("skill", "skill_name", "skillName", "name", "command")  # of skill tools, for the name of the skill
WRITES = re.compile(r"write|edit|create|patch|replace", re.IGNORECASE)  # tools that do not read the file they name


class Finding(NamedTuple):
    """Whether a check passes, and why."""

    passes: bool
    reason: str


class Opinion(NamedTuple):
    """A judge's score for one rubric."""

    score: float
    reason: str


AskJudge = Callable[[Record, Sequence[str]], tuple[Sequence[Opinion], Record]]
"""Takes a record and all its rubrics; returns an opinion for each, and what the judge used (tokens, cost)."""


# --- reading checks -----------------------------------------------------------------------------


def parsed_checks(record: Record) -> list[AnyCheck]:
    """Returns the checks of a record; raises BadRecord if there are none or one of them is invalid."""
    given = record.get("checks")
    if given is None:
        raise BadRecord('the record has no "checks"')
    if not isinstance(given, list) or not given:
        raise BadRecord('"checks" must be a non-empty list of checks')
    return [_parsed(one, f"checks[{number}]") for number, one in enumerate(given)]


def _parsed(given: object, place: str) -> AnyCheck:
    kind = given.get("type") if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(kind, str):
        raise BadRecord(f'"{place}" must be an object with a "type", such as {{"type": "contains", "value": "…"}}')
    if kind not in KINDS:
        raise BadRecord(f"{place}: unknown type {kind!r}; {nearest(kind, KINDS)}")
    fields = KINDS[kind].__struct_encode_fields__
    if unknown := next((name for name in given if name not in fields and name != "type"), None):
        raise BadRecord(f"{place} ({kind}): unknown field {unknown!r}; {nearest(unknown, fields)}")
    if kind == "group" and isinstance(given.get("checks"), list):
        for number, one in enumerate(given["checks"]):
            _parsed(one, f"{place}.checks[{number}]")
    try:
        check: AnyCheck = convert(given, KINDS[kind])
    except BadRecord as error:
        raise BadRecord(f"{place} ({kind}): {error}") from None
    if problem := next(_problems(check), None):
        raise BadRecord(f"{place} ({kind}): {problem}")
    return check


def _problems(check: AnyCheck) -> Iterator[str]:
    """Yields problems of a check that its type does not exclude."""
    try:
        for text in _patterns(check):
            Pattern(text)
        if isinstance(check, kinds.JsonSchema):
            structure_of(check.schema, "schema")
        if isinstance(check, kinds.MaxDuration | kinds.CommandSucceeds | kinds.HarborTests):
            _milliseconds(check.value if isinstance(check, kinds.MaxDuration) else check.timeout)
    except (ValueError, BadRecord) as error:
        yield str(error)
    if isinstance(check, kinds.FileExists | kinds.FileContains) and (
        os.path.isabs(check.path) or ".." in check.path.split("/") or "\0" in check.path
    ):
        yield f'"path" must be a path within the workspace, got {check.path!r}'
    if isinstance(check, kinds.FileContains) and (check.value is None) == (check.regex is None):
        yield 'give either "value" or "regex"'
    if isinstance(check, kinds.ToolCalled) and check.max is not None and check.max < check.min:
        yield f'"max" is {check.max}, less than "min" ({check.min})'


def _patterns(check: AnyCheck) -> Iterator[str]:
    if isinstance(check, kinds.Regex | kinds.NotRegex):
        yield check.value
    elif isinstance(check, kinds.ToolCalled | kinds.ToolNotCalled) and check.input is not None:
        yield check.input
    elif isinstance(check, kinds.FileContains) and check.regex is not None:
        yield check.regex


def _milliseconds(value: float | str | None) -> float:
    return COMMAND_TIMEOUT if value is None else parse_milliseconds(value) if isinstance(value, str) else value


# --- the verdict --------------------------------------------------------------------------------


def grade_checks(record: Record, processes: ProcessSupervisor, ask: AskJudge, sandbox: Sandbox | None = None) -> Record:
    """Passes if all required checks pass; the score is the share of checks that pass, by weight."""
    try:
        checks = parsed_checks(record)
        evidence = Evidence(record, processes, sandbox)
        rubrics = [one.rubric for one in _flat(checks) if isinstance(one, kinds.Judged)]
        opinions, used = ask(record, rubrics) if rubrics else ((), {})
        evidence.opinions = iter(opinions)
        findings = [evidence.find(check) for check in checks]
    except BadRecord as error:
        return {"error": str(error)}
    pairs = list(zip(checks, findings, strict=True))
    passing = sum(finding.passes for finding in findings)
    failing = [f"{label_of(check)}: {finding.reason}" for check, finding in pairs if not finding.passes]
    tally = f"{passing}/{counted(len(checks), 'check')}"
    return {
        "pass": all(finding.passes for check, finding in pairs if check.required),
        "score": _share(pairs),
        "reasoning": "; ".join([tally, *failing]),
        "outcome": {
            "checks": [_outcome(check, finding) for check, finding in pairs],
            **({"skills": skills, SKILL_TRIGGERED: any(skills.values())} if (skills := evidence.skills) else {}),
            **used,
        },
    }


def _flat(checks: Iterable[AnyCheck]) -> Iterator[AnyCheck]:
    for check in checks:
        yield from _flat(check.checks) if isinstance(check, kinds.Group) else (check,)


def _share(pairs: Iterable[tuple[AnyCheck, Finding]]) -> float:
    """Returns the share of checks that pass, by weight."""
    weights = [(check.weight, finding.passes) for check, finding in pairs]
    return sum(weight for weight, passes in weights if passes) / sum(weight for weight, _ in weights)


def _outcome(check: AnyCheck, finding: Finding) -> Record:
    outcome: Record = {"name": label_of(check), "type": kind_of(check), "pass": finding.passes}
    outcome |= {} if check.weight == 1 else {"weight": check.weight}
    outcome |= {} if check.required else {"required": False}
    return outcome | {"reason": finding.reason}


def kind_of(check: AnyCheck) -> str:
    """Returns the type of a check, as written in JSON."""
    return str(check.__struct_config__.tag)


def label_of(check: AnyCheck) -> str:
    """Returns the name of a check, else its type and what it looks for."""
    if check.name:
        return check.name
    subject = next((getattr(check, field) for field in check.__struct_fields__ if field in _SUBJECTS), None)
    if subject is None or isinstance(subject, dict | bool):
        return kind_of(check)
    text = ", ".join(map(str, subject)) if isinstance(subject, list) else str(subject)
    return f"{kind_of(check)} {preview(one_line(text, SHOWN), SHOWN)}"


_SUBJECTS = ("value", "tool", "tools", "skill", "path", "run", "rubric")


# --- the evidence -------------------------------------------------------------------------------


class Call(NamedTuple):
    """A tool call, with its input as JSON without escapes."""

    name: str
    texts: tuple[str, str]  # without and with spaces after commas and colons: both are common
    values: list[str]  # the texts in its input that may name a skill
    failed: bool


def calls_of(record: Record) -> list[Call]:
    """Returns the tool calls of a record in order; raises BadRecord if they are unknown."""
    steps = record.get("trajectory")
    if not isinstance(steps, list):
        raise BadRecord('"trajectory" is missing: the tool calls are unknown')
    return [
        Call(
            str(step.get("name")),
            _unescaped(step.get("input")),
            _names_in(step.get("input")),
            failed=step.get("status") == "failed",
        )
        for step in steps
        if isinstance(step, dict) and step.get("type") == "tool_call"
    ]


class Evidence:
    """Applies checks to a record and its workspace; reads only what a check needs."""

    opinions: Iterator[Opinion] = iter(())

    def __init__(self, record: Record, processes: ProcessSupervisor, sandbox: Sandbox | None) -> None:
        self.record, self.processes, self.sandbox = record, processes, sandbox
        self.skills: dict[str, bool] = {}  # the skills that checks name → whether they were loaded

    def find(self, check: AnyCheck) -> Finding:
        """Returns whether a check passes; raises BadRecord if it cannot be applied."""
        found: Finding = _TESTS[type(check)](self, check)
        return found

    @cached_property
    def output(self) -> str:
        """The answer; empty if it is missing."""
        output = self.record.get("output")
        if not isinstance(output, str | None):
            raise BadRecord('"output" must be a string')
        return output or ""

    @cached_property
    def calls(self) -> list[Call]:
        """The tool calls in order."""
        return calls_of(self.record)

    @cached_property
    def directory(self) -> str:
        """Where the agent worked."""
        return os.path.realpath(directory_of(self.record))

    @property
    def timing(self) -> Record:
        """Times, tokens and cost."""
        timing = self.record.get("timing")
        return timing if isinstance(timing, dict) else {}

    # --- the output ---

    def contains(self, check: kinds.Contains | kinds.NotContains) -> Finding:
        """Looks for a text in the output."""
        found = _first_in(check.value, self.output, ignore_case=check.ignore_case)
        said = f"the output contains {found!r}" if found else f"the output does not contain {_either(check.value)}"
        return Finding((found is not None) == isinstance(check, kinds.Contains), said)

    def equals(self, check: kinds.Equals) -> Finding:
        """Compares the output with a text."""
        fold = _folding(check.ignore_case)
        same = fold(self.output).strip() in [fold(value).strip() for value in _listed(check.value)]
        return Finding(same, f"the output is {'' if same else 'not '}{_either(check.value)}")

    def starts_with(self, check: kinds.StartsWith) -> Finding:
        """Compares the beginning of the output with a text."""
        fold = _folding(check.ignore_case)
        begins = fold(self.output).lstrip().startswith(tuple(map(fold, _listed(check.value))))
        said = "begins" if begins else "does not begin"
        return Finding(begins, f"the output {said} with {_either(check.value)}")

    def regex(self, check: kinds.Regex | kinds.NotRegex) -> Finding:
        """Searches the output."""
        found = Pattern(check.value, ignore_case=check.ignore_case).search(self.output)
        said = f"found {preview(one_line(found[0], SHOWN), SHOWN)!r}" if found else "not found in the output"
        return Finding((found is not None) == isinstance(check, kinds.Regex), said)

    def json_schema(self, check: kinds.JsonSchema) -> Finding:
        """Compares the JSON in the output with a schema."""
        problems = output_problems(self.output, structure_of(check.schema, "schema"))
        said = f"the output does not match the schema: {first_few(problems, 3, '; ')}"
        return Finding(not problems, said if problems else "the output matches the schema")

    # --- the tool calls ---

    def tool_called(self, check: kinds.ToolCalled) -> Finding:
        """Counts the calls of a tool."""
        count = len(self._calls_of(check))
        wanted = f", at least {check.min} required" if check.min > 1 else ""
        wanted = f", at most {check.max} allowed" if check.max is not None and count > check.max else wanted
        enough = check.min <= count and (check.max is None or count <= check.max)
        return Finding(enough, f"{_times_called(count)}{'' if enough else wanted}")

    def tool_not_called(self, check: kinds.ToolNotCalled) -> Finding:
        """Looks for calls of a tool."""
        calls = self._calls_of(check)
        return Finding(not calls, _times_called(len(calls)))

    def _calls_of(self, check: kinds.ToolCalled | kinds.ToolNotCalled) -> list[Call]:
        fold = _folding(check.ignore_case)
        calls = [call for call in self.calls if fnmatchcase(fold(call.name), fold(check.tool))]
        if check.input is None:
            return calls
        pattern = Pattern(check.input, ignore_case=check.ignore_case)
        return [call for call in calls if any(map(pattern.search, call.texts))]

    def tool_order(self, check: kinds.ToolOrder) -> Finding:
        """Looks for calls in the order given."""
        fold, rest = _folding(check.ignore_case), iter(self.calls)
        for tool in check.tools:
            if not any(fnmatchcase(fold(call.name), fold(tool)) for call in rest):
                return Finding(False, f"no call of {tool} where the order {', '.join(check.tools)} has it")
        return Finding(True, f"called in the order {', '.join(check.tools)}")

    def skill(self, check: kinds.SkillUsed | kinds.SkillNotUsed) -> Finding:
        """Looks for a call or a read that loads a skill."""
        by = next((call.name for call in self.calls if loads_skill(call, check.skill, check.ignore_case)), None)
        self.skills[check.skill] = by is not None
        said = f"loaded by {by}" if by else "not loaded"
        return Finding((by is not None) == isinstance(check, kinds.SkillUsed), said)

    # --- the workspace ---

    def file_exists(self, check: kinds.FileExists) -> Finding:
        """Looks for a file in the workspace."""
        there = self._path(check.path) is not None
        return Finding(there, f"{check.path} {'exists' if there else 'does not exist'}")

    def file_contains(self, check: kinds.FileContains) -> Finding:
        """Searches a file of the workspace."""
        if (path := self._path(check.path)) is None:
            return Finding(False, f"{check.path} does not exist")
        try:
            text = read_regular(path, FILE_LIMIT).decode("utf-8", "replace")
        except OSError as error:
            return Finding(False, f"{check.path} cannot be read: {error.strerror or error}")
        if check.regex is not None:
            found = Pattern(check.regex, ignore_case=check.ignore_case).search(text) is not None
            return Finding(found, f"{check.path} {'matches' if found else 'does not match'} {check.regex!r}")
        value = check.value or ""
        found = _first_in(value, text, ignore_case=check.ignore_case) is not None
        return Finding(found, f"{check.path} {'contains' if found else 'does not contain'} {_either(value)}")

    def _path(self, path: str) -> str | None:
        """Returns the path of a file in the workspace; None if it is missing, or is a link that leads out of it."""
        place = os.path.realpath(os.path.join(self.directory, path))
        inside = place == self.directory or place.startswith(os.path.join(self.directory, ""))
        return place if inside and os.path.exists(place) else None

    def command(self, check: kinds.CommandSucceeds) -> Finding:
        """Runs a command in a copy of the workspace."""
        if check.tests is not None and not os.path.isdir(check.tests):
            raise BadRecord(f"tests {check.tests}: no such directory")
        limit = _milliseconds(check.timeout)
        try:
            how, code, printed = run_in_copy(
                self.record, self.directory, check.run, limit, check.tests, self.processes, self.sandbox
            )
        except OSError as error:
            raise BadRecord(f"cannot copy {self.directory}: {error}") from None
        last = one_line(printed.strip().rpartition("\n")[2], 2 * SHOWN)
        return Finding(code == 0, f"it {how}{f': {last}' if last and code != 0 else ''}")

    def harbor(self, check: kinds.HarborTests) -> Finding:
        """Runs the tests of a Harbor task in a copy of the workspace, and reads the reward that they write."""
        if problem := image_problem(check, self.sandbox.image if self.sandbox else None):
            raise BadRecord(problem)
        needed = [check.tests, *([check.solution] if check.solve and check.solution else [])]
        if missing := next((place for place in needed if not os.path.isdir(place)), None):
            raise BadRecord(f"{missing}: no such directory")
        try:
            with workspace_copy(self.record, self.directory, None, self.processes) as copy:
                return self._rewarded(check, copy)
        except OSError as error:
            raise BadRecord(f"cannot run {check.tests}: {error}") from None

    def _rewarded(self, check: kinds.HarborTests, copy: WorkspaceCopy) -> Finding:
        """Runs the tests with the paths that they expect: mounted in a container, else replaced in the scripts."""
        names = ["/tests", "/logs", *(["/solution"] if check.solve else [])]
        places = {name: os.path.join(copy.folder, f"harbor{name}") for name in names}
        rewards = os.path.join(places["/logs"], "verifier")
        os.makedirs(rewards)
        for name, source in (("/tests", check.tests), ("/solution", check.solution or "")):
            if name in places:
                copy_tree(source, places[name])
        places[check.workdir] = copy.place
        sandbox = self.sandbox
        if sandbox is not None and sandbox.image:
            sandbox, places = sandbox.mounting(places), {name: name for name in places}
        else:
            for name in ("/tests", "/solution"):
                if name in places:
                    _replace_paths(places[name], places)
        scripts = [f"{places['/solution']}/solve.sh"] if check.solve else []
        scripts.append(f"{places['/tests']}/test.sh")
        run = "\n".join(f"cd {shlex.quote(places[check.workdir])}; bash {shlex.quote(one)}" for one in scripts)
        how, _code, printed = run_in(copy, run, _milliseconds(check.timeout), self.processes, sandbox)
        paths = [path for name in ("reward.json", "reward.txt") if os.path.isfile(path := os.path.join(rewards, name))]
        if not paths:
            raise BadRecord(f"test.sh wrote no reward; it {how}: {one_line(printed.strip(), 2 * SHOWN)}")
        reward = decode(read_regular(paths[0], FILE_LIMIT))
        values = list(reward.values()) if isinstance(reward, dict) else [reward]
        if not values or not all(isinstance(value, int | float) for value in values):
            raise BadRecord(f"the reward of test.sh is not a number: {preview(str(reward), SHOWN)}")
        said = ", ".join(f"{name} {value:g}" for name, value in reward.items()) if isinstance(reward, dict) else reward
        return Finding(all(value >= 1 for value in values), f"the reward is {said}")

    # --- limits ---

    def duration(self, check: kinds.MaxDuration) -> Finding:
        """Compares the time that the agent took with a limit."""
        took = self.timing.get("total", self.record.get("duration"))
        return _limited(took, _milliseconds(check.value), "the agent took", " ms")

    def tokens(self, check: kinds.MaxTokens) -> Finding:
        """Compares the tokens that the agent used with a limit."""
        parts = [self.timing.get(name) for name in ("inputTokens", "outputTokens")]
        known = [part for part in parts if isinstance(part, int | float)]
        used = sum(known) if len(known) == len(parts) else None
        if used is not None and self.timing.get("tokensPartial") and used <= check.value:
            return Finding(False, f"the agent used more than {used:,g} tokens; how many is unknown")
        return _limited(used, check.value, "the agent used", " tokens")

    def cost(self, check: kinds.MaxCost) -> Finding:
        """Compares the agent's cost with a limit."""
        return _limited(self.timing.get("costUsd"), check.value, "the agent cost", " USD")

    # --- others ---

    def judged(self, check: kinds.Judged) -> Finding:
        """Compares the judge's score with the threshold."""
        opinion = next(self.opinions)
        return Finding(opinion.score >= check.threshold, f"{opinion.score:g} of {check.threshold:g}: {opinion.reason}")

    def group(self, check: kinds.Group) -> Finding:
        """Compares the share of a group's checks that pass with its threshold."""
        pairs = [(one, self.find(one)) for one in check.checks]
        share = _share(pairs)
        failing = [f"{label_of(one)}: {finding.reason}" for one, finding in pairs if not finding.passes]
        said = f"{share:.0%} of {check.threshold:.0%}" + (f" ({'; '.join(failing)})" if failing else "")
        return Finding(share >= check.threshold - 1e-9, said)


_TESTS: dict[type, Callable[[Evidence, Any], Finding]] = {
    kinds.Contains: Evidence.contains,
    kinds.NotContains: Evidence.contains,
    kinds.Equals: Evidence.equals,
    kinds.StartsWith: Evidence.starts_with,
    kinds.Regex: Evidence.regex,
    kinds.NotRegex: Evidence.regex,
    kinds.JsonSchema: Evidence.json_schema,
    kinds.ToolCalled: Evidence.tool_called,
    kinds.ToolNotCalled: Evidence.tool_not_called,
    kinds.ToolOrder: Evidence.tool_order,
    kinds.SkillUsed: Evidence.skill,
    kinds.SkillNotUsed: Evidence.skill,
    kinds.FileExists: Evidence.file_exists,
    kinds.FileContains: Evidence.file_contains,
    kinds.CommandSucceeds: Evidence.command,
    kinds.HarborTests: Evidence.harbor,
    kinds.MaxDuration: Evidence.duration,
    kinds.MaxTokens: Evidence.tokens,
    kinds.MaxCost: Evidence.cost,
    kinds.Judged: Evidence.judged,
    kinds.Group: Evidence.group,
}


def refuse_other_images(record: Record, image: str | None) -> None:
    """Raises BadRecord if a check of a record needs another image than its grader's."""
    for check in _flat(parsed_checks(record)):
        if isinstance(check, kinds.HarborTests) and (problem := image_problem(check, image)):
            raise BadRecord(problem)


def image_problem(check: kinds.HarborTests, image: str | None) -> str | None:
    """Returns why the tests of a task cannot run in that image, or without an image; None if they can."""
    if check.image is None:
        return None
    if image is None:
        options = f"--sandbox podman --sandbox-image {check.image}"
        return (
            f"the task runs in an image: {options} runs the agent and the tests in it, "
            f"-g '{CHECKS} {options}' the tests alone"
        )
    here, there = (name.removesuffix(":latest") for name in (image, check.image))
    if here == there or here.endswith(f"/{there}") or there.endswith(f"/{here}"):
        return None
    return f"the task runs in the image {check.image}, not in {image}: run the tasks of each image separately"


# --- texts --------------------------------------------------------------------------------------


def _folding(ignore_case: bool) -> Callable[[str], str]:
    return str.casefold if ignore_case else str


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _first_in(value: str | list[str], text: str, *, ignore_case: bool) -> str | None:
    """Returns the first of the values that is in the text."""
    fold = _folding(ignore_case)
    text = fold(text)
    return next((one for one in _listed(value) if fold(one) in text), None)


def _either(value: str | list[str]) -> str:
    return " or ".join(repr(preview(one_line(one, SHOWN), SHOWN)) for one in _listed(value))


def _times_called(count: int) -> str:
    return "never called" if not count else f"called {counted(count, 'time')}"


def _limited(value: object, limit: float, subject: str, unit: str) -> Finding:
    if not isinstance(value, int | float):
        return Finding(False, f"{subject} an unknown number of{unit}" if unit != " ms" else f"{subject} unknown time")
    return Finding(value <= limit, f"{subject} {value:,g}{unit}, at most {limit:,g} allowed")


def _unescaped(value: object) -> tuple[str, str]:
    """Returns JSON with unescaped texts, so that a regular expression matches the text that the tool was given."""
    return (value, value) if isinstance(value, str) else (_json(value, ""), _json(value, " "))


def _json(value: object, space: str) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        items = (f'"{name}":{space}{_json(item, space)}' for name, item in value.items())
        return "{" + f",{space}".join(items) + "}"
    if isinstance(value, list):
        return "[" + f",{space}".join(_json(item, space) for item in value) + "]"
    return encode(value).decode()


def _names_in(given: object) -> list[str]:
    """Returns the texts in a tool's input that may name a skill: those of the fields for a name, else all."""
    named = {name: given[name] for name in SKILL_FIELDS if name in given} if isinstance(given, dict) else {}
    return list(_texts(named or given))


def _texts(value: object) -> Iterator[str]:
    """Yields all texts in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def loads_skill(call: Call, skill: str, ignore_case: bool = False) -> bool:
    """Whether a call loads a skill: one of a skill tool that names it, or any read of its SKILL.md."""
    if call.failed:
        return False
    fold = _folding(ignore_case)
    name = fold(skill)
    if "skill" in call.name.casefold():
        return any(fold(text).rpartition(":")[2].strip("/") == name for text in call.values)
    if WRITES.search(call.name):
        return False
    text = fold(call.texts[0]).replace("\\", "/")  # as on Windows
    text = re.sub(r">\s*\S+", "", text)  # a shell command may write the file
    folder, file = rf"(?:^|[/\s\"'=])skills/{re.escape(name)}[/\s\"';&]", re.escape(fold("SKILL.md"))
    return re.search(f"{folder}.*{file}", text, re.DOTALL) is not None


def skill_problems(record: Record, skills: Iterable[str], forbidden: Iterable[str]) -> tuple[list[str | None], Record]:
    """Returns a check per skill (whether it was loaded as it should be) and the fields for the outcome.

    If `metadata.shouldTrigger` is false, no skill may be loaded.
    """
    calls, metadata = calls_of(record), record.get("metadata")
    wanted = not isinstance(metadata, dict) or metadata.get(SHOULD_TRIGGER) is not False
    expected = {**dict.fromkeys(skills, wanted), **dict.fromkeys(forbidden, False)}
    loaded = {name: any(loads_skill(call, name) for call in calls) for name in expected}
    words = {True: "was loaded, and should not be", False: "was not loaded"}
    problems = [
        None if loaded[name] == should else f"the skill {name} {words[loaded[name]]}"
        for name, should in expected.items()
    ]
    return problems, {"skills": loaded, SKILL_TRIGGERED: any(loaded.values())}


def _replace_paths(folder: str, places: dict[str, str]) -> None:
    """Replaces absolute paths, such as /tests, in all files below a directory."""
    names = {name.encode(): place.encode() for name, place in places.items()}
    pattern = re.compile(rb"(?<![\w./-])(" + b"|".join(map(re.escape, names)) + rb")(?![\w.-])")
    for parent, _folders, files in os.walk(folder):
        for path in (os.path.join(parent, name) for name in files):
            content = read_regular(path, FILE_LIMIT)
            with os.fdopen(open_regular(path, os.O_WRONLY | os.O_TRUNC), "wb") as file:
                file.write(pattern.sub(lambda found: names[found[1]], content))
