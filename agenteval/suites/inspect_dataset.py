"""Datasets of inspect_ai (JSON, JSON Lines, CSV): samples with input, target, choices, files and setup."""

import os
import shlex
from collections.abc import Iterator
from string import ascii_uppercase
from typing import Any

from agenteval.errors import BadRecord, UserError
from agenteval.streams.jsonl import decode
from agenteval.suites.cases import Case, object_of, turns
from agenteval.suites.documents import Found, read_csv, read_document

KNOWN = {"input", "target", "choices", "id", "metadata", "files", "setup", "sandbox", "description", "checkpoint"}
LETTERS = ascii_uppercase + "1234567890"


def cases(path: str) -> Iterator[Found]:
    """Yields the samples."""
    if path.endswith(".csv"):
        for number, (line, cells) in enumerate(read_csv(path), 1):
            yield Found(f"{path}:{line}", cells if isinstance(cells, BadRecord) else (dict(cells), number, path))
        return
    try:
        document = read_document(path)
    except BadRecord as error:
        raise UserError(f"{path}: {error}") from None
    if not isinstance(document.data, list):
        raise UserError(f"{path}: a dataset is a list of samples, or one sample per line")
    for index, sample in enumerate(document.data):
        where = f"{path}:{document.lines[''][index]}"
        yield Found(where, sample if isinstance(sample, BadRecord) else (sample, index + 1, path))


def fill(case: Case, raw: Any) -> None:
    """Turns a sample into a prompt: the answer must contain the target, or name the choice as `ANSWER: B`."""
    sample, number, path = raw
    sample = {name: value for name, value in object_of(sample, "a sample").items() if value not in (None, "")}
    given = sample.get("input") or None
    if given is None:
        raise BadRecord('"input" is missing')
    if not isinstance(given, str | list):
        raise BadRecord('"input" must be a string or a list of messages')
    asked = given if isinstance(given, str) else turns(case, given)
    case.fields = {"id": str(sample.get("id", number)), "input": asked}
    target = sample.get("target", [])
    targets = [str(one) for one in target] if isinstance(target, list) else [str(target)]
    if choices := _choices(sample.get("choices")):
        _add_choices(case, asked, choices, targets)
    elif any(targets):
        case.check("contains", value=targets if len(targets) > 1 else targets[0], ignoreCase=True)
    else:
        case.lose("no target: not graded")
    if targets and targets[0]:
        case.fields["reference"] = f"ANSWER: {', '.join(targets)}" if choices else targets[0]
    _add_files(case, sample, os.path.dirname(path))
    metadata = sample.get("metadata", {})
    case.metadata = object_of(decode(metadata) if isinstance(metadata, str) else metadata, '"metadata"')
    case.fields |= {name: value for name, value in sample.items() if name not in KNOWN}
    for name in ("sandbox", "checkpoint"):
        if name in sample:
            case.lose(name, sample[name])
    if "description" in sample:
        case.metadata = case.metadata | {"description": sample["description"]}


def _choices(given: object) -> list[str]:
    if isinstance(given, str):
        given = given.split(",") if "," in given else given.split()
    return [str(one).strip() for one in given if str(one).strip()] if isinstance(given, list) else []


def _add_choices(case: Case, asked: str | list[str], choices: list[str], targets: list[str]) -> None:
    """Lists the choices below the question, and checks the last `ANSWER:` line of the answer."""
    letters = LETTERS[: len(choices)]
    right = [target.strip().upper() for target in targets if target.strip()]
    if not right or any(one not in letters or len(one) > 1 for one in right):
        raise BadRecord(f"the target of a sample with choices must be among {', '.join(letters)}, got {targets}")
    listed = "\n".join(f"{letter}) {choice}" for letter, choice in zip(letters, choices, strict=False))
    several = "the letters of all right choices, separated by commas" if len(right) > 1 else "the letter of one choice"
    question = f"{listed}\n\nEnd with a line that says ANSWER: and {several} ({', '.join(letters)})."
    *before, last = [asked] if isinstance(asked, str) else asked
    case.fields["input"] = [*before, f"{last}\n\n{question}"] if before else f"{last}\n\n{question}"
    answer = rf"(?im)ANSWER\s*:[\s*$(]*{_letters(right)}(?:[^\w ,]|$)(?![\s\S]*ANSWER\s*:)"
    case.check("regex", value=answer, name=f"ANSWER: {', '.join(right)}")


def _letters(right: list[str]) -> str:
    """Returns a pattern for all right letters in any order, such as "A, C", "(A) and (C)" or "AC"."""
    if len(right) == 1:
        return f"{right[0]}[ ,*$)]*"
    one = rf"[{''.join(right)}][ ,*$()]*(?:\band\b[ ,*$()]*)?"
    return "".join(f"(?=(?:{one})*{letter})" for letter in right) + f"(?:{one})+"


def _add_files(case: Case, sample: dict[str, Any], folder: str) -> None:
    """Fills the workspace: files are paths or texts, setup is a script or its path."""
    files = sample.get("files", {})
    for name, content in object_of(decode(files) if isinstance(files, str) else files, '"files"').items():
        if os.path.isabs(name) or ".." in name.split("/") or ":" in name:
            raise BadRecord(f"files: {name!r} is not a path within the workspace")
        if not isinstance(content, str):
            raise BadRecord(f"files: the content of {name!r} must be a string")
        there, source = shlex.quote(name), os.path.join(folder, content)
        if os.path.dirname(name):
            case.setup.append(f"mkdir -p {shlex.quote(os.path.dirname(name))}")
        if content and len(content) < 4096 and os.path.exists(source):
            case.setup.append(f"cp -R {case.shell_path(source)} {there}")
        elif content.startswith("data:"):
            case.setup.append(f"printf %s {shlex.quote(content.partition(',')[2])} | base64 -d > {there}")
        else:
            case.setup.append(f"printf %s {shlex.quote(content)} > {there}")
    if script := sample.get("setup"):
        if not isinstance(script, str):
            raise BadRecord('"setup" must be a string')
        source = os.path.join(folder, script)
        is_path = len(script) < 4096 and "\n" not in script and os.path.isfile(source)
        case.setup.append(f"bash {case.shell_path(source)}" if is_path else f"bash -c {shlex.quote(script)}")
