"""skill-creator's evals: evals.json (prompts with expectations), or queries that should trigger the skill or not."""

import os
from collections.abc import Iterator
from typing import Any

from agenteval.errors import BadRecord, UserError
from agenteval.suites.cases import Case, as_id, list_of, object_of, text_of
from agenteval.suites.documents import Found, file_in, read_document, read_front_matter
from agenteval.wire.records import SHOULD_TRIGGER


def cases(path: str) -> Iterator[Found]:
    """Yields the evals of a file, or of a skill's directory."""
    if os.path.isdir(path):
        path = file_in(path, "evals/evals.json", "evals.json") or os.path.join(path, "evals", "evals.json")
    try:
        document = read_document(path)
    except BadRecord as error:
        raise UserError(f"{path}: {error}") from None
    data, field = document.data, ""
    skill = None
    if isinstance(data, dict):
        skill, field = data.get("skill_name"), "evals"
        data = data.get("evals")
    if not isinstance(data, list):
        raise UserError(f"{path}: has no list of evals")
    folder = _skill_folder(path)
    for index, one in enumerate(data):
        yield Found(f"{path}:{document.lines[field][index]}", (one, index + 1, skill, folder))


def _skill_folder(path: str) -> str:
    """Returns the skill's directory: the nearest with a SKILL.md, else the one above evals/."""
    folder = os.path.dirname(os.path.abspath(path))
    above = os.path.dirname(folder)
    return above if file_in(above, "SKILL.md") or os.path.basename(folder) == "evals" else folder


def fill(case: Case, raw: Any) -> None:
    """Turns an eval into a prompt, with one check per expectation, or whether a query should load the skill."""
    one, number, skill, folder = raw
    one = object_of(one, "an eval")
    if "should_trigger" in one:
        _fill_trigger(case, one, number, skill or case.settings.skill or _name_in(folder))
        return
    case.fields = {"id": as_id(str(one.get("id", number))), "input": text_of(one, "prompt")}
    if expected := one.get("expected_output"):
        case.fields["hint"] = str(expected)
    expectations = list_of(one, "expectations") or list_of(one, "assertions")
    for expectation in expectations:
        text = expectation if isinstance(expectation, str) else object_of(expectation, "an expectation").get("text")
        if not isinstance(text, str) or not text.strip():
            raise BadRecord("an expectation must be a string")
        case.check("judge", rubric=text)
    if not expectations and expected:
        case.check("judge", rubric=f"The answer is as described: {expected}")
    for file in list_of(one, "files"):
        there = os.path.join(folder, str(file))
        if not os.path.exists(there):
            raise BadRecord(f"{there}: no such file")
        case.setup.append(f"cp -R {case.shell_path(there)} .")
    case.metadata = {"skill": skill}


def _fill_trigger(case: Case, one: dict[str, Any], number: int, skill: str | None) -> None:
    if skill is None:
        raise BadRecord("the skill that the query is about is unknown: give --skill-name NAME")
    if not isinstance(one["should_trigger"], bool):
        raise BadRecord('"should_trigger" must be true or false')
    case.fields = {"id": as_id(str(one.get("id", f"query-{number}"))), "input": text_of(one, "query")}
    case.check("skill-used" if one["should_trigger"] else "skill-not-used", skill=skill)
    wanted = one["should_trigger"]
    case.metadata = {"skill": skill, "type": "positive" if wanted else "negative", SHOULD_TRIGGER: wanted}


def _name_in(folder: str) -> str | None:
    path = file_in(folder, "SKILL.md")
    return read_front_matter(path)[0].get("name") if path else None
