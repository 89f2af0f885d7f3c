"""ae-schemas: every schema is whole, says what our readers say, and everything the suite writes is valid."""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from agenteval.adapters.schema_file import parse_adapter
from agenteval.errors import BadRecord, UserError
from agenteval.wire.json_schema import ALWAYS_WRITTEN, SCHEMAS, schema_of, structs_in
from agenteval.wire.records import GRADER_FIELDS, Step
from agenteval.wire.validation import check
from tests.support.schema_building import BASE
from tests.support.tool import ROOT, Done, Record, run, script, write
from tests.support.watching import in_time
from tests.support.wrong_schemas import BAD_PATHS, WRONG

GOLDEN = Path(__file__).parent.parent / "golden"
ADAPTERS = sorted(ROOT.glob("agenteval/adapters/schemas/*.json"))

every_schema = pytest.mark.parametrize("name", SCHEMAS)


@cache
def validator(name: str) -> Any:
    return Draft202012Validator(schema_of(name))


def problems(record: object, name: str) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(record)]


# --- the schemas themselves ---------------------------------------------------------------------


def parts_of(schema: Record) -> Iterator[tuple[str, Record]]:
    """The schema and its $defs, by name."""
    yield schema["title"], schema
    yield from schema.get("$defs", {}).items()


def nodes(schema: object) -> Iterator[Record]:
    if isinstance(schema, dict):
        yield schema
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from nodes(inner)


