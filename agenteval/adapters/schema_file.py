"""Schema file → adapter, or an error that names the wrong field.

`load_adapter` finds a schema, a file or one that comes with the suite; `parse_headless` checks it: its JSON, its types,
misspelt names, and what would make no sense. SchemaFit notices a schema that takes nothing from what the agents print.
"""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from itertools import chain
from threading import Lock
from typing import Any

import msgspec

from agenteval.adapters.reader import Adapter
from agenteval.errors import UserError, nearest, similar_files
from agenteval.streams.files import read_given
from agenteval.wire.adapter_schema import CHOICES, SESSION_ID, SUITE_METADATA, HeadlessAdapter
from agenteval.wire.records import Record
from agenteval.wire.validation import convert, explain, value_at

PREFIX = "bundled:"  # names a schema of the suite, whatever files there are
BUNDLED = os.path.join(os.path.dirname(__file__), "schemas")
LOGS = os.path.join(os.path.dirname(__file__), "sessions")

COMMENTS = ("//", "/*", "#")
# Fields that authors add for themselves: $schema, _why, x-owner, note, commandNotes, "// old".
_OWN = r"(?i)^(?:[^a-z]|x-)|(?:note|comment|reason|todo|doc)s?$"
_CLOSE = 0.8  # difflib's ratio: one letter too many or too few in a name of four, one wrong in a name of five
_LIKE_SESSION_ID = r"(?i)(?<!\$)\{+\s*(?:\w*session\w*|\w*id)\s*\}+"  # ${id} is the shell's
_LIKE_HISTORY = r"\{\{\s*\w+\s*\}\}"


def bundled_adapters() -> list[str]:
    """Returns the names of the schemas that come with the suite."""
    return sorted(name.removesuffix(".json") for name in os.listdir(BUNDLED) if name.endswith(".json"))


def bundled_path(name: str) -> str:
    """Returns the file of a schema that comes with the suite."""
    return os.path.join(BUNDLED, name + ".json")


def load_adapter(ref: str) -> Adapter:
    """Loads the schema in a file, or the one that comes with the suite under this name; see Adapter.

    A file of that name in the current directory wins, unless the name has the prefix.
    """
    path = source = ref
    if ref.startswith(PREFIX) and ref.removeprefix(PREFIX) in bundled_adapters():
        path = bundled_path(ref.removeprefix(PREFIX))
    elif not ("/" in ref or ref.endswith(".json") or os.path.isfile(ref)):
        if os.path.isdir(ref) and ref not in bundled_adapters():
            raise UserError(f"{ref}: is a directory; name a schema file in it")
        if ref not in bundled_adapters():
            hint = nearest(ref, bundled_adapters())
            raise UserError(f'no adapter schema is named "{ref}", and there is no such file; {hint}')
        path = bundled_path(ref)
    elif ref in bundled_adapters():
        source = f"./{ref} (a file here; for the bundled schema use -s {PREFIX}{ref})"
    try:
        data = read_given(path)
    except IsADirectoryError:
        raise UserError(f"{source}: is a directory; name a schema file in it") from None
    except OSError as error:
        close = [name for name in bundled_adapters() if f"{name}.json" == ref] or similar_files(ref)
        meant = f"; did you mean {', '.join(close)}?" if isinstance(error, FileNotFoundError) and close else ""
        raise UserError(f"{source}: {error.strerror}{meant}") from None
    if data.startswith(b"#!"):
        command = os.path.join(os.curdir, ref) if "/" not in ref else ref
        line = shlex.quote(f"{shlex.quote(command)} {{}}")
        raise UserError(f"{source}: is a script, not an adapter schema; to run it as the agent: --simple {line}")
    if ref.endswith((".jsonl", ".ndjson")):
        raise UserError(f"{source}: is a file of records, not an adapter schema; ae-adapters lists those of the suite")
    return parse_adapter(data, source)


def parse_adapter(data: bytes, source: str) -> Adapter:
    """Compiles the schema in this JSON; UserError names `source` and the field that is wrong."""
    return Adapter(parse_headless(data, source), source)


def parse_headless(data: bytes, source: str) -> HeadlessAdapter:
    """Parses and checks a schema; UserError names `source` and the field that is wrong."""
    raw = _decode(data.removeprefix(b"\xef\xbb\xbf"), source)
    try:
        config = convert(raw, HeadlessAdapter)
    except msgspec.ValidationError as error:
        raise UserError(f"{source}: {_explain(str(error), raw)}") from None
    # What is well formed but makes no sense, or would silently lose something.
    meaning = (_argument_problems, _resume_problems, _split_problems, _history_problems, _reading_problems)
    for problem in chain(_misspelt(raw, config), *(problems(config) for problems in meaning)):
        raise UserError(f"{source}: {problem}")
    return config


