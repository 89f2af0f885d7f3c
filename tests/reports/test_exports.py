"""The exports of ae-format, each read by software that is not ours."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.atif import check_trajectory
from tests.support.page_records import HOSTILE, LONG, every_status, hostile, result, trial, with_sub_agents
from tests.support.tool import ROOT, Done, Record, jsonl, run, write

EXPORTS = ["atif", "dpo", "inspect", "junit", "otlp", "parquet", "sft"]
SESSION = result(
    "session",
    input=["first question", "second question"],
    output="second answer",
    trajectory=[
        {"type": "message", "content": "first answer", "timestamp": 10},
        {
            "type": "tool_call",
            "name": "Read",
            "status": "completed",
            "input": {"path": "a"},
            "output": "A",
            "timestamp": 20,
        },
        {"type": "message", "content": "second answer", "timestamp": 30},
    ],
    metadata={"agent": "robot", "turnSteps": [1, 2]},
    score={"pass": True, "score": 1.0},
)
TRIALS = [
    trial("mixed", [True, False, None], metadata={"category": "ui"}),
    trial("good", [True, True], metadata={"category": "api"}),
    {"id": "erred", "input": "i", "k": 2, "trials": [
        {"trialNum": 1, "output": "o", "graderError": "judge: timed out"}, {"trialNum": 2, "output": "o"}
    ]},
]  # fmt: skip
BARE: list[Record] = [{"id": "bare", "output": "o"}, {"id": "empty", "output": "", "trajectory": None}]
ODD = [
    *(hostile(text) for text in [*HOSTILE, "\ud7ff\ue000\ufffe\uffff\x0b\x85"]),
    SESSION,
    with_sub_agents(),
    *BARE,
]


@cache
def exported(form: str, records: str, args: tuple[object, ...]) -> Done:
    return run("ae-format", "-f", form, *args, stdin=records)


def export(form: str, *records: Record, args: tuple[object, ...] = (), code: int = 0) -> Done:
    """Returns what ae-format does with these records; the same call runs once."""
    done = exported(form, jsonl(*records), args)
    return Done(done.command, done.cwd, done.code, done.out, done.err, done.seconds).expect(code)


def records_of(form: str, *records: Record) -> list[Record]:
    return export(form, *records).expect(0).records


# --- junit ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def junit_schema() -> Any:
    xmlschema = pytest.importorskip("xmlschema", reason="the extra `references` validates XML")
    return xmlschema.XMLSchema(str(ROOT / "tests/data/junit-10.xsd"))


@pytest.mark.parametrize("records", [every_status(), TRIALS, ODD, []], ids=["results", "trials", "odd", "none"])
def test_junit_is_what_the_schema_of_jenkins_describes(records: list[Record], junit_schema: Any) -> None:
    junit_schema.validate(export("junit", *records).stdout)


def suites_of(document: bytes) -> Any:
    junitparser = pytest.importorskip("junitparser", reason="the extra `references` parses JUnit XML")
    return junitparser.JUnitXml.fromstring(document)


def outcomes(document: bytes) -> dict[str, list[tuple[str, str]]]:
    """Returns, by suite, the name of each test case and what is in it, the suites in a suite included."""
    return {
        suite.name: [(case.name, ", ".join(type(part).__name__ for part in case.result) or "passed") for case in suite]
        for suite in suites_of(document)
    }


def test_junit_has_a_suite_per_category_and_errors_apart(tmp_path: Path) -> None:
    file = write(tmp_path / "graded.jsonl", *every_status())
    run("ae-format", file, "-o", tmp_path / "report.xml").expect(0, stderr="")
    document = (tmp_path / "report.xml").read_bytes()
    assert document == export("junit", *every_status()).out, "a pipe gives the same"
    found = outcomes(document)
    assert found == {
        "ui": [("first", "passed"), ("third", "Error"), ("fourth", "Error"), ("sixth", "passed")],
        "api": [("second", "Failure"), ("fifth", "Skipped")],
    }
    ui, api = suites_of(document)
    assert [(s.tests, s.failures, s.errors, s.skipped) for s in (ui, api)] == [(4, 0, 2, 0), (2, 1, 0, 1)]
    [failure] = next(case for case in api if case.name == "second").result
    assert failure.message == "two graders" and "judge: did not pass, score 0.2: judge was not" in failure.text
    errors = {case.name: case.result[0] for case in ui if case.result}
    assert {name: (error.type, error.message) for name, error in errors.items()} == {
        "third": ("agent failed", "robot exited with 1"),
        "fourth": ("grader error", "judge: timed out"),
    }


def test_junit_by_another_key() -> None:
    records = [result("a", metadata={"team": {"name": "x"}}), result("b", metadata={})]
    for key in ("team.name", "metadata.team.name"):
        assert list(outcomes(export("junit", *records, args=("--by", key)).out)) == ["x", "no team.name"]


def test_junit_of_trials_has_a_case_per_trial_and_the_pass_rate_of_the_prompt() -> None:
    document = export("junit", *TRIALS).out
    assert outcomes(document) == {
        "ui": [("mixed#1", "passed"), ("mixed#2", "Failure"), ("mixed#3", "Error")],
        "api": [("good#1", "passed"), ("good#2", "passed")],
        "no category": [("erred#1", "Error"), ("erred#2", "Skipped")],
    }
    rates = {
        prompt.name: [(one.name, float(one.value)) for one in prompt.properties()]
        for suite in suites_of(document)
        for prompt in suite.testsuites()
    }
    assert rates == {"mixed": [("passRate", 1 / 3)], "good": [("passRate", 1.0)], "erred": []}


def test_junit_keeps_texts_as_they_are_but_for_what_xml_cannot_have() -> None:
    text = 'a\tb\r\nc <d> & "e" ]]> 🦀 \x00\ufffe'
    record = result(text, score={"pass": False, "score": 0, "reasoning": text}, metadata={})
    [case] = next(iter(suites_of(export("junit", record).out)))
    assert case.name == text.replace("\x00", "␀").replace("\ufffe", "\ufffd")
    assert case.result[0].text.endswith(case.name)


# --- atif -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("records", [every_status(), TRIALS, ODD], ids=["results", "trials", "odd"])
def test_atif_keeps_the_rules_of_the_format(records: list[Record]) -> None:
    documents = records_of("atif", *records)
    assert len(documents) == sum(len(record.get("trials", [1])) for record in records)
    for document in documents:
        check_trajectory(document)


def test_atif_has_each_result_in_the_step_of_its_call() -> None:
    document = records_of("atif", *every_status())[1]
    sources = [(step["source"], len(step.get("tool_calls", []))) for step in document["steps"]]
    assert sources == [("user", 0), ("agent", 1), ("agent", 1), ("agent", 0), ("agent", 0)]
    first = document["steps"][1]
    assert first["reasoning_content"] == "thinking about second" and first["timestamp"] == "2023-11-14T22:13:20.100Z"
    assert first["tool_calls"][0]["arguments"] == {"command": "ls -la"}
    assert first["observation"]["results"][0]["content"].endswith("line 200")
    assert document["extra"]["scores"]["judge"]["score"] == 0.2 and document["extra"]["status"] == "fail"
    assert document["final_metrics"]["total_prompt_tokens"] == 900
    assert [step["message"] for step in document["steps"]][-1] == "It is second."


def test_atif_of_a_session_has_the_turns_of_the_user_in_their_places() -> None:
    [document] = records_of("atif", SESSION)
    said = [(step["source"], step["message"]) for step in document["steps"]]
    assert said == [
        ("user", "first question"),
        ("agent", "first answer"),
        ("user", "second question"),
        ("agent", ""),
        ("agent", "second answer"),
    ]


def test_atif_has_a_trajectory_per_sub_agent() -> None:
    [document] = records_of("atif", with_sub_agents())
    called = [one["observation"]["results"][0] for one in document["steps"] if "observation" in one]
    assert called == [
        {"source_call_id": "call_2", "content": "done", "subagent_trajectory_ref": [{"trajectory_id": "nested/t1"}]}
    ]
    said = {
        one["trajectory_id"]: [step["message"] for step in one["steps"]] for one in document["subagent_trajectories"]
    }
    assert said == {"nested/t1": ["", "sub found it"], "nested/t2": [""], "nested/elsewhere": ["lost"]}


# --- otlp -----------------------------------------------------------------------------------------


def spans_of(line: Record) -> list[Any]:
    """Returns the spans of a line as the protobuf classes of OpenTelemetry read it.

    OTLP/JSON differs from the JSON of protobuf in one thing: ids are hexadecimal, not base64.
    """
    trace = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2", reason="the extra `references` has it")
    json_format = pytest.importorskip("google.protobuf.json_format", reason="opentelemetry-proto needs it")
    for spans in line["resourceSpans"][0]["scopeSpans"]:
        for span in spans["spans"]:
            for name, size in (("traceId", 16), ("spanId", 8), ("parentSpanId", 8)):
                if name in span:
                    assert re.fullmatch(f"[0-9a-f]{{{2 * size}}}", span[name]), span[name]
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
            assert all(type(span[name]) is str for name in span if name.endswith("UnixNano"))
    parsed = json_format.ParseDict(line, trace.TracesData())  # an unknown field is an error
    return list(parsed.resource_spans[0].scope_spans[0].spans)


def values_of(attributes: Any) -> Record:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@pytest.mark.parametrize("records", [every_status(), TRIALS, ODD], ids=["results", "trials", "odd"])
def test_otlp_is_read_by_the_classes_of_opentelemetry(records: list[Record]) -> None:
    lines = [spans_of(line) for line in records_of("otlp", *records)]
    assert len({spans[0].trace_id for spans in lines}) == len(lines) > 0
    for spans in lines:
        assert len({span.span_id for span in spans}) == len(spans)
        assert {span.parent_span_id for span in spans[1:]} <= {span.span_id for span in spans}
        assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in spans)


def test_otlp_has_the_calls_of_a_sub_agent_below_the_call_that_it_works_for() -> None:
    run_span, task, inner, grep = spans_of(*records_of("otlp", with_sub_agents()))
    assert [one.parent_span_id for one in (task, inner, grep)] == [run_span.span_id, task.span_id, inner.span_id]


def test_otlp_follows_the_conventions_for_generative_ai() -> None:
    lines = {
        record["id"]: spans_of(line)
        for record, line in zip(every_status(), records_of("otlp", *every_status()), strict=True)
    }
    run_span, bash, edit = lines["second"]
    assert [span.name for span in (run_span, bash, edit)] == [
        "invoke_agent robot",
        "execute_tool Bash",
        "execute_tool Edit",
    ]
    assert (run_span.start_time_unix_nano, run_span.end_time_unix_nano) == (
        1_700_000_000 * 10**9,
        1_700_000_002 * 10**9,
    )
    assert (
        bash.start_time_unix_nano == 1_700_000_000_200 * 10**6 and bash.end_time_unix_nano == 1_700_000_001_200 * 10**6
    )
    said = values_of(run_span.attributes)
    assert said["gen_ai.operation.name"] == "invoke_agent" and said["gen_ai.usage.input_tokens"] == 900
    assert json.loads(values_of(bash.attributes)["gen_ai.tool.call.arguments"]) == {"command": "ls -la"}
    assert values_of(edit.attributes)["error.type"] == "tool_error" and edit.status.code == 2
    verdicts = [values_of(event.attributes) for event in run_span.events]
    assert {event.name for event in run_span.events} == {"gen_ai.evaluation.result"}
    assert [(one["gen_ai.evaluation.name"], one["gen_ai.evaluation.score.label"]) for one in verdicts] == [
        ("hint", "pass"),
        ("judge", "fail"),
        ("score", "fail"),
    ]
    failed, erred, ungraded = (lines[id][0] for id in ("third", "fourth", "fifth"))
    assert (
        values_of(failed.attributes)["error.type"] == "agent_failed" and failed.status.code == 2 and not failed.events
    )
    assert values_of(erred.events[0].attributes)["error.type"] == "grader_error" and erred.status.code == 0
    assert not ungraded.events and ungraded.start_time_unix_nano == 0, "a time that is not known is not made up"


# --- sft and dpo ----------------------------------------------------------------------------------


def check_chat(messages: list[Record]) -> None:
    """Asserts the rules of OpenAI's chat format: known keys, each call answered, names and ids of its length."""
    waiting: list[str] = []
    for message in messages:
        assert message.keys() <= {"role", "content", "tool_calls", "tool_call_id"}, message.keys()
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            continue
        assert not waiting, "every call is answered before anything else"
        assert message["role"] in ("user", "assistant") and isinstance(message["content"], str)
        for call in message.get("tool_calls", []):
            assert call.keys() == {"id", "type", "function"} and call["type"] == "function" and len(call["id"]) <= 40
            assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["function"]["name"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)  # OpenAI's API takes only text
            waiting.append(call["id"])
        assert message["content"] or waiting or message["role"] == "user"
    assert not waiting and messages[-1]["role"] == "assistant"
    roles = [message["role"] for message in messages]
    assert not [pair for pair in pairwise(roles) if pair in (("user", "user"), ("assistant", "assistant"))]


