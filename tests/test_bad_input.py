"""Bad input of any kind: one clear line per mistake, the right exit code, and no other record is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.tool import Record, jsonl, read, run, script, write

FIELDS = '"input":"q","output":"o","hint":"o","rawLines":["o"],"timing":{"start":1,"end":2}'
NUMBER = "1234567890" * 4


class Bad(NamedTuple):
    """A line that is refused, a part of the message, and the tools that must refuse it (by default all)."""

    line: str | bytes
    says: str
    tools: tuple[str, ...] = ("ae-run", "ae-extract", "ae-grade", "ae-format")


BAD = [
    Bad('{"id":"x",', "not JSON: Expecting property name"),
    Bad("not json at all", "not JSON: Expecting value at column 1"),
    Bad(f'{{"id":"x",{FIELDS}}} trailing', "not JSON: Extra data"),
    Bad("null", "a record must be a JSON object, got null"),
    Bad("[1]", "a record must be a JSON object, got a list"),
    Bad('"text"', "a record must be a JSON object, got a string"),
    Bad(f"{{{FIELDS}}}", '"id" is missing'),
    Bad(f'{{"id":7,{FIELDS}}}', '"id" must be a string, got an integer'),
    Bad(f'{{"id":null,{FIELDS}}}', '"id" must be a string, got null'),
    Bad(f'{{"id":"",{FIELDS}}}', '"id" must be a string that is not empty'),
    Bad(f'{{"id":"first",{FIELDS}}}', 'duplicate id "first"', ("ae-run",)),
    Bad(
        '{"id":"x","output":"o","rawLines":[],"timing":{"start":1,"end":2}}',
        '"input" is missing',
        ("ae-run", "ae-extract"),
    ),
    Bad(f'{{"id":"x",{FIELDS},"input":[]}}', '"input" must be a list that is not empty'),
    Bad(f'{{"id":"x",{FIELDS},"input":3}}', '"input" must be a string or a list'),
    Bad(f'{{"id":"x",{FIELDS},"input":{{"a":1}}}}', '"input" must be a string or a list'),
    Bad(f'{{"id":"x",{FIELDS},"input":["a",1]}}', '"input[1]" must be a string, got an integer'),
    Bad(f'{{"id":"x",{FIELDS},"metadata":"m"}}', '"metadata" must be an object', ("ae-run", "ae-extract", "ae-grade")),
    Bad(f'{{"id":"x",{FIELDS},"timeout":-5}}', '"timeout" must be a number', ("ae-run",)),
    Bad(f'{{"id":"x",{FIELDS},"timeout":"5s"}}', '"timeout" must be a number', ("ae-run",)),
    Bad(f'{{"id":"x",{FIELDS},"rawLines":"o"}}', '"rawLines" must be a list, got a string', ("ae-extract",)),
    Bad('{"id":"x","input":"q","timing":{"start":1,"end":2}}', '"rawLines" is missing', ("ae-extract",)),
    Bad('{"id":"x","input":"q"}', '"output" is missing', ("ae-grade", "ae-format")),
    Bad(b'{"id":"x","z":"a\0b",' + FIELDS.encode() + b"}", "not JSON: Invalid control character"),
    Bad(b"\0\0\0\0", "not JSON"),
    Bad(b'{"id":"x","z":"\xff",' + FIELDS.encode() + b"}", "not UTF-8: byte 0xff at position"),
    Bad(b'{"id":"x","z":"\xed\xa0\x80",' + FIELDS.encode() + b"}", "not UTF-8: byte 0xed"),
    Bad(f'{{"id":"x","z":"half \\ud83d",{FIELDS}}}', "half of a surrogate pair"),
    Bad(f'{{"id":"x","trajectory":[{{"type":"message","content":"\\ud83d"}}],{FIELDS}}}', "half of a surrogate pair"),
    Bad(f'{{"id":"x","z":{"[" * 10_000}{"]" * 10_000},{FIELDS}}}', "nested too deeply"),
    Bad(f'{{"id":"x","z":1e400,{FIELDS}}}', "out of range"),
    Bad(f'{{"id":"x","z":NaN,{FIELDS}}}', "not JSON"),
]

ARGUMENTS = {
    "ae-run": ["--simple", "echo {}"],
    "ae-extract": ["-s", "text"],
    "ae-grade": ["-g", "ae-grader-hint"],
    "ae-format": ["-f", "jsonl"],
}
every_stage = pytest.mark.parametrize("tool", list(ARGUMENTS))


def good(name: str) -> str:
    return f'{{"id":"{name}",{FIELDS}}}'


def as_bytes(line: str | bytes) -> bytes:
    return line if isinstance(line, bytes) else line.encode()


# --- lines --------------------------------------------------------------------------------------


@every_stage
def test_every_bad_line_is_named_and_costs_only_itself(tool: str, tmp_path: Path) -> None:
    bad = [case for case in BAD if tool in case.tools]
    lines = [as_bytes(good("first"))]
    for number, case in enumerate(bad):
        lines += [as_bytes(case.line), as_bytes(good(f"g{number}"))]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    few = run(tool, "in.jsonl", *ARGUMENTS[tool], cwd=tmp_path).expect(1)
    assert few.ids == ["first", *(f"g{number}" for number in range(len(bad)))], few
    done = run(tool, "in.jsonl", *ARGUMENTS[tool], "--debug", cwd=tmp_path).expect(1)
    named = [message for message in done.messages if message.startswith(f"{tool}: in.jsonl:")]
    assert len(named) == len(bad) and few.messages[:10] == named[:10] and len(few.messages) == 11, done
    for number, (message, case) in enumerate(zip(named, bad, strict=True)):
        assert message.startswith(f"{tool}: in.jsonl:{number * 2 + 2}: "), message
        assert case.says in message, f"{case.says!r} is not in: {message}"
        assert len(message) < 250, message
        assert " at at " not in message, message


def test_broken_json_in_line_3_of_5(tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", good("1"), good("2"), "{broken", good("4"), good("5"))
    for tool, args in ARGUMENTS.items():
        done = run(tool, "in.jsonl", *args, cwd=tmp_path).expect(1)
        assert done.says("in.jsonl:3:") and done.ids == ["1", "2", "4", "5"], done


@every_stage
def test_strict_stops_at_the_first(tool: str, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", good("1"), "{broken", good("3"), "{broken again")
    done = run(tool, "in.jsonl", *ARGUMENTS[tool], "--strict", cwd=tmp_path).expect(1)
    assert done.ids == ([] if tool == "ae-run" else ["1"]), done
    assert done.messages[0].startswith(f"{tool}: in.jsonl:2: ") and "in.jsonl:4" not in done.stderr, done
    assert len(done.messages) <= 2 and all(line.startswith(f"{tool}: ") for line in done.messages), done


@every_stage
def test_bom_crlf_blank_lines_and_no_newline_at_the_end(tool: str, tmp_path: Path) -> None:
    text = b"\xef\xbb\xbf" + b"\r\n".join(
        [b"", *(as_bytes(line) for line in (good("a"), " \t", good("b"), "", good("c")))]
    )
    (tmp_path / "in.jsonl").write_bytes(text.replace(b"\r\n", b"", 1))
    from_file = run(tool, "in.jsonl", *ARGUMENTS[tool], cwd=tmp_path).expect(0, stderr="")
    assert from_file.ids == ["a", "b", "c"], from_file
    assert b"\r" not in from_file.out.replace(b"\\r", b""), from_file
    piped = run(tool, *ARGUMENTS[tool], stdin=text, cwd=tmp_path).expect(0, stderr="")
    assert piped.ids == ["a", "b", "c"], "a blank first line before the BOM's line end"


def test_line_numbers_count_blank_lines(tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", "", good("a"), "", "", "{broken")
    assert run("ae-format", "in.jsonl", cwd=tmp_path).expect(1).says("in.jsonl:5:")


@every_stage
def test_only_blank_lines(tool: str, tmp_path: Path) -> None:
    said = "ae-run: stdin: contains no prompts; nothing was run\n" if tool == "ae-run" else ""
    assert run(tool, *ARGUMENTS[tool], stdin="\n \n\t\r\n\n", cwd=tmp_path).expect(0, stderr=said).out == b""


@every_stage
def test_numbers_keep_their_digits(tool: str, tmp_path: Path) -> None:
    line = f'{{"id":"x","z":{NUMBER},"f":-{NUMBER},{FIELDS}}}\n'
    done = run(tool, *ARGUMENTS[tool], stdin=line, cwd=tmp_path).expect(0, stderr="")
    assert f'"z":{NUMBER},"f":-{NUMBER}' in done.stdout, done


def test_fifty_megabytes_in_one_line(tmp_path: Path) -> None:
    """A good one passes, a broken one is refused with a short message, and the other records are written."""
    big = "x" * 50_000_000
    with (tmp_path / "in.jsonl").open("w") as file:
        file.write(good("a") + "\n" + good("big").replace('"output":"o"', f'"output":"{big}"') + "\n")
        file.write('{"id":"broken","output":"' + big + "\n" + good("z") + "\n")
    done = run("ae-format", "in.jsonl", "-o", "out.jsonl", cwd=tmp_path).expect(1)
    assert len(done.says("in.jsonl:3: not JSON")) < 200, done
    written = read(tmp_path / "out.jsonl")
    assert [record["id"] for record in written] == ["a", "big", "z"]
    assert len(written[1]["output"]) == len(big)


def test_refused_lines_of_a_grader_are_answered(tmp_path: Path) -> None:
    bad = [case for case in BAD if case.says.startswith(("not ", "a record", "half", "nested", "out of"))]
    lines = b"".join(as_bytes(good("a")) + b"\n" + as_bytes(case.line) + b"\n" for case in bad)
    done = run("ae-grader-hint", stdin=lines, cwd=tmp_path).expect(1, stderr="")
    assert ["error" in answer for answer in done.records] == [False, True] * len(bad), done
    for answer, case in zip(done.records[1::2], bad, strict=True):
        assert case.says in answer["error"], done


# --- prompts that no process can be given -------------------------------------------------------


def schema(tmp_path: Path, **fields: object) -> Path:
    """A minimal adapter schema."""
    base: Record = {"version": 1, "name": "mine", "command": ["cat"], "sessionMode": "iterative"}
    base |= {"prompt": {"stdin": True}, "outputMode": "text"}
    merged = {key: value for key, value in {**base, **fields}.items() if value is not None}
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(merged))
    return path


def test_nul_in_a_prompt_fails_alone(tmp_path: Path) -> None:
    prompts = jsonl({"id": "a", "input": "one"}, {"id": "nul", "input": "t\0wo"}, {"id": "c", "input": "three"})
    for agent in (["--simple", "echo {}"], ["--shell", 'echo "$PROMPT"']):
        done = run("ae-run", *agent, stdin=prompts, cwd=tmp_path).expect(0)
        assert done.ids == ["a", "nul", "c"], done
        assert [record["rawLines"] for record in done.records] == [["one"], [], ["three"]], done
        assert "NUL" in done.records[1]["errors"][0], done
        run("ae-run", *agent, "-e", stdin=prompts, cwd=tmp_path).expect(1)


def test_nul_in_a_prompt_on_stdin_arrives(tmp_path: Path) -> None:
    done = run("ae-run", "-s", schema(tmp_path), stdin=jsonl({"id": "nul", "input": "t\0wo"}), cwd=tmp_path).expect(0)
    assert done.records[0]["rawLines"] == ["t\0wo"], done


def test_prompt_too_long_for_an_argument_fails_alone_with_advice(tmp_path: Path) -> None:
    long = "é" * 70_000  # 140 000 bytes: it is bytes that count
    prompts = jsonl({"id": "a", "input": "short"}, {"id": "long", "input": long}, {"id": "c", "input": "short"})
    done = run("ae-run", "--simple", "echo {}", stdin=prompts, cwd=tmp_path).expect(0)
    assert [record["rawLines"] for record in done.records] == [["short"], [], ["short"]], done
    (error,) = done.records[1]["errors"]
    assert "too long" in error and "prompt.stdin" in error, error
    fitting = run("ae-run", "-s", schema(tmp_path, command=["wc", "-c"]), stdin=prompts, cwd=tmp_path).expect(0)
    assert fitting.records[1]["rawLines"] == [str(len(long.encode()) + 1)], fitting
    assert not any("errors" in record for record in fitting.records), fitting


def test_prompts_that_look_like_options_and_paths(tmp_path: Path) -> None:
    odd = ["--help", "-n", "", " ", "{}", "*", "~", "a\nb", "'\"\\", "\u202e", "%s", "\x1b[31m"]
    prompts = jsonl(*({"id": f"{number}", "input": text} for number, text in enumerate(odd)))
    done = run("ae-run", "--simple", "printf %s {}", stdin=prompts, cwd=tmp_path).expect(0)
    assert ["\n".join(record["rawLines"]) for record in done.records] == odd, done


def test_ids_that_are_no_file_names(tmp_path: Path) -> None:
    ids = ["../../escape", "/etc/passwd", ".", "..", "a\0b", "a\nb", "a b", "x" * 5000, "é/ü", "-rf", "A", "a"]
    prompts = jsonl(*({"id": name, "input": "made"} for name in ids))
    done = run("ae-run", "--simple", "touch {}", "--workspace-dir", "ws", stdin=prompts, cwd=tmp_path).expect(0)
    assert done.ids == ids and not any("errors" in record for record in done.records), done
    made = [path for path in (tmp_path / "ws").iterdir() if path.name.startswith("prompt-")]
    assert len(made) == len(ids), "each has a directory of its own"
    assert all([path.name for path in place.iterdir()] == ["made"] for place in made), "and its agent worked there"
    assert [path.name for path in tmp_path.iterdir()] == ["ws"]


def test_directory_whose_name_is_not_utf8(tmp_path: Path) -> None:
    prompts = jsonl({"id": "a", "input": "x"}, {"id": "b", "input": "y"})
    line = "d=$(printf 'dir\\377'); mkdir \"$d\" && cd \"$d\" && exec ae-run --simple 'echo {}'"
    done = run("/bin/sh", "-c", line, stdin=prompts, cwd=tmp_path).expect(0, stderr="")
    assert [record["rawLines"] for record in done.records] == [["x"], ["y"]], done


@pytest.mark.parametrize("timeout", [3e9, 1e15, 1e300])
def test_timeout_of_more_than_a_month_is_no_timeout(timeout: float, tmp_path: Path) -> None:
    """A way to say "no limit": no system call may refuse the number."""
    prompts = jsonl({"id": "a", "input": "x"}, {"id": "b", "input": "y", "timeout": timeout}, {"id": "c", "input": "z"})
    done = run("ae-run", "--simple", "echo {}", stdin=prompts, cwd=tmp_path).expect(0, stderr="")
    assert [record["rawLines"] for record in done.records] == [["x"], ["y"], ["z"]], done


def test_timeout_option_of_more_than_a_month(tmp_path: Path) -> None:
    prompts = jsonl({"id": "a", "input": "x"})
    run("ae-run", "--simple", "echo {}", "-t", "3000000000", stdin=prompts, cwd=tmp_path).expect(0, stderr="")
    run("ae-grade", "-g", "ae-grader-hint", "-t", "3000000000", stdin=jsonl(good("a")), cwd=tmp_path).expect(
        0, stderr=""
    )


# --- records that a grader cannot grade ---------------------------------------------------------


@pytest.mark.parametrize("args", [[], ["--regex"], ["--exact", "-i"]], ids=" ".join)
def test_odd_record_costs_the_hint_grader_only_itself(args: list[str], tmp_path: Path) -> None:
    odd: list[Record] = [
        {"hint": 3},
        {"hint": ["x"]},
        {"hint": {"a": 1}},
        {"hint": True},
        {"output": 7},
        {"output": ["x"]},
        {"output": None},
    ]
    records = [{"id": "a", "output": "3 x", "hint": "3", **fields} for fields in ({}, *odd, {})]
    done = run("ae-grader-hint", *args, stdin=jsonl(*records), cwd=tmp_path)
    assert len(done.records) == len(records) and b"internal" not in done.err, done
    assert all("pass" in answer or "error" in answer for answer in done.records), done
    assert done.records[0] == done.records[-1] and "pass" in done.records[0], done


def test_odd_record_costs_the_git_grader_only_itself(tmp_path: Path) -> None:
    odd: list[Record] = [{"cwd": 5}, {"cwd": "a\0b"}, {"cwd": ["x"]}, {"cwd": ""}, {"cwd": None}, {"cwd": "/nowhere"}]
    done = run("ae-grader-git", stdin=jsonl(*({"id": "a", **fields} for fields in odd)), cwd=tmp_path)
    assert len(done.records) == len(odd) and done.err == b"", done
    assert not any(answer.get("pass") for answer in done.records), done


def test_hint_that_is_no_regular_expression(tmp_path: Path) -> None:
    records = jsonl({"id": "a", "output": "o", "hint": "("}, {"id": "b", "output": "o", "hint": "o"})
    done = run("ae-grade", "-g", "ae-grader-hint --regex", stdin=records, cwd=tmp_path).expect(1)
    done.says("a: grader hint: ", "regular expression")
    assert ["graderError" in record for record in done.records] == [True, False], done


# --- bad lines of a prompt file are found before money is spent ---------------------------------


def test_bad_lines_of_a_file_are_reported_before_any_agent_starts(tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", good("a"), "{broken", good("c"), good("a"), '{"id":"x"}')
    agent = script(tmp_path / "agent", "wc -l < err.log")  # how many messages were there when it started
    done = run("/bin/sh", "-c", f"ae-run in.jsonl --simple '{agent} {{}}' 2>err.log", cwd=tmp_path).expect(1)
    assert [(record["id"], record["rawLines"]) for record in done.records] == [("a", ["3"]), ("c", ["3"])], done
    messages = (tmp_path / "err.log").read_text().splitlines()
    assert [message.split(": ")[1] for message in messages] == ["in.jsonl:2", "in.jsonl:4", "in.jsonl:5"]


def test_redirected_file_is_looked_through_too(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", good("a"), good("b"), "{broken")
    done = run("ae-run", "--shell", "touch started", "--strict", stdin=source, cwd=tmp_path).expect(1)
    assert done.messages[0].startswith("ae-run: stdin:3: ") and not (tmp_path / "started").exists(), done


def test_strict_runs_nothing_when_a_line_of_the_file_is_bad(tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", good("a"), good("b"), good("c"), "{broken")
    done = run("ae-run", "in.jsonl", "--strict", "--shell", "touch started", cwd=tmp_path).expect(1)
    assert done.out == b"" and not (tmp_path / "started").exists(), done


def test_bad_line_of_a_pipe_does_not_stop_the_others(tmp_path: Path) -> None:
    done = run("ae-run", "--simple", "echo {}", stdin=jsonl(good("a"), "{broken", good("c")), cwd=tmp_path).expect(1)
    assert done.ids == ["a", "c"] and done.says("stdin:2:"), done


# --- adapter schemas ----------------------------------------------------------------------------

EVENT = {"match": {"path": "$.type", "value": "x"}, "emitAs": "message", "extract": {"content": "$.text"}}


def event(**fields: object) -> list[Record]:
    return [{**EVENT, **fields}]


@pytest.mark.parametrize(
    "fields, says",
    [
        ({"version": 2}, "version must be 1; got 2"),
        ({"version": "1"}, "version"),
        ({"name": None}, "name is missing"),
        ({"command": None}, "command is missing"),
        ({"command": "cat -n"}, "command must be a list, got a string"),
        ({"command": ["cat", 1]}, "command[1] must be a string"),
        ({"sessionMode": "sometimes"}, "sessionMode must be one of stream, iterative"),
        ({"prompt": None}, "prompt is missing"),
        ({"prompt": {"flag": "-p", "stdin": True}}, "prompt may have flag or stdin, not both"),
        ({"timeout": -1}, "timeout must be a number > 0"),
        ({"timeout": "1m"}, "timeout must be a number"),
        ({"outputMode": "xml"}, "outputMode must be one of"),
        ({"outputEvents": {}}, "outputEvents must be a list"),
        (
            {"outputMode": "jsonpath", "outputEvents": event(emitAs="song")},
            "outputEvents[0].emitAs must be one of thought",
        ),
        ({"outputMode": "jsonpath", "outputEvents": event(match={"path": "$.[", "value": 1})}, 'match.path: "$.["'),
        ({"outputMode": "jsonpath", "outputEvents": event(match={"path": "type", "value": 1})}, "starts with $"),
        ({"outputMode": "jsonpath", "outputEvents": event(extract={"content": "$..["})}, 'extract.content: "$..["'),
        ({"outputMode": "jsonpath", "outputEvents": event(match={"value": 1})}, "match.path is missing"),
        ({"outputMode": "jsonpath", "result": {"matchPath": "$[", "matchValue": "x"}}, 'matchPath: "$["'),
        ({"env": {"A=B": "c"}}, "env.A=B cannot be an environment variable"),
        ({"env": {"A": 1}}, "env.A must be a string"),
        ({"promt": {}}, "promt: no such field; did you mean prompt?"),
        ({"historyTemplate": "hello"}, "historyTemplate must contain {{input}}"),
    ],
)
def test_wrong_schema_names_the_field(fields: Record, says: str, tmp_path: Path) -> None:
    schema(tmp_path, **fields)
    done = run("ae-run", "-s", "schema.json", stdin=jsonl(good("a")), cwd=tmp_path).expect(2)
    done.says("schema.json: ", says)
    assert done.out == b"", done


@pytest.mark.parametrize(
    "content, says",
    [
        (b"{\n not json", ":2:2: not JSON"),
        (b"", ": is empty"),
        (b"[]", ": an adapter schema must be an object"),
        (b"\xff\xfe{}", ":1:1: not UTF-8"),
    ],
)
def test_schema_that_is_no_object(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_bytes(content)
    run("ae-extract", "-s", "schema.json", stdin=jsonl(good("a")), cwd=tmp_path).expect(2).says(f"schema.json{says}")


@pytest.mark.parametrize(
    "name, says",
    [
        ("nope", 'named "nope"'),
        ("nope.json", "No such file"),
        ("./nope", "No such file"),
        ("./", "directory"),
        ("", "schema"),
    ],
)
def test_schema_that_is_not_there(name: str, says: str, tmp_path: Path) -> None:
    for tool in ("ae-run", "ae-extract"):
        run(tool, "-s", name, stdin=jsonl(good("a")), cwd=tmp_path).expect(2).says(says)


@pytest.mark.parametrize(
    "command, says",
    [
        (["ae-no-such-agent"], "ae-no-such-agent: command not found"),
        (["./missing"], "./missing: no such command"),
        (["./data"], "./data: not executable"),
        (["."], ".: "),
        ([], "command"),
        ([""], "command"),
    ],
)
def test_schema_whose_command_cannot_run(command: list[str], says: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("#!/bin/sh\necho hello\n")
    schema(tmp_path, command=command)
    done = run("ae-run", "-s", "schema.json", stdin=jsonl(good("a")), cwd=tmp_path).expect(2)
    done.says(says)
    assert done.out == b"", done


def test_extract_needs_no_command(tmp_path: Path) -> None:
    """Raw output may come from another machine, on which the agent runs."""
    schema(tmp_path, command=["ae-no-such-agent"])
    assert run("ae-extract", "-s", "schema.json", stdin=jsonl(good("a")), cwd=tmp_path).expect(0).ids == ["a"]


def test_script_without_an_interpreter_line_is_data(tmp_path: Path) -> None:
    """Only an attempt shows that it cannot be started; the record says what to do."""
    agent = tmp_path / "agent"
    agent.write_text("echo hello\n")
    agent.chmod(0o755)
    done = run("ae-run", "--simple", f"{agent} {{}}", stdin=jsonl(good("a")), cwd=tmp_path).expect(0)
    assert "#!" in done.records[0]["errors"][0], done


# --- agents named badly -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, says",
    [
        ([], "name one agent"),
        (["--simple", "echo {}", "--shell", "echo"], "given: --simple and --shell"),
        (["--simple", "echo"], "{}"),
        (["--simple", "{} x"], "{}"),
        (["--simple", ""], "{}"),
        (["--simple", "echo {} | cat"], "--shell"),
        (["--simple", "echo {} > file"], "--shell"),
        (["--simple", "echo {} && true"], "--shell"),
        (["--simple", "echo $(date) {}"], "--shell"),
        (["--simple", "echo '{}"], "quot"),
        (["--simple", "ae-no-such-agent {}"], "ae-no-such-agent: command not found"),
        (["--simple", "echo {}", "-j", "0"], "-j"),
        (["--simple", "echo {}", "-t", "0"], "-t"),
        (["--simple", "echo {}", "-t", "nan"], "-t"),
        (["--simple", "echo {}", "-t", "inf"], "-t"),
        (["--simple", "echo {}", "--shard", "3/2"], "3/2"),
        (["--simple", "echo {}", "--max-output", "many"], "many"),
        (["--simple", "echo {}", "-c", "missing"], "missing: no such directory"),
        (["--simple", "echo {}", "--workspace-template", "."], "--workspace-dir"),
        (["--simple", "echo {}", "--resume"], "-o FILE"),
        (["--simple", "echo {}", "--append"], "-o FILE"),
    ],
)
def test_usage_errors_of_run(args: list[str], says: str, tmp_path: Path) -> None:
    done = run("ae-run", *args, stdin=jsonl(good("a")), cwd=tmp_path).expect(2)
    done.says(says)
    assert done.out == b"" and list(tmp_path.iterdir()) == [], done


# --- what `make fuzz` has found -----------------------------------------------------------------

TRIALS: Record = {"input": "x", "k": 1, "trials": [{"trialNum": 1, "output": "x", "pass": True}]}


@pytest.mark.parametrize(
    ("args", "record", "says"),
    [
        (["ae-format", "-f", "dpo"], TRIALS, '"id" is missing'),
        (["ae-plan"], {"id": [], **TRIALS}, '"id" must be a string, got a list'),
    ],
    ids=["trials without an id", "an id that is a list"],
)
def test_a_record_that_was_an_internal_error(args: list[str], record: Record, says: str) -> None:
    done = run(*args, stdin=jsonl({"id": "good", **TRIALS}, record))
    assert f"{args[0]}: stdin:2: {says}" in done.messages and "internal" not in done.stderr, done


@pytest.mark.parametrize("columns", ["9" * 5000, "²"])
def test_a_width_that_is_no_number_is_ignored(columns: str) -> None:
    for args in (["-f", "table"], ["--help"]):
        run("ae-format", *args, stdin=jsonl({"id": "a", "output": "o"}), env={"COLUMNS": columns}).expect(0, stderr="")