# --- JSON ---------------------------------------------------------------------------------------


def _decode(data: bytes, source: str) -> Any:
    if not data.strip():
        raise UserError(f"{source}: is empty")
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise UserError(f"{source}: cannot be read as JSON: nested too deeply") from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UserError(f"{source}{_where_and_why(data, str(error))}") from None


def _where_and_why(data: bytes, why: str) -> str:
    """Returns `:5:3: not JSON: …` for what msgspec refuses, without the position if it is unknown."""
    try:
        text = data.decode()
        json.loads(text)  # its errors have the position; that of msgspec's is sometimes a byte off
    except UnicodeDecodeError as bad:
        before = data[: bad.start].decode()
        return f"{_place(before)}: not UTF-8: byte 0x{data[bad.start]:02x}"
    except json.JSONDecodeError as bad:
        hint = " (JSON has no comments)" if text.startswith(COMMENTS, bad.pos) else ""
        return f"{_place(text[: bad.pos])}: not JSON: {_syntax(bad.msg, why, bad.pos >= len(text.rstrip()))}{hint}"
    except ValueError:
        return ": cannot be read as JSON: a number is too long"
    if "truncated" in why:
        return ": cannot be read as JSON: contains half of a surrogate pair (\\ud800 to \\udfff)"
    found = re.search(r" \(byte (\d+)\)", why)  # NaN, which json accepts
    place = _place(data[: int(found[1])].decode(errors="replace")) if found else ""
    reason = re.sub(r"^JSON is malformed: | \(byte.*| - at .*", "", why)
    return f"{place}: not JSON: {reason}"


def _place(before: str) -> str:
    lines = before.split("\n")
    return f":{len(lines)}:{len(lines[-1]) + 1}"


def _syntax(message: str, why: str, at_end: bool) -> str:
    """Returns json's message, or a clearer one where no version of json has a clear one."""
    if "trailing comma" in why:
        return "a comma with nothing after it"
    if at_end:
        return "the file ends too early"
    return message[0].lower() + re.sub("( starting)? at$", "", message[1:])


# --- types --------------------------------------------------------------------------------------


def _explain(message: str, raw: Any) -> str:
    """Returns what msgspec found wrong, with the possible values, the key of a map, or the field that was meant."""
    what, _, path = message.partition(" - at `$")
    field = path.strip("`.")
    if found := re.match(r"Object missing required field `([^`]+)`", what):
        holder = value_at(raw, field)
        if (meant := next((key for key in holder if _meant(key, [found[1]])), None)) is not None:
            return _no_such_field(field, meant, found[1])
    name = re.sub(r"\[.*?\]$", "", field).rpartition(".")[2]
    if what.startswith("Invalid enum value") and name in CHOICES:
        choices = ", ".join(map(str, CHOICES[name]))
        got = what.removeprefix("Invalid enum value ").replace("'", '"')
        problem = f"{field} must be {'one of ' if ',' in choices else ''}{choices}; got {got}"
    else:
        problem = explain(message).replace("a record", "an adapter schema").replace('"', "")
    if "[...]" in field:
        problem = problem.replace("[...]", "." + _wrong_key(raw, field, message).replace("\n", "\\n"), 1)
    return problem


def _wrong_key(raw: Any, field: str, message: str) -> str:
    """Returns the key of a map that has the wrong value: msgspec does not name it, so each is tried alone."""
    entries = value_at(raw, field.partition("[...]")[0])
    for key, value in list(entries.items()):
        entries.clear()
        entries[key] = value
        try:
            convert(raw, HeadlessAdapter)
        except msgspec.ValidationError as error:
            if str(error) == message:
                return str(key)
    return "*"  # pragma: no cover - one of them was wrong


# --- names --------------------------------------------------------------------------------------