def test_sft_takes_what_passed_and_says_what_it_left_out() -> None:
    done = export("sft", *every_status())
    done.says("2 of 6 answers written; left out: 1 did not pass, 1 agent failed, 1 grader erred, 1 ungraded")
    assert [line["messages"][0]["content"] for line in done.records] == ["What is first?", "What is sixth?"]
    assert [tool["function"]["name"] for tool in done.records[0]["tools"]] == ["Bash", "Edit"]
    assert len(export("sft", *every_status(), args=("--all",)).expect(0, stderr="").records) == 6


@pytest.mark.parametrize("records", [every_status(), TRIALS, ODD], ids=["results", "trials", "odd"])
def test_sft_is_chat_as_the_api_of_openai_reads_it(records: list[Record]) -> None:
    lines = export("sft", *records, args=("--all",)).records
    assert lines
    for line in lines:
        assert line.keys() <= {"messages", "tools"}
        check_chat(line["messages"])
        called = {call["function"]["name"] for one in line["messages"] for call in one.get("tool_calls", [])}
        assert called == {tool["function"]["name"] for tool in line.get("tools", [])}


def test_what_sub_agents_did_is_no_part_of_the_chat() -> None:
    [line] = export("sft", with_sub_agents()).records
    said = [(one["role"], one["content"], len(one.get("tool_calls", []))) for one in line["messages"]]
    assert said[1:] == [("assistant", "I delegate.", 1), ("tool", "done", 0), ("assistant", "All done.", 0)]


