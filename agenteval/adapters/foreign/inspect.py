"""Logs of inspect_ai (.json, or .eval: a zip file with a header and a document for each sample) → results.

There is one result per sample and epoch.
"""

import os
import zipfile
from collections.abc import Iterator
from typing import Any

from agenteval.adapters.imported import ImportedResult, as_object, objects, verdict
from agenteval.adapters.values import as_text, epoch_milliseconds, stop_reason, total
from agenteval.errors import BadRecord, MissingExtra, UserError
from agenteval.streams.files import open_regular
from agenteval.streams.jsonl import decode
from agenteval.streams.source import Refusals, read_objects
from agenteval.streams.text import one_line
from agenteval.wire.records import Record

VALUES = {"C": 1, "P": 0.5, "I": 0, "N": 0}  # correct, partly, incorrect, no answer
OURS = ("pass", "score")  # what `ae-format -f inspect` writes of a verdict
ATTACHED = "attachment://"
USAGE = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cachedTokens": "input_tokens_cache_read",
    "costUsd": "total_cost",
}
HEADERS = ("header.json", "_journal/start.json")  # the second is all that a run which did not end has
SAMPLES = "samples/"
BEGINNING = b"PK\x03\x04"
ENCRYPTED = 1
LARGEST_SAMPLE = 1 << 30


def read_documents(path: str, refusals: Refusals) -> Iterator[Record]:
    """Returns the logs of a file; an archive gives one for each sample, so that one is in memory at a time."""
    return (read_archive if is_archive(path) else read_objects)(path, refusals)


def results_of(document: Record) -> list[Record]:
    """Returns the results of the samples in a log; raises BadRecord if the document is something else."""
    task = document.get("eval")
    if not isinstance(task, dict) or not isinstance(document.get("samples"), list):
        raise BadRecord("not a log of inspect_ai with samples: eval or samples is missing")
    steps = objects(as_object(document.get("plan")).get("steps"))
    solver = as_text(task.get("solver")) or as_text(steps[-1].get("solver") if steps else None) or "inspect_ai"
    return [_Sample(sample, task, solver).result() for sample in objects(document["samples"])]


class _Sample:
    """One sample, read in the order of its messages."""

    def __init__(self, sample: Record, task: Record, solver: str) -> None:
        self.sample, self.task = sample, task
        self.attachments = as_object(sample.get("attachments"))
        epochs, ident = as_object(task.get("config")).get("epochs"), as_text(sample.get("id")) or "sample"
        several = type(epochs) is int and epochs > 1
        self.built = ImportedResult(f"{ident}-epoch-{sample.get('epoch', 1)}" if several else ident, solver)
        self.times, self.tools = self._events()

    def result(self) -> Record:
        """Returns the result; called once."""
        built, sample = self.built, self.sample
        for name in ("started_at", "completed_at"):
            built.at(sample.get(name))
        output = as_object(sample.get("output"))
        choice = next(iter(objects(output.get("choices"))), {})
        limit = as_text(as_object(sample.get("limit")).get("type"))
        built.metadata = {
            **{name: value for name, value in as_object(sample.get("metadata")).items() if name != "agenteval"},
            "model": output.get("model") or self.task.get("model"),
            "task": self.task.get("task"),
            "stopReason": f"max_{limit}" if limit else stop_reason([choice.get("stop_reason")]),
        }
        target = sample.get("target")
        built.hint = "\n".join(map(as_text, target)) if isinstance(target, list) else as_text(target)
        for message in objects(sample.get("messages")):
            self._add(message)
        if not built.turns:
            built.turn(self._text(sample.get("input")))
        built.output = self._text(output.get("completion")) or None
        usages = [as_object(usage) for usage in as_object(sample.get("model_usage")).values()]
        built.usage = {name: total(*(usage.get(theirs) for usage in usages)) for name, theirs in USAGE.items()}
        if failure := sample.get("error"):
            reason = failure.get("message") if isinstance(failure, dict) else failure
            built.errors = [self._text(reason) or "the sample ended with an error"]
        self._add_verdicts()
        return built.result()

    def _events(self) -> tuple[dict[Any, Any], dict[Any, Record]]:
        """Returns when each message of the model came, and the event of each tool call."""
        times, tools = {}, {}
        for event in objects(self.sample.get("events")):
            if event.get("event") == "tool":
                tools[event.get("id")] = event
            elif event.get("event") == "model":
                for choice in objects(as_object(event.get("output")).get("choices")):
                    times[as_object(choice.get("message")).get("id")] = event.get("completed") or event.get("timestamp")
        return times, tools

    def _add(self, message: Record) -> None:
        built, content = self.built, message.get("content")
        built.at(self.times.get(message.get("id")))
        role = message.get("role")
        if role == "user":
            built.turn(self._text(content))
        elif role == "assistant":
            for part in objects(content) if isinstance(content, list) else [{"type": "text", "text": content}]:
                thought = part.get("type") == "reasoning"
                text = self._text(part.get("reasoning") if thought else part.get("text"))
                if text:
                    built.out.text("thought" if thought else "message", text)
            for call in objects(message.get("tool_calls")):
                built.out.call(call.get("id"), call.get("function"), self._attached(call.get("arguments")))
        elif role == "tool":
            self._settle(message)

    def _settle(self, message: Record) -> None:
        ident, error = message.get("tool_call_id"), as_object(message.get("error"))
        event = self.tools.get(ident, {})
        self.built.at(event.get("completed"))
        start, end = epoch_milliseconds(event.get("timestamp")), epoch_milliseconds(event.get("completed"))
        took = None if start is None or end is None else end - start
        output = self._attached(message.get("content")) or self._attached(error.get("message"))
        status = "failed" if error else "completed"
        self.built.out.settle(ident, message.get("function"), None, status, output, took)

    def _add_verdicts(self) -> None:
        """Adds the verdict of each scorer that gives one."""
        found = {}
        for name, score in as_object(self.sample.get("scores")).items():
            score = as_object(score)
            value = score.get("value")
            number = VALUES.get(value) if isinstance(value, str) else value
            passed = as_object(score.get("metadata")).get("pass")
            reasoning = self._text(score.get("explanation"))
            if (one := verdict(number, passed, reasoning)) is not None:
                found[name] = one
        if set(OURS) <= found.keys():
            passed, graded = (found.pop(name) for name in OURS)
            self.built.overall = graded | {"pass": passed["pass"]}
        for name, one in found.items():
            self.built.add_verdict(name, one)

    def _text(self, value: Any) -> str:
        return as_text(self._attached(value))

    def _attached(self, value: Any) -> Any:
        """Returns the value with the long texts that the log keeps apart."""
        if isinstance(value, str) and value.startswith(ATTACHED):
            return self.attachments.get(value.removeprefix(ATTACHED), value)
        if isinstance(value, dict):
            return {key: self._attached(one) for key, one in value.items()}
        return [self._attached(one) for one in value] if isinstance(value, list) else value