def _misspelt(raw: Any, read: Any, field: str = "") -> Iterator[str]:
    """Yields unknown fields with a name close to a known one; other unknown fields are allowed."""
    if isinstance(read, list):
        for n, (given, item) in enumerate(zip(raw, read, strict=True)):
            yield from _misspelt(given, item, f"{field}[{n}]")
    if not isinstance(read, msgspec.Struct):
        return
    known = dict(zip(read.__struct_encode_fields__, read.__struct_fields__, strict=True))
    for name, value in raw.items():
        if name in known:
            inner = getattr(read, known[name])
            yield from _misspelt(value, inner, f"{field}.{name}" if field else name)
        elif meant := _meant(name, known):
            yield _no_such_field(field, name, meant)


def _no_such_field(holder: str, name: str, meant: str) -> str:
    return f"{holder}{'.' if holder else ''}{name}: no such field; did you mean {meant}?"


def _meant(name: str, known: Iterable[str]) -> str | None:
    """Returns the known field that a name is probably meant for; None if it looks like a field of the author's own."""
    if re.search(_OWN, name):
        return None
    for one in known:
        # cwd for cwdFlag and contentPath for content are not typing errors, but close all the same
        if name == f"{one}Path" or (one.startswith(name) and one[len(name) : len(name) + 1].isupper()):
            return one
    typed, plain = _plain(name), {_plain(one): one for one in known}
    close = [one for one in plain if sorted(one) == sorted(typed)]  # falg
    close += get_close_matches(typed, plain, n=1, cutoff=_CLOSE)
    return plain[close[0]] if close else None


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


# --- meaning --------------------------------------------------------------------------------------


def _argument_problems(config: HeadlessAdapter) -> Iterator[str]:
    """Yields what cannot become arguments or the environment of a process."""
    if config.prompt.flag and config.prompt.stdin:
        yield "prompt may have flag or stdin, not both"
    for field, texts in _arguments(config):
        if "\0" in "".join(texts):
            yield f"{field} contains a NUL character, which arguments cannot contain"
        if field in ("resume.args", "resume.command"):
            wrong = [one for text in texts for one in re.findall(_LIKE_SESSION_ID, text) if one != SESSION_ID]
            if wrong:
                yield f"{field}: {wrong[0]} is not a placeholder; {SESSION_ID} is"
        elif SESSION_ID in "".join(texts):
            yield f"{field}: {SESSION_ID} may be used only in resume.args and resume.command"
    for name, value in (config.env or {}).items():
        if not name or "=" in name or "\0" in name + value:
            yield f"env.{name} cannot be an environment variable"


def _arguments(config: HeadlessAdapter) -> Iterator[tuple[str, list[str]]]:
    """Yields each field that holds arguments, with them."""
    yield "command", config.command
    yield "autoApprove", config.auto_approve or []
    yield "prompt.flag", [config.prompt.flag or ""]
    yield "cwdFlag", [config.cwd_flag or ""]
    if output := config.output:
        yield "output.flag", [output.flag]
        yield "output.value", [output.value]
        yield "output.fileFlag", [output.file_flag or ""]
    if resume := config.resume:
        yield "resume.flag", [resume.flag or ""]
        yield "resume.args", resume.args or []
        yield "resume.command", resume.command or []


def _resume_problems(config: HeadlessAdapter) -> Iterator[str]:
    """Yields what keeps the session id from getting into the command line exactly once."""
    if (resume := config.resume) is None:
        return
    if resume.flag is not None and resume.args is not None:
        yield "resume must have exactly one of flag and args, has both"
    if resume.flag is None and resume.args is None and SESSION_ID not in "".join(resume.command or []):
        yield f"resume must have one of flag and args, or {SESSION_ID} in command"


def _split_problems(config: HeadlessAdapter) -> Iterator[str]:
    """Yields names that would overwrite others."""
    filled: dict[tuple[str, str], int] = {}
    for n, split in enumerate(config.splits or []):
        if "text" in split.patterns:
            yield f'splits[{n}].patterns.text: "text" is the type of what lies between the patterns; use another name'
        for name, pattern in split.patterns.items():
            if "(?P<type>" in pattern:
                yield f'splits[{n}].patterns.{name}: "type" is the name of the pattern; use another name for the group'
        for group in sorted({*(split.numbers or ())} & {*(split.json_groups or ())}):
            yield f'splits[{n}].json: the group "{group}" is in numbers too'
        first = filled.setdefault((split.path, split.into), n)
        if first != n:
            yield (
                f"splits[{n}].into: {split.into} already holds what splits[{first}] makes of {split.path}; "
                f"use another name"
            )