def test_arguments_for_trl_are_objects_and_otherwise_text() -> None:
    for args, kind in ((), str), (("--for", "openai"), str), (("--for", "trl"), dict):
        [line] = export("sft", with_sub_agents(), args=args).records
        [pair] = export("dpo", trial("a", [True, False]), args=args).records
        for message in (line["messages"][1], (pair.get("chosen") or pair["preferred_output"])[0]):
            assert type(message["tool_calls"][0]["function"]["arguments"]) is kind
    export("csv", *every_status(), args=("--for", "trl"), code=2).says("--for has no effect with -f csv")


def test_a_pass_without_words_is_no_example() -> None:
    export("sft", result("a", output="", trajectory=[], score={"pass": True, "score": 1})).says(
        "1 no text in the answer"
    )


def test_dpo_pairs_every_pass_with_every_answer_that_did_not() -> None:
    done = export("dpo", trial("a", [True, True, False, None]), trial("b", [True]))
    done.says("2 pairs of 2 prompts written; left out: 1 agent failed")
    ends = [(line["chosen"][-1]["content"], line["rejected"][-1]["content"]) for line in done.records]
    assert ends == [("answer 1", "answer 3"), ("answer 2", "answer 3")]
    for line in done.records:
        assert line["prompt"] == [{"role": "user", "content": "What is a?"}]
        check_chat(line["prompt"] + line["chosen"])
        check_chat(line["prompt"] + line["rejected"])
    assert len(export("dpo", trial("a", [True, None]), args=("--all",)).expect(0, stderr="").records) == 1
    [line] = export("dpo", trial("a", [True, False]), args=("--for", "openai")).records
    assert line.keys() == {"input", "preferred_output", "non_preferred_output"}
    assert line["preferred_output"][-1]["content"] == "answer 1" and line["input"]["messages"][0]["role"] == "user"


