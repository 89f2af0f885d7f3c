"""Cases of `claude plugin eval`: evals/**/ with prompt.md, case.yaml or both, and graders/*.md."""

import os
import re
import shlex
from collections.abc import Iterator
from typing import Any

from agenteval.errors import BadRecord, UserError
from agenteval.streams.jsonl import read_json
from agenteval.suites.cases import Case, as_id, check_of, object_of, seconds, text_of
from agenteval.suites.documents import Found, file_in, line_of_field, placed, read_document, read_front_matter

TIMEOUT = 300  # seconds, if the case has no limit
NOT_CASES = {"results", "mocks", "graders", "node_modules"}
TOP = {"schema_version", "name", "description", "tags", "plugins", "runs", "expected_outcome"}
EXECUTION = {"model", "max_turns", "timeout_seconds", "allowed_tools", "append_system_prompt", "env"}
CONTEXT = {"scaffold_script", "history_file", "add_dirs"}
SKILL = re.compile(r'"skill".*?([\w-]+)\\?"?\$?$')  # at the end of a pattern for the input of the tool Skill
FLAGS = {"i": None, "m": "m", "s": "s", "g": "", "u": "", "y": ""}  # of JavaScript; i is the check's ignoreCase


def cases(path: str) -> Iterator[Found]:
    """Yields the directories of cases below a plugin, its evals/ or one case."""
    if os.path.isfile(path):
        path = os.path.dirname(path) or "."
    elif not file_in(path, "prompt.md", "case.yaml"):
        path = _evals_of(path)
    number = 0
    for folder, folders, _files in os.walk(path):
        folders[:] = sorted(name for name in folders if name not in NOT_CASES and not name.startswith("."))
        if where := file_in(folder, "prompt.md", "case.yaml"):
            folders.clear()
            number += 1
            yield Found(where, folder)
    if not number:
        raise UserError(f"{path}: no cases found: no directory in it has a prompt.md or case.yaml")


def _evals_of(plugin: str) -> str:
    manifest = file_in(plugin, ".claude-plugin/plugin.json", "plugin.json")
    given: Any = read_json(manifest) if manifest else {}
    for name in ("experimental", "evals"):
        given = given.get(name) if isinstance(given, dict) else None
    evals = os.path.join(plugin, given if isinstance(given, str) and "\0" not in given else "evals")
    return evals if os.path.isdir(evals) else plugin


def fill(case: Case, raw: Any) -> None:
    """Turns a case into a prompt; prompt.md overrides case.yaml."""
    folder: str = raw
    fields, text = _fields_of(folder)
    case.fields = {"id": as_id(str(fields.get("name") or os.path.basename(os.path.abspath(folder)))), "input": text}
    case.fields["timeout"] = seconds(fields.get("timeout_seconds", TIMEOUT), "timeout_seconds")
    case.metadata = {name: fields.get(name) for name in ("description", "tags", "runs")}
    case.metadata["expectedOutcome"] = fields.get("expected_outcome")
    for name in ("model", "max_turns", "allowed_tools", "append_system_prompt", "env", "plugins"):
        if fields.get(name):
            case.lose(name, fields[name])
    for name in ("history_file", "add_dirs"):
        if fields.get(name):
            case.lose(f"context.{name}", fields[name])
    if script := fields.get("scaffold_script"):
        if not os.path.isfile(os.path.join(folder, script)):
            raise BadRecord(f"context.scaffold_script: {script}: no such file")
        case.setup.append(f"bash {case.shell_path(os.path.join(folder, script))}")
    if os.path.isdir(os.path.join(folder, "mocks")) or os.path.isdir(os.path.join(os.path.dirname(folder), "mocks")):
        case.lose("mocks")
    graders = list(_graders_of(folder, fields))
    if not graders:
        raise BadRecord("has no grader")
    for name, grader in graders:
        try:
            kind = text_of(grader, "type")
            found = _KINDS[kind](grader) if kind in _KINDS else kind
        except BadRecord as error:
            raise BadRecord(f"grader {name}: {error}") from None
        if isinstance(found, str):
            case.lose(found, name)
        else:
            weight = grader.get("weight", 1)
            case.checks.append(found | {"name": name} | ({} if weight == 1 else {"weight": weight}))