@every_schema
def test_is_a_schema_that_stands_alone(name: str) -> None:
    schema = schema_of(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:agenteval:{name}"
    assert schema["title"] == name
    references = {node["$ref"] for node in nodes(schema) if "$ref" in node}
    assert references == {f"#/$defs/{part}" for part in schema.get("$defs", {})}


@every_schema
def test_type_and_every_field_are_described(name: str) -> None:
    for part, schema in parts_of(schema_of(name)):
        assert schema["description"].endswith("."), part
        for field, value in schema["properties"].items():
            assert value.get("description", "").endswith("."), f"{part}.{field}: put a text below it"


@every_schema
def test_speaks_of_the_wire_not_of_python(name: str) -> None:
    for part, schema in parts_of(schema_of(name)):
        for field in schema["properties"]:
            case = (
                r"[a-z]+(_[a-z]+)*" if name == "Evaluation" else r"[a-z][a-zA-Z0-9]*|\d\.\d-\d\.\d"
            )  # as in its reference
            assert re.fullmatch(case, field), f"{part}.{field}"
    words = json.dumps(schema_of(name))
    assert not re.search(r"\bNone\b|msgspec|Struct\b|\bdict\b", words)


@every_schema
def test_unknown_fields_are_allowed(name: str) -> None:
    assert not any(node.get("additionalProperties") is False for node in nodes(schema_of(name)))


def test_grader_input_is_what_graders_are_given() -> None:
    assert set(schema_of("GraderInput")["properties"]) == set(GRADER_FIELDS)


# --- reader and schema agree --------------------------------------------------------------------

ODD: list[Any] = [None, True, -1, 7, 0.5, "", "x", [], ["x"], [1], {"x": 1}]
GONE = object()


class Part(dict[str, Any]):
    """A value of another type, which has a test of its own."""


def sample(hint: Any, whole: bool = True) -> Any:
    """A value of that type with every field there is, and of the types in it with those that they must have."""
    origin, inner = get_origin(hint), get_args(hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = get_type_hints(hint, include_extras=True)
        written = (*ALWAYS_WRITTEN.get(hint, ()), *(OF_STEP["thought"] if hint is Step else ()))
        fields = [one for one in msgspec.structs.fields(hint) if whole or one.required or one.encode_name in written]
        made = {field.encode_name: sample(hints[field.name], whole=False) for field in fields}
        return made if whole else Part(made)
    if origin is Annotated:
        return sample(inner[0], whole)
    if origin is Literal:
        return inner[0]
    if origin in (list, Sequence):
        return [sample(inner[0], whole)]
    if origin is tuple:
        return [sample(one, whole) for one in inner]
    if origin is dict:
        return {"k": sample(inner[1], whole)}
    if inner:
        return sample(next(one for one in inner if one is not NoneType), whole)
    return {str: "x", int: 1, float: 1, bool: True, Any: {"any": 1}}[hint]


def variants(record: Any, depth: int = 2) -> Iterator[Any]:
    """The record with each value in it, but for those in another type, gone or replaced by odd ones."""
    for place in places(record, depth):
        for value in (*ODD, GONE):
            yield changed(record, place, value)
    yield from ODD


def places(value: Any, depth: int) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside if depth and not isinstance(value, Part) else ():
        yield (key,)
        yield from ((key, *rest) for rest in places(inner, depth - 1))


def changed(record: Any, place: tuple[Any, ...], value: Any) -> Any:
    fresh = holder = copy.deepcopy(record)
    for key in place[:-1]:
        holder = holder[key]
    if value is GONE:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return fresh


def read_as(kind: type[msgspec.Struct], record: Any) -> bool:
    try:
        check(record, kind)
    except BadRecord:
        return False
    return True


def all_written(kind: type[msgspec.Struct], record: Record) -> bool:
    """Whether a record that can be read has what the tools always write, for which the reader does not ask."""
    wanted = {*ALWAYS_WRITTEN.get(kind, ()), *(OF_STEP[record["type"]] if kind is Step else ())}
    return wanted <= record.keys()


OF_STEP = {
    "thought": {"content"},
    "message": {"content"},
    "tool_call": {"name", "status"},
    "plan": {"entries"},
}
PARTS = {part: name for name, kind in SCHEMAS.items() for part in structs_in(kind) if name != "HeadlessAdapter"}


@pytest.mark.parametrize("kind, name", PARTS.items(), ids=[part.__name__ for part in PARTS])
def test_refuses_what_the_reader_refuses_and_nothing_else(kind: type[msgspec.Struct], name: str) -> None:
    schema = schema_of(name)
    part = schema if kind is SCHEMAS[name] else {"$ref": f"#/$defs/{kind.__name__}", "$defs": schema["$defs"]}
    accepts = Draft202012Validator(part).is_valid
    whole = sample(kind)
    assert accepts(whole) and read_as(kind, whole), whole
    verdicts = Counter[bool]()
    for record in variants(whole):
        readable = read_as(kind, record)
        assert accepts(record) == (readable and all_written(kind, record)), record
        verdicts[readable] += 1
    assert verdicts[True] and verdicts[False]


# --- adapters -----------------------------------------------------------------------------------

BEYOND = re.compile(
    "is not a regular|matches the empty|has no group|in numbers too|already holds what|not a placeholder|may be "
    "used only|has no effect|no log format"
)
BEYOND_A_SCHEMA = {
    "outputEvents[0].match may have [*] in only one condition",
    "usage.match may not have [*]",
    *(message for _, message in WRONG if BEYOND.search(message)),
}
WELL_BEGUN_PATHS = {
    "result.contentPath",
    "result.errorPath",
    "outputEvents[0].extract.isError",
    "outputEvents[1].match.path",
}


def compiles(schema: object) -> bool:
    try:
        parse_adapter(json.dumps(schema).encode(), "my.json")
    except UserError:
        return False
    return True


@pytest.mark.parametrize("path", ADAPTERS, ids=lambda path: path.stem)
def test_every_adapter_is_valid(path: Path) -> None:
    assert problems(json.loads(path.read_bytes()), "HeadlessAdapter") == []


@pytest.mark.parametrize(("fields", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_adapter_is_not(fields: Record, message: str) -> None:
    assert validator("HeadlessAdapter").is_valid({**BASE, **fields}) == (message in BEYOND_A_SCHEMA)


@pytest.mark.parametrize(("fields", "field"), BAD_PATHS, ids=[field for _, field in BAD_PATHS])
def test_a_path_that_does_not_begin_like_one_is_refused(fields: Record, field: str) -> None:
    assert validator("HeadlessAdapter").is_valid({**BASE, **fields}) == (field in WELL_BEGUN_PATHS)


@pytest.mark.parametrize(
    "fields",
    [
        {"env": {"A=B": "x"}},
        {"env": {"": "x"}},
        {"env": {"A": "nul \0"}},
        {"command": ["nul \0"]},
        {"resume": {"flag": None, "args": None}},
        {"prompt": {"flag": "-p", "stdin": True}},
        {"resume": {"flag": "-r\0"}},
        {"output": {"flag": "-o", "value": "\0"}},
    ],
)
def test_more_wrong_adapters(fields: Record) -> None:
    assert not compiles({**BASE, **fields})
    assert not validator("HeadlessAdapter").is_valid({**BASE, **fields})


FULL_ADAPTER: Record = {
    **BASE,
    "timeout": 1000,
    "output": {"flag": "-o", "value": "json", "fileFlag": "-f"},
    "autoApprove": ["--yes"],
    "resume": {"args": ["{sessionId}"], "command": ["my"], "sessionIdPath": "$.id"},
    "cwdFlag": "-C",
    "env": {"A": "b"},
    "outputMode": "jsonpath",
    "outputEvents": [
        {
            "match": {"path": "$.type", "value": ["a"]},
            "emitAs": "tool_call",
            "extract": {"content": "$.text", "title": ["$.name"], "status": "'pending'", "isError": "$.e"},
            "delta": "$.more",
            "also": True,
        },
        {"match": [{"path": "$.a", "not": True}, {"path": "$.b[*]", "value": "*"}], "emitAs": "message"},
    ],
    "nestedEvents": "$.messages",
    "splits": [{"path": "$.text", "into": "parts", "patterns": {"a": "(?P<x>x)"}, "numbers": [], "json": []}],
    "passthroughTypeMap": {"typeField": "type", "typeValues": {"a": "thought"}},
    "result": {"matchPath": "$.type", "matchValue": "r", "contentPath": "$.r", "isErrorPath": "$.e"},
    "usage": {
        "match": {"path": "$.t", "value": 1},
        "inputTokens": ["$.i"],
        "perTurn": "sum",
        "cumulative": ["costUsd"],
    },
    "metadata": {"model": ["$.model"]},
    "historyTemplate": {"system": "s", "turnFormat": "{{input}}"},
}
RESUMED_BY_COMMAND = {**BASE, "resume": {"command": ["my", "{sessionId}"]}, "historyTemplate": "{{input}}"}


@pytest.mark.parametrize(("whole", "depth"), [(FULL_ADAPTER, 5), (RESUMED_BY_COMMAND, 3)])
def test_adapter_schema_refuses_what_the_compiler_refuses(whole: Record, depth: int) -> None:
    assert compiles(whole) and problems(whole, "HeadlessAdapter") == []
    for adapter in variants(whole, depth):
        assert validator("HeadlessAdapter").is_valid(adapter) == compiles(adapter), adapter


# --- everything the suite writes ----------------------------------------------------------------

PROMPTS: list[Record] = [
    {"id": "good", "input": "hello", "hint": "hello", "reference": "hello", "metadata": {"category": "a", "n": 1}},
    {"id": "turns", "input": ["one", "two"], "hint": "two", "timeout": 60_000, "mine": {"any": [None]}},
    {"id": "wrong", "input": "hello", "hint": "bye", "reference": "hello", "metadata": {"type": "negative"}},
    {"id": "crash", "input": "crash", "hint": "x"},
    {"id": "killed", "input": "killed"},
    {"id": "slow", "input": "slow", "timeout": 200},
    {"id": "silent", "input": "silent", "hint": None, "metadata": None},
]
SCRIPTS = {
    "agent.sh": """
        case "$PROMPT" in
          crash) echo half; echo oops >&2; exit 3;;
          killed) kill -9 $$;;
          slow) echo begun; sleep 9;;
          silent) ;;
          *) echo "$PROMPT";;
        esac""",
    "broken": """
        case $(cat) in *good*) exit 1;; esac
        echo '{"pass": true, "score": 1, "outcome": {"a": 1}}'""",
    "seen": """
        cat >> seen.jsonl; echo >> seen.jsonl
        echo '{"pass": true, "score": 1}'""",
    "asked": """
        cat >> asked.jsonl; echo >> asked.jsonl
        exec ./ranking""",
    "ranking": """
        echo '{"rankings": [{"run": "graded", "rank": 1, "score": 0.5}, {"run": "twice", "rank": 2}]}'""",
}


class Written(NamedTuple):
    """A file, the command that writes it, what it holds."""

    file: str
    command: str
    schema: str


AS_AGENT = "--shell '. $HOME/agent.sh' -j 4"
WRITTEN = [
    Written("raw.jsonl", f"ae-run prompts.jsonl {AS_AGENT} --workspace-dir ws", "RawOutput"),
    Written("long.jsonl", "ae-run long-prompt.jsonl --simple 'echo {}'", "RawOutput"),
    Written("results.jsonl", "ae-extract -s text raw.jsonl", "CaptureResult"),
    Written("kept.jsonl", "ae-extract -s text --keep-raw raw.jsonl", "CaptureResult"),
    Written("graded.jsonl", "ae-grade -g ae-grader-hint results.jsonl", "CaptureResult"),
    Written("twice.jsonl", "ae-grade -g one=ae-grader-hint -g two=./broken results.jsonl", "CaptureResult"),
    Written("seen.jsonl", "ae-grade -g ./seen results.jsonl >/dev/null; cat seen.jsonl", "GraderInput"),
    Written("verdicts.jsonl", 'grep \'"hint":"\' results.jsonl | ae-grader-hint', "GraderResult"),
    Written("evaluation.json", "ae-score twice.jsonl --criteria target --meta mine=1", "Evaluation"),
    Written("empty-evaluation.json", "ae-score /dev/null", "Evaluation"),
    Written("again.jsonl", "ae-format -f jsonl twice.jsonl", "CaptureResult"),
    Written("summary.jsonl", "cat graded.jsonl kept.jsonl | ae-summarize", "SummaryResult"),
    Written("balance.json", "ae-balance prompts.jsonl", "BalanceAnalysis"),
    Written("empty-balance.json", "ae-balance /dev/null", "BalanceAnalysis"),
    Written("weighted.json", "ae-compare graded.jsonl twice.jsonl", "ComparisonReport"),
    Written("statistical.json", "ae-compare graded.jsonl twice.jsonl --strategy statistical", "ComparisonReport"),
    Written("custom.json", "ae-compare graded.jsonl twice.jsonl --strategy custom -g ./ranking", "ComparisonReport"),
    Written("ungraded.json", "ae-compare results.jsonl kept.jsonl", "ComparisonReport"),
    Written("nothing.json", "ae-compare --run a:/dev/null --run b:/dev/null", "ComparisonReport"),
    Written("history.json", "ae-history graded.jsonl twice.jsonl", "History"),
    Written("ranking.jsonl", "./ranking | cat", "ComparisonAnswer"),
    Written(
        "asked.jsonl",
        "ae-compare graded.jsonl twice.jsonl -g ./asked >/dev/null; cat asked.jsonl",
        "ComparisonGraderInput",
    ),
    Written(
        "captured.jsonl", f"ae-capture prompts.jsonl {AS_AGENT} -g one=ae-grader-hint -g ./broken", "CaptureResult"
    ),
    Written("acp.jsonl", "head -1 prompts.jsonl | ae-run -- ae-headless -s echo.json", "RawOutput"),
    Written("acp-results.jsonl", "head -1 prompts.jsonl | ae-capture -- ae-headless -s echo.json", "CaptureResult"),
    Written("trials.jsonl", f"ae-trials prompts.jsonl -k 2 {AS_AGENT} -g ae-grader-hint", "TrialResult"),
    Written("other.jsonl", f"ae-trials prompts.jsonl -k 3 {AS_AGENT} -g one=ae-grader-hint -g ./broken", "TrialResult"),
    Written("plain.jsonl", f"ae-trials prompts.jsonl -k 1 {AS_AGENT}", "TrialResult"),
    Written(
        "labels.jsonl",
        "ae-calibrate graded.jsonl --all --sample 3 | sed '0,/\\[ \\]/s//[x]/' | ae-calibrate --read -",
        "Label",
    ),
    Written(
        "calibration.json",
        "ae-calibrate graded.jsonl --all --labels labels.jsonl -g ae-grader-hint -f json",
        "CalibrationReport",
    ),
    Written("unlabelled.json", "ae-calibrate graded.jsonl -f json", "CalibrationReport"),
    Written("validation.jsonl", "ae-validate-refs prompts.jsonl -g ae-grader-hint -g ./broken", "ValidationResult"),
    Written("plan.json", "ae-plan trials.jsonl other.jsonl -f json", "EvaluationPlan"),
    Written("trials-w.json", "ae-compare trials.jsonl other.jsonl", "TrialsComparisonReport"),
    Written("trials-s.json", "ae-compare trials.jsonl other.jsonl --strategy statistical", "TrialsComparisonReport"),
    Written(
        "trials-c.json", "ae-compare trials.jsonl plain.jsonl --strategy custom -g ./ranking", "TrialsComparisonReport"
    ),
]


def test_everything_the_suite_writes_is_valid(tmp_path: Path) -> None:
    write(tmp_path / "long-prompt.jsonl", {"id": "long", "input": "x" * 200_000})  # its agent cannot be started
    write(tmp_path / "echo.json", {**BASE, "command": ["echo"], "prompt": {}, "outputMode": "text"})
    for name, text in SCRIPTS.items():
        script(tmp_path / name, text)
    written = {}

    def output_of(command: str) -> Done:
        return run(*(["/bin/sh", "-c", command] if set("|>") & {*command} else shlex.split(command)), cwd=tmp_path)

    def raw_of_all(limit: int) -> Done | None:
        """Returns what the first command writes if the slow agent has begun within the limit."""
        of_slow = {"timeout": limit}
        prompts = ({**prompt, **of_slow} if prompt["id"] == "slow" else prompt for prompt in PROMPTS)
        write(tmp_path / "prompts.jsonl", *prompts)
        done = output_of(WRITTEN[0].command)
        return done if any(raw["id"] == "slow" and raw["rawLines"] for raw in done.records) else None

    raw = in_time(raw_of_all, 200)
    for file, command, schema in WRITTEN:
        done = raw if file == "raw.jsonl" else output_of(command)
        assert done.code in (0, 1) and b"Traceback" not in done.err, done
        (tmp_path / file).write_bytes(done.out)
        written[file] = [json.loads(done.stdout)] if file.endswith(".json") else done.records
        assert written[file], done
        for record in written[file]:
            assert problems(record, schema) == [], (command, record)
    check_that_agents_ended_in_every_way({raw["id"]: raw for raw in written["raw.jsonl"]})
    assert written["acp-results.jsonl"][0]["trajectory"]
    graded = {record["id"]: record for record in written["twice.jsonl"]}
    assert graded["good"]["graderError"] and graded["wrong"]["scores"]["two"]["outcome"] == {"a": 1}


def check_that_agents_ended_in_every_way(raw: dict[str, Record]) -> None:
    assert raw["crash"]["exitCode"] == 3 and raw["crash"]["stderr"] == "oops\n"
    assert raw["killed"]["exitCode"] is None and raw["killed"]["signal"] == "SIGKILL"
    assert raw["slow"]["timedOut"] and raw["slow"]["rawLines"] == ["begun"]
    assert "errors" not in raw["good"] and len(raw["turns"]["turns"]) == 2


def test_prompts_of_this_test_are_valid() -> None:
    assert [problems(prompt, "PromptInput") for prompt in PROMPTS] == [[]] * len(PROMPTS)


def test_every_schema_is_met_in_the_wild() -> None:
    met = {row.schema for row in WRITTEN}
    parts = {"TrajectoryStep", "TrialEntry", "CalibrationSample", "ReliabilityMetrics", "TrialsReliabilityMetrics"}
    assert set(SCHEMAS) - met - parts == {"PromptInput", "HeadlessAdapter"}


@pytest.mark.parametrize(
    "path", sorted(GOLDEN.glob("ae-[eg]*/*.out")), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_golden_results_are_valid(path: Path) -> None:
    for line in filter(lambda line: line.startswith("{"), path.read_text().split("\n")):  # a case may say `exit 1`
        found = problems(json.loads(line), "CaptureResult")
        if path.parent.name != "ae-extract":  # records of other origin, which may lack what the suite always writes
            found = [problem for problem in found if "is a required property" not in problem]
        assert found == []


# --- the README ---------------------------------------------------------------------------------

ROWS = {
    "prompt": "PromptInput",
    "raw": "RawOutput",
    "result": "CaptureResult",
    "step of a trajectory": "TrajectoryStep",
    "graded": "CaptureResult",
    "grader input": "GraderInput",
    "trial": "TrialResult",
    "summary": "SummaryResult",
    "validation": "ValidationResult",
    "balance": "BalanceAnalysis",
}


def test_the_page_of_records_names_only_fields_that_there_are() -> None:
    page = (ROOT / "docs/records.md").read_text()
    table = page.partition("\n| record | fields |\n|---|---|\n")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", table, re.MULTILINE))
    assert len(rows) > 5 and set(rows) <= set(ROWS), "say in ROWS which schema it is"
    for row, text in rows.items():
        schema = schema_of(ROWS[row])
        known = {field for _, part in parts_of(schema) for field in part["properties"]}
        known |= {name for node in nodes(schema) for name in re.findall(r"`(\w+)`", str(node.get("description")))}
        named = {name.partition(".")[0] for name in re.findall(r"`([a-z]\w*(?:\.\w+)?)`", text)}
        assert named <= known, row


# --- the tool -----------------------------------------------------------------------------------


def test_list_says_what_each_is() -> None:
    lines = run("ae-schemas").expect(0, stderr="").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(SCHEMAS)
    assert all(re.fullmatch(r"\w+ {2,}[A-Z].*\.", line) for line in lines)


def test_all_and_one_give_the_same(tmp_path: Path) -> None:
    every = json.loads(run("ae-schemas", "--json").expect(0, stderr="").stdout)
    assert list(every) == list(SCHEMAS)
    one = run("ae-schemas", "CaptureResult").expect(0, stderr="")
    assert json.loads(one.stdout) == every["CaptureResult"] == schema_of("CaptureResult")
    assert run("ae-schemas", "CaptureResult", "--json", "-o", "one.json", cwd=tmp_path).expect(0, stderr="").out == b""
    assert (tmp_path / "one.json").read_bytes() == one.out
    assert one.stdout.startswith('{\n  "$schema": ')


@pytest.mark.parametrize(
    "name, close",
    [
        ("captureresult", "CaptureResult"),
        ("Prompt", "PromptInput"),
        ("Trial", "TrialResult"),
        ("zzz", "choose from PromptInput, "),
        ("", "choose from PromptInput, "),
    ],
)
def test_unknown_name_shows_close_ones(name: str, close: str, tmp_path: Path) -> None:
    done = run("ae-schemas", name, "-o", "out.json", cwd=tmp_path).expect(2)
    done.says(f'"{name}"', close)
    assert not (tmp_path / "out.json").exists()


def test_recipe_for_other_languages(tmp_path: Path) -> None:
    """schemas.json holds schemas by name, and jsonschema's validate takes one as it is."""
    run("ae-schemas", "--json", "-o", "schemas.json", cwd=tmp_path).expect(0)
    schemas = json.loads((tmp_path / "schemas.json").read_text())
    result = {
        "id": "test-001",
        "input": "Find the CEO of Anthropic",
        "output": "Dario Amodei.",
        "trajectory": [{"type": "thought", "content": "…", "timestamp": 100}],
        "metadata": {"agent": "--schema ./claude.json", "trajectoryRichness": "full", "turnCount": 1},
        "timing": {"start": 1704067200000, "end": 1704067201234, "total": 1234},
        "toolErrors": False,
    }
    Draft202012Validator(schemas["CaptureResult"]).validate(result)
    assert not Draft202012Validator(schemas["CaptureResult"]).is_valid({**result, "timing": {"start": 1}})


def test_the_names_of_agent_eval_harness() -> None:
    """All records of its own, under its names."""
    ours = json.loads(run("ae-schemas", "PromptInput").expect(0).out)
    assert json.loads(run("ae-schemas", "PromptCase").expect(0).out) == ours
    for name in ("TrialEntry", "CalibrationSample", "TrialResult", "GraderResult", "CaptureResult", "SummaryResult"):
        assert json.loads(run("ae-schemas", name).expect(0).out)["title"] == name


# --- the tool -----------------------------------------------------------------------------------


def test_the_options_of_agent_eval_harness(tmp_path: Path) -> None:
    listed = run("ae-schemas").expect(0, stderr="").stdout
    assert run("ae-schemas", "-l").expect(0, stderr="").stdout == run("ae-schemas", "--list").stdout == listed
    assert json.loads(run("ae-schemas", "-j").expect(0).stdout) == {name: schema_of(name) for name in SCHEMAS}
    for split in (["-s"], ["--json", "--split"]):
        run("ae-schemas", *split, "-o", "new/schemas", cwd=tmp_path).expect(0, stderr="")
        files = sorted((tmp_path / "new" / "schemas").iterdir())
        assert [file.name for file in files] == sorted(f"{name}.json" for name in SCHEMAS)
        assert json.loads(files[0].read_bytes()) == schema_of(files[0].stem)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--split"], "--split needs a directory: add -o DIR"),
        (["--split", "TrialResult", "-o", "x"], "--split writes all schemas"),
        (["--list", "--json"], "--list prints names only"),
        (["TrialRes"], "did you mean TrialResult"),
    ],
)
def test_what_ae_schemas_refuses(args: list[str], says: str, tmp_path: Path) -> None:
    run("ae-schemas", *args, cwd=tmp_path).expect(2).says(says)
    assert list(tmp_path.iterdir()) == []


def test_a_step_is_a_union_by_type() -> None:
    step = {"type": "tool_call", "name": "Read", "status": "completed", "timestamp": 1}
    assert problems(step, "TrajectoryStep") == []
    for field in ("name", "status"):
        assert problems({name: value for name, value in step.items() if name != field}, "TrajectoryStep")
    assert problems({**step, "type": "message"}, "TrajectoryStep")
    assert problems({**step, "type": "message", "content": "x"}, "TrajectoryStep") == []


def test_a_result_without_its_trajectory_is_not_valid() -> None:
    assert any("trajectory" in found for found in problems({"id": "a", "input": "q", "output": "x"}, "CaptureResult"))