def test_dpo_of_two_runs(tmp_path: Path) -> None:
    good, bad = {"pass": True, "score": 1.0}, {"pass": False, "score": 0.0}
    before = [result(id, output=f"old {id}", score=score) for id, score in (("a", good), ("b", bad), ("c", good))]
    now = [result(id, output=f"new {id}", score=score) for id, score in (("c", good), ("b", good), ("a", bad))]
    changed = result("d", input="old", score=good), result("d", input="new", score=bad)
    old = write(tmp_path / "old.jsonl", *before, changed[0])
    done = export("dpo", *now, changed[1], args=("--against", old))
    done.says("2 pairs of 4 prompts written; left out: 1 whose prompt differs")
    ends = {(line["chosen"][-1]["content"], line["rejected"][-1]["content"]) for line in done.records}
    assert ends == {("new b", "old b"), ("old a", "new a")}


def test_dpo_of_sessions_begins_where_they_differ() -> None:
    steps = [{"type": "message", "content": "first answer"}, {"type": "message", "content": "last"}]
    entries = [
        {
            "trialNum": number,
            "output": "last",
            "trajectory": [steps[0] | {"content": first}, steps[1]],
            "pass": passed,
            "score": 1,
        }
        for number, (first, passed) in enumerate([("x", True), ("y", False)], 1)
    ]
    record = {"id": "a", "input": ["q1", "q2"], "k": 2, "trials": entries, "metadata": {"turnSteps": [1, 1]}}
    [line] = records_of("dpo", record)
    assert line["prompt"] == [{"role": "user", "content": "q1"}]
    assert [one["content"] for one in line["chosen"]] == ["x", "q2", "last"]
    export("dpo", record, args=("--for", "openai")).says(
        "0 pairs of 1 prompt written; left out: 1 with different turns"
    )