def _fields_of(folder: str) -> tuple[dict[str, Any], str]:
    """Returns the merged fields of both files, and the prompt."""
    fields: dict[str, Any] = {}
    text = ""
    if path := file_in(folder, "case.yaml"):
        try:
            given = object_of(read_document(path).data, "case.yaml")
        except BadRecord as error:
            raise placed(error, path) from None
        execution, context = (object_of(given.get(name) or {}, f'"{name}"') for name in ("execution", "context"))
        known = {*TOP, "execution", "context", "graders"}, EXECUTION | {"prompt"}, CONTEXT
        for group, allowed in zip((given, execution, context), known, strict=True):
            if unknown := group.keys() - allowed:
                raise _unknown(path, sorted(unknown)[0])
        fields = {**given, **execution, **context}
        text = str(execution.get("prompt") or "")
    if path := file_in(folder, "prompt.md"):
        given, text = read_front_matter(path)
        if unknown := given.keys() - TOP - EXECUTION:
            raise _unknown(path, sorted(unknown)[0])
        fields |= given
    if not text.strip():
        raise BadRecord("the prompt is empty")
    return fields, text.strip()


def _unknown(path: str, field: str) -> BadRecord:
    return BadRecord(f"{path}:{line_of_field(path, field)}: unknown field {field!r}")


def _graders_of(folder: str, fields: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for grader in fields.get("graders") or []:
        grader = object_of(grader, "a grader")
        yield str(grader.get("name") or grader.get("type")), grader
    place = os.path.join(folder, "graders")
    for name in sorted(os.listdir(place)) if os.path.isdir(place) else []:
        if name.endswith(".md"):
            grader, body = read_front_matter(os.path.join(place, name))
            yield name.removesuffix(".md"), {"body": body.strip(), **grader}


def _regex(grader: dict[str, Any]) -> dict[str, Any] | str:
    pattern = grader.get("pattern") or grader.get("body")
    if not isinstance(pattern, str) or not pattern:
        raise BadRecord('"pattern" is missing')
    flags, match, target = str(grader.get("flags") or ""), grader.get("match", "contains"), grader.get("target")
    if unknown := [flag for flag in flags if flag not in FLAGS]:
        raise BadRecord(f"unknown flag {unknown[0]!r}")
    inline = "".join(FLAGS[flag] or "" for flag in flags)
    value = f"(?{inline}){pattern}" if inline else pattern
    if match not in ("contains", "not_contains"):
        return f"regex match {match}"
    if target in (None, "last_message"):
        return check_of("regex" if match == "contains" else "not-regex", value=value, ignoreCase="i" in flags)
    if isinstance(target, dict) and target.get("source") == "file" and match == "contains":
        return check_of("file-contains", path=text_of(target, "path"), regex=value, ignoreCase="i" in flags)
    return f"regex {match} target {target.get('source') if isinstance(target, dict) else target}"


def _tool_used(grader: dict[str, Any]) -> dict[str, Any]:
    tool, pattern = text_of(grader, "tool"), grader.get("input_match")
    least, most = grader.get("min", 1), grader.get("max")
    none = most == 0
    if tool == "Skill" and pattern and (named := SKILL.search(str(pattern))) and (none or (least, most) == (1, None)):
        return check_of("skill-not-used" if none else "skill-used", skill=named[1])
    never = check_of("tool-not-called", tool=tool, input=pattern)
    if none:
        return never
    called = check_of("tool-called", tool=tool, input=pattern, min=None if least in (0, 1) else least, max=most)
    return check_of("group", checks=[called, never], threshold=0.5) if least == 0 else called


def _tool_order(grader: dict[str, Any]) -> dict[str, Any] | str:
    tools = [one.get("tool") if isinstance(one, dict) else one for one in (grader.get("before"), grader.get("after"))]
    if not all(isinstance(tool, str) and tool for tool in tools):
        raise BadRecord('"before" and "after" must name tools')
    if any(isinstance(grader[name], dict) and grader[name].get("input_match") for name in ("before", "after")):
        return "tool_order input_match"
    return check_of("tool-order", tools=tools)


def _file_exists(grader: dict[str, Any]) -> dict[str, Any]:
    path, there = text_of(grader, "path"), grader.get("exists", True)
    if there and not re.search(r"[*?\[{]", path):
        return check_of("file-exists", path=path)
    patterns = {path, path.replace("**/", "")}  # find's * matches / too, but **/ also matches no directory
    tests = " -o ".join(f"-path {shlex.quote(f'./{one}')}" for one in sorted(patterns))
    return check_of("command", run=f"{'' if there else '! '}find . {tests} | grep -q .")


def _llm(grader: dict[str, Any]) -> dict[str, Any] | str:
    rubric, focus = grader.get("criteria") or grader.get("body"), grader.get("focus")
    if not isinstance(rubric, str) or not rubric:
        raise BadRecord("has no criteria")
    if focus not in (None, "last_message", "trace"):
        return f"llm focus {focus.get('source') if isinstance(focus, dict) else focus}"
    return check_of("judge", rubric=rubric)


_KINDS = {  # each returns a check, or what no check can express
    "regex": _regex,
    "tool_used": _tool_used,
    "tool_order": _tool_order,
    "file_exists": _file_exists,
    "llm": _llm,
}