def _history_problems(config: HeadlessAdapter) -> Iterator[str]:
    """Yields what keeps earlier turns from getting into the prompt."""
    template = config.history_template
    if template is None:
        return
    field, text = "historyTemplate", template
    if not isinstance(text, str):
        field, text = "historyTemplate.turnFormat", text.turn_format
    if "{{input}}" not in text:
        yield f"{field} must contain {{{{input}}}}, where the prompt of an earlier turn goes"
    for found in re.findall(_LIKE_HISTORY, text):
        if found not in ("{{input}}", "{{output}}"):
            yield f"{field}: {found} is not a placeholder; use {{{{input}}}} and {{{{output}}}}"


def _reading_problems(config: HeadlessAdapter) -> Iterator[str]:
    """Yields what would never be read, or be overwritten."""
    for name in sorted(SUITE_METADATA & {*(config.metadata or ())}):
        yield f"metadata.{name}: the suite itself writes metadata.{name}; use another name"
    for name, pattern in (config.line_patterns or {}).items():
        if "(?P<type>" in pattern:
            yield f'linePatterns.{name}: "type" is the name of the pattern; use another name for the group'
    logs = sorted(name.removesuffix(".json") for name in os.listdir(LOGS) if name.endswith(".json"))
    if config.session_log is not None and config.session_log not in logs:
        yield f'sessionLog: there is no log format "{config.session_log}"; choose from {", ".join(logs)}'
    if config.output_mode != "text":
        return
    if config.line_patterns:
        yield "linePatterns has no effect in outputMode text: use splits"
    if config.output_events:
        return
    result = config.result is not None and config.result.match_path
    parts = {"result": result, "usage": config.usage, "metadata": config.metadata, "splits": config.splits}
    for field, given in parts.items():
        if given:
            yield f"{field} has no effect in outputMode text without outputEvents"


# --- whether a schema fits ------------------------------------------------------------------------

FIRST = 3  # records from which nothing is taken before it is reported
SAMPLE = 200  # lines of each that other schemas are tried on
LONGEST = 1 << 16  # characters of such a line
NAMED = 3  # schemas that are named


class SchemaFit:
    """Looks at the first records that have lines; `say` gets one warning if the schema took nothing from any."""

    def __init__(self, schema: str, say: Callable[[str], None]) -> None:
        self.schema, self.say = schema, say
        self.decided = False
        self._samples: list[list[str]] = []
        self._failed = 0  # of them, agents that failed: there may have been nothing to take
        self._lock = Lock()

    def add(self, raw: Record, result: Record) -> None:
        """Takes note of what was read in a record; warns after the third from which nothing was."""
        if self.decided:
            return
        lines = [line for line in raw["rawLines"][:SAMPLE] if line.strip() and len(line) < LONGEST]
        recorded = len(raw.get("errors") or ()) + bool(raw.get("error"))
        found = result["trajectory"] or result["output"] or len(result.get("errors") or ()) > recorded
        with self._lock:
            if found:
                self.decided = True
            elif lines and not self.decided:
                self._samples.append(lines)
                self._failed += recorded > 0
                if len(self._samples) == FIRST:
                    self._warn()

    def finish(self) -> None:
        """Warns at the end of a run of fewer records."""
        with self._lock:
            if self._samples and not self.decided:
                self._warn()

    def _warn(self) -> None:
        self.decided = True
        count = len(self._samples)
        others = matching_schemas(self._samples)
        if self._failed == count and not others:
            return  # why the agents failed is reported elsewhere
        where = "the record" if count == 1 else f"the first {count} records"
        advice = f"; bundled schemas that match them: {', '.join(others)}" if others else ""
        explain = "ae-extract --explain shows why"
        self.say(f"the schema {self.schema} matches nothing in the lines of {where}{advice} ({explain})")


def matching_schemas(samples: list[list[str]]) -> list[str]:
    """Returns the bundled schemas that take something from all of these records, the ones that take most first.

    A schema that takes any text for the answer is named only if no line is JSON.
    """
    taken: dict[str, int] = {}
    for name in bundled_adapters():
        adapter = load_adapter(name)
        if adapter.reads_text:
            continue
        readings = [adapter.read(lines) for lines in samples]
        if all(reading.trajectory or reading.output or reading.errors for reading in readings):
            taken[name] = sum(len(reading.trajectory) + bool(reading.output) for reading in readings)
    if not taken and not any(line.lstrip().startswith("{") for lines in samples for line in lines):
        return ["text"]
    return sorted(taken, key=lambda name: -taken[name])[:NAMED]