def test_results_alone_have_no_pairs() -> None:
    export("dpo", *every_status(), code=2).says("give trials, or another run with --against FILE")
    pair = trial("a", [True, False])
    mixed = export("dpo", pair, result("b"), {**pair, "id": "c"}, code=1)
    assert len(mixed.records) == 2, "a result among trials costs only itself"
    mixed.says("stdin:2: ", "a pair needs two")
    for args in (("--against", "x"), ("--all",)):
        export("csv", *every_status(), args=args, code=2).says(args[0], "dpo")


def test_the_package_datasets_loads_sft_and_dpo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    datasets = pytest.importorskip("datasets", reason="the extra `references` loads training data")
    for form, records in (("sft", [*every_status(), *ODD]), ("dpo", TRIALS)):
        done = export(form, *records)
        file = tmp_path / f"{form}.jsonl"
        file.write_bytes(done.out)
        loaded = datasets.load_dataset("json", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"))
        assert len(loaded) == len(done.records) > 0
        for row, line in zip(loaded, done.records, strict=True):
            for column in line.keys() - {"tools"}:
                assert [known(one) for one in row[column]] == line[column]


def known(value: Any) -> Any:
    """Returns a value of a table without the fields that only other rows have."""
    if isinstance(value, dict):
        return {name: known(one) for name, one in value.items() if one is not None}
    return [known(one) for one in value] if isinstance(value, list) else value


# --- parquet --------------------------------------------------------------------------------------


def query(file: Path, sql: str) -> list[tuple[Any, ...]]:
    duckdb = pytest.importorskip("duckdb", reason="the extra `references` queries parquet")
    rows: list[tuple[Any, ...]] = duckdb.sql(sql.format(file=file)).fetchall()
    return rows


def test_parquet_is_a_table_for_duckdb(tmp_path: Path) -> None:
    file = tmp_path / "graded.parquet"
    run("ae-format", write(tmp_path / "graded.jsonl", *every_status()), "-o", file).expect(0, stderr="")
    found = query(file, "SELECT id, status, pass, score, category, input_tokens, len(tools) FROM '{file}'")
    assert found[:5] == [
        ("first", "pass", True, 0.9, "ui", 900, 2),
        ("second", "fail", False, 0.6, "api", 900, 2),
        ("third", "error", False, 0.0, "ui", 900, 2),
        ("fourth", "grader-error", None, None, "ui", 900, 2),
        ("fifth", "ungraded", None, None, "api", None, 0),
    ]
    [(steps, judge)] = query(
        file, "SELECT json_array_length(trajectory), scores->>'$.judge.score' FROM '{file}' WHERE id = 'second'"
    )
    assert (steps, float(judge)) == (5, 0.2)


@pytest.mark.parametrize("records", [TRIALS, ODD, []], ids=["trials", "odd", "none"])
def test_parquet_has_a_row_per_answer(records: list[Record], tmp_path: Path) -> None:
    file = tmp_path / "all.parquet"
    file.write_bytes(export("parquet", *records).out)
    asked = [(record["id"], one.get("trialNum")) for record in records for one in record.get("trials", [{}])]
    assert query(file, "SELECT id, trial FROM '{file}'") == asked


def test_parquet_is_written_group_by_group(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra `parquet` writes it")
    from pyarrow import parquet

    file = tmp_path / "many.parquet"
    file.write_bytes(export("parquet", *({"id": f"{n}", "output": "o"} for n in range(2500))).out)
    groups = parquet.ParquetFile(file)
    assert [groups.metadata.row_group(at).num_rows for at in range(groups.num_row_groups)] == [1000, 1000, 500]


def test_parquet_without_its_extra_or_to_a_terminal(tmp_path: Path) -> None:
    from tests.support.tool import on_terminal

    file = write(tmp_path / "graded.jsonl", *every_status())
    shown = on_terminal("ae-format", "-f", "parquet", file, cwd=tmp_path).expect(2).stdout
    assert shown == "ae-format: parquet is binary and stdout is a terminal: write it to a file with -o FILE\n"
    (tmp_path / "pyarrow.py").write_text("raise ImportError('not here')")
    (tmp_path / "old.parquet").write_text("precious")
    for target in ("old.parquet", "new.parquet"):
        done = run("ae-format", file, "-o", target, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)}).expect(2)
        done.says("-f parquet needs the pyarrow package", "pip install", "[parquet]")
    assert (tmp_path / "old.parquet").read_text() == "precious" and not (tmp_path / "new.parquet").exists()