# --- archives -------------------------------------------------------------------------------------


def is_archive(path: str) -> bool:
    """Returns whether the file is a zip file; raises UserError if it is only the beginning of one."""
    if path == "-" or not os.path.isfile(path):
        return False
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        if zipfile.is_zipfile(file):
            return True
        file.seek(0)
        if file.read(len(BEGINNING)) == BEGINNING:
            raise UserError(f"{path}: the archive is damaged or incomplete")
    return False


def read_archive(path: str, refusals: Refusals) -> Iterator[Record]:
    """Yields the header with each sample; a sample that cannot be read is refused."""
    with os.fdopen(open_regular(path, follow=True), "rb") as file:
        try:
            archive = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            raise UserError(f"{path}: the archive is damaged or incomplete: {one_line(str(error), 200)}") from None
        names = archive.namelist()
        header = next((name for name in HEADERS if name in names), None)
        if header is None:
            raise UserError(f"{path}: not a log of inspect_ai: header.json is missing")
        try:
            facts = _member(archive, header)
        except MissingExtra:
            raise
        except Exception as error:
            raise UserError(f"{path}: {header}: {one_line(str(error) or type(error).__name__, 200)}") from None
        for name in names:
            if name.startswith(SAMPLES) and name.endswith(".json"):
                try:
                    sample = _member(archive, name)
                except MissingExtra:
                    raise
                except Exception as error:  # zipfile has many: damaged, encrypted, of an unknown method
                    refusals.refuse(f"{path}: {name}", one_line(str(error) or type(error).__name__, 200))
                else:
                    yield {**facts, "samples": [sample]}


def _member(archive: zipfile.ZipFile, name: str) -> Record:
    info = archive.getinfo(name)
    if info.flag_bits & ENCRYPTED:
        raise BadRecord("encrypted")
    if info.file_size > LARGEST_SAMPLE:
        raise BadRecord(f"larger than {LARGEST_SAMPLE >> 20} MiB")
    try:
        with archive.open(info) as member:  # not read(): it unpacks all there is, whatever size the archive claims
            data = member.read(info.file_size)
    except NotImplementedError:
        data = _zstandard(archive, info)
    value: Any = decode(data)
    if not isinstance(value, dict):
        raise BadRecord("not a JSON object")
    return value


def _zstandard(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Returns a member that Zstandard has compressed, which Python's own zipfile reads from 3.14 on only."""
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("needs the zstandard package to read a log of inspect_ai", "inspect") from None
    file = archive.fp
    assert file is not None
    file.seek(info.header_offset + 26)
    lengths = file.read(4)
    file.seek(int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little"), 1)
    try:
        # Not decompress(): it takes the size that the data itself claims, whatever that is.
        reader = zstandard.ZstdDecompressor().stream_reader(file.read(info.compress_size))
        found: bytes = reader.read(info.file_size)
    except zstandard.ZstdError as error:
        raise BadRecord(f"cannot be unpacked: {error}") from None
    return found
