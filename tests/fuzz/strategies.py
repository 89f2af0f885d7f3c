"""What is generated: bytes, JSON, records that are nearly valid, adapter schemas and messages of the protocol."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

from tests.support.mutants import ODD, paths
from tests.support.tool import Record
from tests.test_odd_values import EVENTS, PROMPT, RAW, RESULT, TRIAL

RAW_EVENTS: Record = {**RAW, "rawLines": [json.dumps(event) for event in EVENTS], "lineTimes": [1, 2, 3, 4]}
FAILED: Record = {**RESULT, "errors": ["exited with code 1"], "graderError": "n: no JSON"}
SAMPLES: dict[str, list[Record]] = {
    "prompt": [PROMPT, {**PROMPT, "reference": "x"}, {"id": "b", "input": "x"}],
    "raw": [RAW, RAW_EVENTS, {"id": "b", "input": "x", "rawLines": [], "timing": {"start": 1, "end": 2}}],
    "result": [RESULT, FAILED, {"id": "b", "output": "x"}],
    "trial": [TRIAL, {"id": "b", "input": "x", "k": 1, "trials": [{"trialNum": 1, "output": "x"}]}],
}
CHECKS: list[Record] = [
    {"type": "contains", "value": "x", "ignoreCase": True, "name": "n", "weight": 2, "required": False},
    {"type": "not-contains", "value": ["x", "y"]},
    {"type": "equals", "value": "x"},
    {"type": "starts-with", "value": "x"},
    {"type": "regex", "value": "(x+)+y"},
    {"type": "not-regex", "value": "x"},
    {"type": "json-schema", "schema": {"type": "object", "properties": {"a": {"$ref": "#"}}}},
    {"type": "tool-called", "tool": "n", "input": "x", "min": 1, "max": 2},
    {"type": "tool-not-called", "tool": "n*", "input": "x"},
    {"type": "tool-order", "tools": ["a", "n"]},
    {"type": "skill-used", "skill": "s"},
    {"type": "skill-not-used", "skill": "s"},
    {"type": "file-exists", "path": "a/*.txt"},
    {"type": "file-contains", "path": "stdin", "regex": "x"},
    {"type": "max-duration", "value": "5m"},
    {"type": "max-tokens", "value": 100},
    {"type": "max-cost", "value": 0.5},
]
CHECKS.append({"type": "group", "checks": CHECKS[:3], "threshold": 0.5})
SAMPLES["checked"] = [{**RESULT, "cwd": ".", "checks": CHECKS}, *({**RESULT, "checks": [one]} for one in CHECKS)]
SAMPLES["any"] = [record for name, kind in SAMPLES.items() if name != "checked" for record in kind]

text = st.text(max_size=20)
numbers = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([2**63, -(10**30)])
)
scalars = st.one_of(st.none(), st.booleans(), numbers, text, st.sampled_from(ODD[:-1]))
# Names that mean something somewhere, so that more than the first check of a record is reached.
NAMES = sorted({str(step) for record in SAMPLES["any"] for path in paths(record) for step in path})
keys = st.one_of(st.sampled_from(NAMES), text)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=5)),
    max_leaves=12,
)
records = st.dictionaries(keys, json_values, max_size=8)


@st.composite
def mutated(draw: st.DrawFn, samples: st.SearchStrategy[Any]) -> Any:
    """Returns a valid value with one to three changes: a value replaced, removed, doubled, wrapped or moved."""
    value = copy.deepcopy(draw(samples))
    for _ in range(draw(st.integers(1, 3))):
        places = list(paths(value))
        if not places:
            return draw(json_values)
        path = draw(st.sampled_from(places))
        parent = value
        for step in path[:-1]:
            parent = parent[step]
        _change(draw, parent, path[-1])
    return value


def _change(draw: st.DrawFn, parent: Any, key: Any) -> None:
    kind = draw(st.sampled_from(["replace", "replace", "replace", "remove", "wrap", "rename", "copy"]))
    if kind == "replace":
        parent[key] = copy.deepcopy(draw(json_values))  # ODD has lists, which a later change would change for all
    elif kind == "remove":
        del parent[key]
    elif kind == "wrap":
        parent[key] = draw(st.sampled_from([[parent[key]], {"": parent[key]}, [parent[key], parent[key]]]))
    elif isinstance(parent, list):
        parent.append(copy.deepcopy(parent[key]))
    elif kind == "rename":
        parent[draw(keys)] = parent.pop(key)
    else:
        parent[draw(keys)] = copy.deepcopy(parent[key])


def as_line(value: Any) -> bytes:
    """Returns the value as JSON, ASCII or not; lone surrogates as escapes."""
    return json.dumps(value).encode()


@st.composite
def broken_lines(draw: st.DrawFn, samples: st.SearchStrategy[Any]) -> bytes:
    """Returns a valid line that was cut off, or in which bytes were replaced."""
    line = bytearray(as_line(draw(samples)))
    start = draw(st.integers(0, len(line)))
    end = draw(st.integers(start, min(len(line), start + 4)))
    line[start:end] = draw(st.binary(max_size=6))
    return bytes(line).replace(b"\n", b" ")


def lines_of(kind: str) -> st.SearchStrategy[bytes]:
    """Returns lines for a tool that reads such records: arbitrary bytes, arbitrary JSON, nearly valid and valid."""
    samples = st.sampled_from(SAMPLES[kind])
    return st.one_of(
        mutated(samples).map(as_line),
        mutated(samples).map(as_line),
        samples.map(as_line),
        records.map(as_line),
        json_values.map(as_line),
        broken_lines(samples),
        mutated(st.sampled_from(SAMPLES["any"])).map(as_line),
        st.binary(max_size=40),
    )


def inputs_of(kind: str) -> st.SearchStrategy[bytes]:
    """Returns whole inputs: lines, with any ends of lines and perhaps a byte order mark."""
    ends = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"\r"])
    lines = st.lists(lines_of(kind), max_size=8)
    marks = st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf", b"\xff\xfe"])
    return st.builds(lambda mark, end, lines: mark + end.join(lines), marks, ends, lines)