# --- inspect --------------------------------------------------------------------------------------


def test_inspect_is_one_document_with_a_sample_per_answer() -> None:
    log = json.loads(export("inspect", *every_status()).out)
    assert [sample["id"] for sample in log["samples"]] == [record["id"] for record in every_status()]
    assert {score["name"]: score["scored_samples"] for score in log["results"]["scores"]} == {
        "pass": 4,
        "score": 4,
        "hint": 1,
        "judge": 1,
    }
    assert log["results"] | {"scores": []} == {"total_samples": 6, "completed_samples": 5, "scores": []}
    assert [sample["id"] for sample in log["samples"] if "error" in sample] == ["third"]
    assert json.loads(export("inspect").out)["samples"] == []
    second = {sample["id"]: sample["events"] for sample in log["samples"]}["second"]
    kinds = ["sample_init", "model", "tool", "model", "tool", "model", "model", *["score"] * 4]
    assert [event["event"] for event in second] == kinds
    assert second[1]["input"] == [{"role": "user", "content": "What is second?"}]
    assert second[3]["input"] == [{"role": "tool", "content": LONG, "tool_call_id": "call_2", "function": "Bash"}], (
        "of a conversation, only what is new"
    )
    assert [(event["working_start"], event.get("working_time")) for event in second[1:6]] == [
        (0, 0.2), (0.2, 1.0), (1.2, 0.1), (1.3, 0.5), (1.8, 0.2)
    ]  # fmt: skip
    assert second[4]["failed"] and second[4]["error"]["message"] == "Error: no match"
    [nested] = json.loads(export("inspect", with_sub_agents()).out)["samples"]
    spans = [(event["event"], event["span_id"]) for event in nested["events"] if event["event"].startswith("span")]
    assert [kind for kind, _ in spans] == ["span_begin", "span_begin", "span_end", "span_end"]
    assert spans[0][1] == spans[3][1] != spans[1][1] == spans[2][1]
    epochs = [(sample["id"], sample["epoch"]) for sample in json.loads(export("inspect", *TRIALS).out)["samples"]]
    assert epochs == [(record["id"], number) for record in TRIALS for number in range(1, record["k"] + 1)]


