"""Exports the wire format as JSON Schema 2020-12, from the types that validate the input and their docstrings."""

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec

from agenteval.wire import adapter_schema as headless
from agenteval.wire import calibration, records
from agenteval.wire import comparison as reports
from agenteval.wire.balance import Balance
from agenteval.wire.comparison import TrialsComparisonReport
from agenteval.wire.evaluation import Evaluation
from agenteval.wire.history import History
from agenteval.wire.plan import EvaluationPlan

JsonSchema = dict[str, Any]
Kind = type[msgspec.Struct]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

SCHEMAS: dict[str, Kind] = {
    "PromptInput": records.Prompt,
    "RawOutput": records.Raw,
    "CaptureResult": records.Result,
    "TrajectoryStep": records.Step,
    "GraderInput": records.GraderInput,
    "GraderResult": records.GraderAnswer,
    "TrialResult": records.Trial,
    "TrialEntry": records.TrialEntry,
    "SummaryResult": records.Summary,
    "ValidationResult": records.Validation,
    "BalanceAnalysis": Balance,
    "Label": calibration.Label,
    "CalibrationSample": calibration.ListedRecord,
    "CalibrationReport": calibration.CalibrationReport,
    "ComparisonReport": reports.ComparisonReport,
    "TrialsComparisonReport": TrialsComparisonReport,
    "ReliabilityMetrics": reports.Reliability,
    "TrialsReliabilityMetrics": reports.TrialReliability,
    "ComparisonGraderInput": reports.ComparisonGraderInput,
    "ComparisonAnswer": reports.ComparisonAnswer,
    "HeadlessAdapter": headless.HeadlessAdapter,
    "Evaluation": Evaluation,
    "EvaluationPlan": EvaluationPlan,
    "History": History,
}
OTHER_NAMES = {"PromptCase": "PromptInput", "ComparisonGraderResult": "ComparisonAnswer"}  # of agent-eval-harness

# What the tools always write, and read without: files of other harnesses may lack it.
ALWAYS_WRITTEN: dict[Kind, tuple[str, ...]] = {
    records.Raw: ("metadata", "lineTimes", "turns", "cwd", "exitCode", "signal", "timedOut"),
    records.Result: ("input", "trajectory", "metadata", "timing", "toolErrors"),
    records.TrialEntry: ("trajectory", "duration"),
    records.Trial: ("metadata",),
}


def _given(name: str) -> JsonSchema:
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}


def _step(kind: records.StepType, *fields: str) -> JsonSchema:
    return {"properties": {"type": {"const": kind}}, "required": [*fields]}


# What types cannot express; that of adapter schemas is checked when they are compiled.
BEYOND_TYPES: dict[Kind, JsonSchema] = {
    records.Step: {
        "oneOf": [
            _step("thought", "content"),
            _step("message", "content"),
            _step("tool_call", "name", "status"),
            _step("plan", "entries"),
        ]
    },
    headless.Condition: {"oneOf": [_given("value"), _given("not")]},
    headless.Resume: {
        "oneOf": [
            _given("flag"),
            _given("args"),
            {
                "required": ["command"],
                "properties": {
                    "flag": {"type": "null"},
                    "args": {"type": "null"},
                    "command": {"contains": {"pattern": r"\{sessionId\}"}, "type": "array"},
                },
            },
        ]
    },
    headless.PromptInput: {
        "not": {
            "required": ["flag", "stdin"],
            "properties": {"flag": {"type": "string", "minLength": 1}, "stdin": {"const": True}},
        }
    },
}


def schema_of(name: str) -> JsonSchema:
    """Returns the schema of that name, without references to anything outside it."""
    kind = SCHEMAS[name]
    parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")[1]
    described = {part.__name__: _described(part, parts[part.__name__]) for part in structs_in(kind)}
    top = described.pop(kind.__name__)
    head = {"$schema": DIALECT, "$id": f"urn:agenteval:{name}", **top, "title": name}
    return {**head, "$defs": described} if described else head


def summary_of(name: str) -> str:
    """Returns what a schema describes, in one line."""
    return " ".join((SCHEMAS[name].__doc__ or "").split("\n\n")[0].split())


def structs_in(kind: Kind) -> list[Kind]:
    """Returns the type and all types that its fields are made of, each once."""
    found = {kind: None}
    waiting = [kind]
    while waiting:
        for hint in get_type_hints(waiting.pop()).values():
            fresh = [part for part in _structs(hint) if part not in found]
            found.update(dict.fromkeys(fresh))
            waiting += fresh
    return list(found)


def _structs(hint: Any) -> Iterator[Kind]:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for part in get_args(hint):
        yield from _structs(part)


# --- descriptions -------------------------------------------------------------------------------


def _described(kind: Kind, schema: JsonSchema) -> JsonSchema:
    """Returns the schema with a description of the type and of each field."""
    texts = field_texts(kind)
    fields = {field.encode_name: texts[field.name] for field in msgspec.structs.fields(kind) if field.name in texts}
    properties = {
        name: {"description": fields[name], **value} if name in fields else value
        for name, value in schema["properties"].items()
    }
    text = " ".join((kind.__doc__ or "").split())
    required = [*schema.get("required", ()), *ALWAYS_WRITTEN.get(kind, ())]
    found = {**schema, "description": text, "properties": properties, **BEYOND_TYPES.get(kind, {})}
    return {**found, "required": required} if required else found


def field_texts(kind: Kind) -> dict[str, str]:
    """Returns field → the text below it in the source, inherited fields included."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            texts |= _module_texts(base.__module__).get(base.__name__, {})
    return texts


@cache
def _module_texts(module: str) -> dict[str, dict[str, str]]:
    """Returns class → field → text below the field; Python does not keep these strings, so the source is parsed."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: dict(_texts_below(node.body)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _texts_below(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for field, below in zip(body, body[1:], strict=False):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, " ".join(text.split())