# --- all of them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", EXPORTS)
def test_a_bad_line_costs_only_itself(form: str) -> None:
    lines = jsonl(*(TRIALS if form == "dpo" else every_status()))
    done = run("ae-format", "-f", form, stdin=lines + "{broken\n" + '{"id": 5}\n').expect(1)
    refused = [message for message in done.messages if ": stdin:" in message]
    assert len(refused) == 2 and "not JSON" in refused[0] and '"id" must be a string' in refused[1]
    assert done.out == run("ae-format", "-f", form, stdin=lines).expect(0).out, (
        "and the same records give the same bytes"
    )


@pytest.mark.parametrize("form", [*EXPORTS, "html", "table"])
def test_a_file_of_another_kind_is_named_once_and_costs_no_file(form: str, tmp_path: Path) -> None:
    raw = {"id": "a", "input": "i", "rawLines": [], "timing": {"start": 1, "end": 2}}
    (tmp_path / "report").write_text("precious")
    export(form, raw, raw, args=("-o", tmp_path / "report"), code=2).says("contains raw records", "ae-extract")
    assert (tmp_path / "report").read_text() == "precious"


def test_no_export_makes_up_a_grade_of_an_agent_that_failed() -> None:
    lie = result("a", errors=["crashed"], score={"pass": True, "score": 1.0})
    assert export("sft", lie).says("1 agent failed")
    assert Counter(one["extra"]["pass"] for one in records_of("atif", lie)) == {False: 1}
    [sample] = json.loads(export("inspect", lie).out)["samples"]
    assert sample["scores"]["pass"]["value"] == "I"


# --- the page -------------------------------------------------------------------------------------

OTHERS = {"pip", "duckdb", "inspect"}  # programs that the page names and that the tests call otherwise, or not


def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    write(tmp_path / "graded.jsonl", *every_status())
    write(tmp_path / "baseline.jsonl", *every_status())
    write(tmp_path / "trials.jsonl", *TRIALS)
    page = (ROOT / "docs/exports.md").read_text()
    commands = [
        shlex.split(line) for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()
    ]
    forms = set()
    for tool, *args in commands:
        if tool == "duckdb":
            [(category, *_), _] = query(tmp_path, args[1].replace("'graded.parquet'", f"'{tmp_path}/graded.parquet'"))
            assert category == "ui"
        elif tool not in OTHERS:
            run(tool, *args, cwd=tmp_path).expect(0)
            assert (tmp_path / args[-1]).stat().st_size > 0 or "pairs.jsonl" in args, args
            forms.add(args[args.index("-f") + 1] if "-f" in args else args[-1].rpartition(".")[2])
    assert forms == set(EXPORTS) - {"junit"} | {"xml"}
