"""ae-grade with every kind of grader, run as real processes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import PASSES, Done, Record, clean_env, jsonl, meeting, python_script, read, run, script, write
from tests.support.watching import PATIENCE, Running, expect_gone, sleepers, until, with_time_enough

NODE = shutil.which("node")
BUN = shutil.which("bun")
needs_javascript = pytest.mark.skipif(not (NODE or BUN), reason="neither node nor bun is on PATH")
PASSED = {"pass": True, "score": 1.0}


def results(*outputs: str, **fields: Any) -> str:
    """Results 0, 1, 2 … with these outputs."""
    return jsonl(*({"id": str(n), "output": text, **fields} for n, text in enumerate(outputs)))


def many(count: int) -> str:
    return results(*(f"output {n}" for n in range(count)))


def grade(*args: object, stdin: str, cwd: Path, env: dict[str, str] | None = None) -> Done:
    return run("ae-grade", *args, stdin=stdin, cwd=cwd, env=env)


def scores(done: Done) -> dict[str, Record]:
    return {record["id"]: record["score"] for record in done.records if "score" in record}


def failure(record: Record) -> str:
    """Why this record could not be graded; AssertionError when it could be."""
    assert "score" not in record, record
    assert isinstance(record["graderError"], str), record
    return str(record["graderError"])


# --- every kind -----------------------------------------------------------------------------------

# Each passes a record whose output has an even length, and tells its id.
LOOP = """
import json, sys
for line in sys.stdin:
    record = json.loads(line)
    ok = len(record["output"]) % 2 == 0
    print(json.dumps({"pass": ok, "score": float(ok), "reasoning": record["id"]}), flush=True)
"""
FUNCTION = """
def grade(record):
    ok = len(record["output"]) % 2 == 0
    return {"pass": ok, "score": float(ok), "reasoning": record["id"]}
"""
ASYNC = FUNCTION.replace("def grade", "import asyncio\nasync def grade").replace(
    "ok =", "await asyncio.sleep(0)\n    ok ="
)
JAVASCRIPT = """
export const grade = async ({ id, output }) => {
  const ok = output.length % 2 === 0
  return { pass: ok, score: ok ? 1 : 0, reasoning: id }
}
"""
COMMONJS = (
    "exports.grade = (r) => ({pass: r.output.length % 2 === 0, score: r.output.length % 2 ? 0 : 1, reasoning: r.id})\n"
)
JQ = "jq -c --unbuffered '(.output|length % 2) as $odd | {pass: ($odd == 0), score: (1 - $odd), reasoning: .id}'"
KINDS = {
    "executable": ["-g", "./each"],
    "executable on PATH": ["-g", "sh ./each"],
    "stream": ["--stream", "-g", "./loop"],
    "stream of jq": ["--stream", "-g", JQ],
    "python file": ["-g", "function.py"],
    "python function": ["-g", "package.module:judge"],
    "async python": ["-g", "later.py"],
    "executable python": ["-g", "./runs.py"],
}
NEEDS_JAVASCRIPT = {"javascript": ["-g", "module.mjs"], "commonjs": ["-g", "common.cjs"]}
ALL_KINDS = [*KINDS, *(pytest.param(kind, marks=needs_javascript) for kind in NEEDS_JAVASCRIPT)]


@pytest.fixture
def graders(tmp_path: Path) -> Path:
    """A directory with one grader of each kind."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text(FUNCTION.replace("grade", "judge"))
    script(tmp_path / "each", JQ.replace("-c --unbuffered", ""))  # pretty-printed: an answer of several lines
    python_script(tmp_path / "loop", LOOP)
    python_script(tmp_path / "runs.py", LOOP)
    (tmp_path / "function.py").write_text(FUNCTION)
    (tmp_path / "later.py").write_text(ASYNC)
    (tmp_path / "module.mjs").write_text(JAVASCRIPT)
    (tmp_path / "common.cjs").write_text(COMMONJS)
    return tmp_path


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_every_kind_grades(kind: str, graders: Path) -> None:
    """Small records and big ones, in order, three at a time."""
    outputs = ["even", "odd", "é" * 600_000, "x" * 1_200_001, "", "two\nlines\u2028", *("x" * n for n in range(6))]
    args = {**KINDS, **NEEDS_JAVASCRIPT}[kind]
    done = grade(*args, "-j", 3, stdin=results(*outputs), cwd=graders).expect(0, stderr="")
    assert done.ids == [str(n) for n in range(len(outputs))]
    assert [record["output"] for record in done.records] == outputs
    expected = [len(text) % 2 == 0 for text in outputs]
    assert [score["pass"] for score in scores(done).values()] == expected
    assert [score["score"] for score in scores(done).values()] == list(map(float, expected))
    assert [score["reasoning"] for score in scores(done).values()] == done.ids


def test_order_is_kept_when_graders_take_their_time(tmp_path: Path) -> None:
    grader = python_script(
        tmp_path / "slow",
        "import json, random, sys, time\nr = json.load(sys.stdin)\ntime.sleep(random.random() / 10)\n"
        "print(json.dumps({'pass': True, 'score': 1, 'reasoning': r['id']}))",
    )
    done = grade("-g", grader, "-j", 8, stdin=many(40), cwd=tmp_path).expect(0)
    assert done.ids == [score["reasoning"] for score in scores(done).values()] == [str(n) for n in range(40)]


def test_several_at_once_is_real(tmp_path: Path) -> None:
    script(tmp_path / "slow", f"{meeting(8, tmp_path)}; {PASSES}")
    grade("-g", "./slow", "-j", 8, "-t", "20s", stdin=many(8), cwd=tmp_path).expect(0, stderr="")


def test_slow_functions_are_shared_evenly(tmp_path: Path) -> None:
    """For each of its records a process waits for that of the other: one may be late on a busy machine."""
    (tmp_path / "slow.py").write_text(
        "import os, time\nnumber = 0\n"
        "def grade(record):\n    global number\n    number += 1\n"
        "    open(f'here-{os.getpid()}-{number}', 'w').close()\n"
        "    while sum(name.endswith(f'-{number}') for name in os.listdir()) < 2: time.sleep(0.02)\n"
        "    time.sleep(0.3)\n"
        "    return {'pass': True, 'score': 1.0, 'reasoning': str(os.getpid())}\n"
    )
    done = grade("-g", "slow.py", "-j", "2", stdin=many(6), cwd=tmp_path).expect(0)
    hosts = [score["reasoning"] for score in scores(done).values()]
    assert sorted(map(hosts.count, set(hosts))) == [3, 3]


def test_many_graders_need_many_descriptors(tmp_path: Path) -> None:
    script(tmp_path / "slow", f"sleep 0.5; {PASSES}")
    command = "ulimit -S -n 128; exec ae-grade -g ./slow -j 60"
    done = run("/bin/sh", "-c", command, stdin=many(60), cwd=tmp_path).expect(0, stderr="")
    assert len(done.records) == 60


@pytest.mark.parametrize("args", [["-g", "./each"], ["--stream", "-g", "./loop"], ["-g", "function.py"]])
def test_each_record_is_out_before_the_next_is_in(args: list[str], graders: Path) -> None:
    with Running("ae-grade", *args, cwd=graders) as tool:
        for name in ("one", "two"):
            tool.feed({"id": name, "output": "even"})
            assert tool.record()["score"]["reasoning"] == name
        tool.end().expect(0, stderr="")


# --- what a grader sees and what comes of it --------------------------------------------------------


def test_what_a_grader_sees(tmp_path: Path) -> None:
    script(tmp_path / "tee", f"tee -a seen | {PASSES}; echo >> seen")
    record = {
        "zebra": 10**25,
        "id": "a",
        "score": PASSED,
        "scores": {"x": PASSED},
        "input": ["i", "j"],
        "output": "o",
        "expected_sources": ["s"],
        "trajectory": [{"type": "message", "content": "c", "own": 1}],
        "hint": "h",
        "metadata": {"k": 1},
        "cwd": "/tmp",
        "timing": {"start": 1, "end": 2},
        "toolErrors": False,
        "errors": ["e"],
        "outcome": {"old": 1},
        "graderError": True,
    }
    done = grade("-g", "./tee", "--grade-failed", stdin=jsonl(record), cwd=tmp_path).expect(0)
    seen = json.loads((tmp_path / "seen").read_text())
    dropped = ("score", "scores", "outcome", "graderError")
    assert seen == {name: value for name, value in record.items() if name not in dropped}
    graded = done.records[0]
    assert len(graded["metadata"].pop("graderDigests")["tee"]) == 16
    assert {name: graded[name] for name in seen} == seen
    assert graded["score"] == PASSED
    assert "graderError" not in graded


def test_the_outcome_of_a_grader_is_kept(tmp_path: Path) -> None:
    answer = '{"pass":false,"score":0.25,"reasoning":"r","outcome":{"n":{"x":1}},"own":[1]}'
    script(tmp_path / "g", f"cat >/dev/null; echo '{answer}'")
    record = grade("-g", "./g", stdin=many(1), cwd=tmp_path).expect(0).records[0]
    assert record["score"] == json.loads(answer)
    assert record["outcome"] == {"n": {"x": 1}}
    assert "scores" not in record


def test_several_graders(graders: Path) -> None:
    script(graders / "half", 'cat >/dev/null; echo \'{"pass":true,"score":0.5,"reasoning":"half"}\'')
    args = ["-g", "function.py", "-g", "part=./half", "-g", "ae-grader-hint"]
    done = grade(*args, stdin=results("even", "odd", hint="e"), cwd=graders).expect(0, stderr="")
    even, odd = done.records
    assert list(even["scores"]) == list(odd["scores"]) == ["function", "part", "hint"]
    assert even["score"]["pass"] is True
    assert even["score"]["score"] == pytest.approx((1 + 0.5 + 1) / 3)
    assert odd["score"]["pass"] is False
    assert odd["score"]["score"] == pytest.approx(0.5 / 3)
    assert odd["scores"]["part"] == {"pass": True, "score": 0.5, "reasoning": "half"}
    assert odd["scores"]["function"]["pass"] is False


def test_a_second_pass_adds_to_the_scores_of_the_first(graders: Path) -> None:
    script(graders / "half", 'cat >/dev/null; echo \'{"pass":true,"score":0.5}\'')
    first = grade("-g", "a=function.py", "-g", "b=./half", stdin=results("even"), cwd=graders).expect(0)
    second = grade("-g", "c=./half", stdin=first.stdout, cwd=graders).expect(0).records[0]
    assert {name: score["score"] for name, score in second["scores"].items()} == {"a": 1.0, "b": 0.5, "c": 0.5}
    assert second["score"]["score"] == pytest.approx(2 / 3)
    again = grade("-g", "a=./half", stdin=first.stdout, cwd=graders).expect(0).records[0]
    assert {name: score["score"] for name, score in again["scores"].items()} == {"a": 0.5, "b": 0.5}


def test_an_error_of_one_grader_leaves_the_others_their_results(graders: Path) -> None:
    script(graders / "broken", "exit 9")
    done = grade("-g", "function.py", "-g", "./broken", stdin=results("even"), cwd=graders).expect(1)
    record = done.records[0]
    assert record["scores"]["function"]["pass"] is True
    assert list(record["scores"]) == ["function"] and "score" not in record
    assert record["graderError"] == "broken: exited with code 9"
    other = grade("-g", "third=function.py", stdin=done.stdout, cwd=graders).expect(0).records[0]
    assert "score" not in other and other["graderError"] == "broken: exited with code 9", "its verdict is still missing"
    done.says("0", "broken", "exited with code 9")
    mended = script(graders / "broken", PASSES)
    after = grade("-g", f"broken={mended}", stdin=done.stdout, cwd=graders).expect(0).records[0]
    assert after["score"] == {**after["score"], "pass": True, "score": 1.0}
    assert "graderError" not in after


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "grader"),
        (["-g", ""], "grader"),
        (["-g", "./each", "-g", "sub/each"], '"each"'),
        (["-g", "x=./each", "-g", "x=function.py"], '"x"'),
        (["-g", "./nowhere"], "nowhere"),
        (["-g", "no-such-grader-anywhere"], "no-such-grader-anywhere"),
        (["-g", "./plain.txt"], "chmod"),
        (["-g", "nowhere.py"], "nowhere.py"),
        (["-g", "nowhere.mjs"], "nowhere.mjs"),
        (["-g", "no.such.package:grade"], "no.such.package"),
        (["-g", "package.module:nothing"], "nothing"),
        (["-g", "empty.py"], "grade"),
        (["-g", "syntax.py"], "syntax.py"),
        (["-g", "./each 'open"], "quot"),
    ],
)
def test_graders_that_cannot_be(args: list[str], message: str, graders: Path) -> None:
    (graders / "sub").mkdir()
    script(graders / "sub" / "each", PASSES)
    for name, text in {"plain.txt": "x", "empty.py": "", "syntax.py": "def grade(:\n"}.items():
        (graders / name).write_text(text)
    write(graders / "out", {"id": "kept"})
    grade(*args, "-o", "out", stdin=many(1), cwd=graders).expect(2).says(message)
    assert [record["id"] for record in read(graders / "out")] == ["kept"]


def test_a_grader_with_arguments(tmp_path: Path) -> None:
    python_script(
        tmp_path / "args",
        "import json, sys\nsys.stdin.read()\narguments = '|'.join(sys.argv[1:])\n"
        "print(json.dumps({'pass': True, 'score': 1, 'reasoning': arguments}))",
    )
    done = grade("-g", "n=./args --least 3 'two words' \"a'b\" $HOME", stdin=many(1), cwd=tmp_path).expect(0)
    assert done.records[0]["scores"]["n"]["reasoning"] == "--least|3|two words|a'b|$HOME"


def test_a_plug_in_grader_is_an_executable_like_any_other(tmp_path: Path) -> None:
    """Only the graders that come with the suite are streamed unasked, whatever another one is called."""
    script(tmp_path / "ae-grader-mine", PASSES)
    path = {"PATH": os.pathsep.join([str(tmp_path), clean_env(tmp_path)["PATH"]])}
    args = ("-g", "ae-grader-mine", "-g", "ae-grader-hint", "-t", 20_000)
    done = grade(*args, stdin=results("even", "odd", hint="e"), cwd=tmp_path, env=path).expect(0, stderr="")
    assert [sorted(record["scores"]) for record in done.records] == [["hint", "mine"]] * 2
    assert [record["scores"]["mine"] for record in done.records] == [PASSED, PASSED]
    python_script(tmp_path / "ae-grader-mine", f"open('starts', 'a').write('x')\n{LOOP}")
    grade("-g", "ae-grader-mine", "--stream", stdin=many(20), cwd=tmp_path, env=path).expect(0, stderr="")
    assert (tmp_path / "starts").read_text() == "x"


def test_a_path_with_spaces(tmp_path: Path) -> None:
    script(tmp_path / "my grader", PASSES)
    (tmp_path / "my grader.py").write_text(FUNCTION)
    grade("-g", "./my grader", "-g", "py=my grader.py", stdin=many(1), cwd=tmp_path).expect(0, stderr="")


def test_arguments_that_a_hosted_grader_would_never_see_are_refused(graders: Path) -> None:
    grade("-g", "function.py --strictly", stdin=many(1), cwd=graders).expect(2).says("function.py")


# --- Python and JavaScript ------------------------------------------------------------------------


def test_a_python_grader_may_print(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(
        "import os, subprocess, sys\nprint('loading')\nos.write(1, b'raw\\n')\n"
        "def grade(record):\n"
        "    print('grading', flush=True)\n    subprocess.run(['echo', 'a child'])\n    sys.__stdout__.write('x\\n')\n"
        "    return {'pass': True, 'score': 1.0}\n"
    )
    done = grade("-g", "noisy.py", stdin=many(3), cwd=tmp_path).expect(0)
    assert list(scores(done).values()) == [PASSED] * 3


CHILDREN = {
    "child.py": (
        "import subprocess\ndef grade(record):\n    subprocess.run('cat; echo noise', shell=True)\n"
        "    return {'pass': True, 'score': 1.0, 'reasoning': record['id']}\n"
    ),
    "child.mjs": (
        "import { execSync } from 'node:child_process'\n"
        "export const grade = (record) => {\n  execSync('cat; echo noise', { stdio: 'inherit' })\n"
        "  return { pass: true, score: 1.0, reasoning: record.id }\n}\n"
    ),
}


@pytest.mark.parametrize("name", ["child.py", pytest.param("child.mjs", marks=needs_javascript)])
def test_a_grader_may_start_children_that_read_and_print(name: str, tmp_path: Path) -> None:
    """A test suite, ssh, ffmpeg: they neither eat the next records nor speak for the grader."""
    (tmp_path / name).write_text(CHILDREN[name])
    done = grade("-g", name, "-t", 3000, stdin=many(3), cwd=tmp_path).expect(0)
    assert [score["reasoning"] for score in scores(done).values()] == ["0", "1", "2"]


def test_a_python_grader_finds_its_neighbours_and_keeps_its_state(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "neighbour.py").write_text("STEP = 0.125\n")
    (tmp_path / "sub" / "count.py").write_text(
        "import dataclasses\nfrom neighbour import STEP\n@dataclasses.dataclass\nclass State:\n    n: int = 0\n"
        "state = State()\ndef grade(r):\n    state.n += 1\n    return {'pass': True, 'score': state.n * STEP}\n"
    )
    done = grade("-g", "sub/count.py", stdin=many(4), cwd=tmp_path).expect(0)
    assert [score["score"] for score in scores(done).values()] == [0.125, 0.25, 0.375, 0.5]


PYTHON_TROUBLES = {
    "raise ValueError('two\\nlines')": "ValueError: two lines (trouble.py:",
    "raise SystemExit(3)": "SystemExit: 3",
    "return None": "not a grader result",
    "return {'pass': True, 'score': 7}": '"score"',
    "return {'pass': True, 'score': float('nan')}": '"score"',
    "return grade(record)": "RecursionError",
    "import os; os._exit(5)": "exited with code 5",
    "while True: pass": "timeout",
}


def test_trouble_in_a_python_grader_costs_that_record(tmp_path: Path) -> None:
    cases = "".join(f"    if record['output'] == {trouble!r}:\n        {trouble}\n" for trouble in PYTHON_TROUBLES)
    (tmp_path / "trouble.py").write_text(f"def grade(record):\n{cases}    return {PASSED}\n")
    check_troubles(PYTHON_TROUBLES, "-g", "trouble=trouble.py", "-t", 2500, cwd=tmp_path)


@pytest.mark.parametrize(
    ("first_line", "problem"), [("#!/usr/bin/env python3\n", "it printed nothing"), ("", "not a program")]
)
def test_an_executable_file_with_a_function_grade(first_line: str, problem: str, tmp_path: Path) -> None:
    """It is run as a program, which does not call the function: the message says how to have it called."""
    path = tmp_path / "grader.py"
    path.write_text(f"{first_line}def grade(record):\n    return {PASSED}\n")
    path.chmod(0o755)
    done = grade("-g", "./grader.py", stdin=results("x"), cwd=tmp_path).expect(1)
    assert problem in failure(done.records[0])
    done.says("grader.py is executable and so was run as a program: chmod -x grader.py if you mean its function grade")


def check_troubles(troubles: dict[str, str], *args: object, cwd: Path) -> None:
    """Of records that are fine and records that are trouble in turn, only the latter are lost, each with its reason."""
    outputs = [text for trouble in troubles for text in (trouble, "fine")]
    done = grade(*args, stdin=results(*outputs), cwd=cwd).expect(1)
    assert done.ids == [str(n) for n in range(len(outputs))]
    for record in done.records:
        if record["output"] == "fine":
            assert record["score"] in (PASSED, {**PASSED, "reasoning": record["id"]}), record
            assert "graderError" not in record
        else:
            assert troubles[record["output"]] in failure(record), record
    lost = {record["id"] for record in done.records if record["output"] != "fine"}
    assert sorted(message.split(": ")[1] for message in done.messages) == sorted(lost), done


@needs_javascript
def test_a_javascript_grader_may_print_and_throw(tmp_path: Path) -> None:
    (tmp_path / "noisy.js").write_text(
        "console.log('loading'); process.stdout.write('raw\\n');\n"
        "export default { grade: async (r) => { console.log('grading'); process.stdout.write('y\\n');\n"
        "  if (r.output === 'throw') throw new RangeError('no\\nway'); if (r.output === 'exit') process.exit(4);\n"
        "  if (r.output === 'undefined') return; return { pass: true, score: 1.0 } } }\n"
    )
    (tmp_path / "package.json").write_text('{"type": "module"}')
    given = results("fine", "throw", "fine", "exit", "fine", "undefined", "fine")
    done = grade("-g", "noisy.js", stdin=given, cwd=tmp_path).expect(1)
    assert ["score" in record for record in done.records] == [True, False, True, False, True, False, True]
    assert failure(done.records[1]) == "RangeError: no way (stderr: grading | y)"
    assert "exited with code 4" in failure(done.records[3])
    assert "not a grader result" in failure(done.records[5])


@needs_javascript
@pytest.mark.parametrize(
    ("text", "message"),
    [("export const grade = (", "Unexpected"), ("export const x = 1", "grade"), ("throw new Error('boom')", "boom")],
)
def test_javascript_that_cannot_be_loaded(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.mjs").write_text(text)
    done = grade("-g", "bad.mjs", stdin=many(2), cwd=tmp_path).expect(2)
    done.says("bad.mjs", message)
    assert done.out == b""


def test_typescript_needs_bun(tmp_path: Path) -> None:
    (tmp_path / "grader.ts").write_text("export const grade = () => ({ pass: true, score: 1 })")
    done = grade("-g", "grader.ts", stdin=many(1), cwd=tmp_path, env={"PATH": path_without("bun")})
    done.expect(2).says("grader.ts", "bun")


def test_javascript_needs_node_or_bun(tmp_path: Path) -> None:
    (tmp_path / "grader.mjs").write_text(JAVASCRIPT)
    done = grade("-g", "grader.mjs", stdin=many(1), cwd=tmp_path, env={"PATH": path_without("bun", "node")})
    done.expect(2).says("grader.mjs", "node")


def path_without(*programs: str) -> str:
    """A PATH on which these programs are not."""
    places = os.environ.get("PATH", os.defpath).split(os.pathsep)
    kept = [place for place in places if not any(Path(place, program).exists() for program in programs)]
    return os.pathsep.join([str(Path(sys.executable).parent), *kept])


@pytest.mark.skipif(not BUN, reason="bun is not on PATH")
def test_typescript(tmp_path: Path) -> None:
    (tmp_path / "grader.ts").write_text(
        JAVASCRIPT.replace("({ id, output })", "({ id, output }: { id: string, output: string })")
    )
    done = grade("-g", "grader.ts", stdin=results("even", "odd"), cwd=tmp_path).expect(0)
    assert [score["pass"] for score in scores(done).values()] == [True, False]


# --- graders that fail ----------------------------------------------------------------------------

# What a grader does at the record whose output is "trouble", in sh, and a part of the message.
TROUBLES = {
    "exit 3": "exited with code 3",
    "echo why >&2; exit 1": "exited with code 1: why",
    "kill -SEGV $$": "SIGSEGV",
    "true": "printed nothing",
    "echo nonsense": "not JSON: Expecting value at column 1: nonsense",
    'echo \'{"pass":true,"score":1\'': "not JSON",
    "echo '[1]'": "not a grader result",
    'echo \'{"pass":true,"score":7}\'': '"score"',
    'echo \'{"pass":true,"score":-0.1}\'': '"score"',
    "echo '{\"score\":1}'": '"pass" is missing',
    'echo \'{"pass":"yes","score":1}\'': '"pass"',
    'echo \'{"pass":true,"score":1,"reasoning":5}\'': '"reasoning"',
    'echo \'{"pass":true,"score":1,"outcome":[]}\'': '"outcome"',
    'echo \'{"pass":true,"score":1}\'; echo \'{"pass":true,"score":1}\'': "not JSON",
    'echo \'{"pass":true,"score":1}\'; exit 1': "exited with code 1",
    "printf '\\377\\376'": "UTF-8",
}


def test_trouble_costs_the_record_only(tmp_path: Path) -> None:
    cases = "".join(f"""  {shlex.quote(trouble)}) {trouble} ;;\n""" for trouble in TROUBLES)
    script(tmp_path / "g", f"""case $(jq -r .output) in\n{cases}  *) echo '{json.dumps(PASSED)}' ;;\nesac""")
    check_troubles(TROUBLES, "-g", "./g", "-j", 3, cwd=tmp_path)


def test_a_grader_that_takes_too_long(mark: str, tmp_path: Path) -> None:
    line = f"case $(cat) in *trouble*) setsid sleep {mark} & sleep {mark} ;; *) echo '{json.dumps(PASSED)}' ;; esac"
    script(tmp_path / "g", line)

    def check(limit: int) -> None:
        done = grade("-g", "./g", "-t", limit, stdin=results("fine", "trouble", "fine"), cwd=tmp_path).expect(1)
        assert failure(done.records[1]) == f"timeout: not done after {limit} ms"
        assert scores(done)["2"] == PASSED
        expect_gone(mark, 0)

    with_time_enough(check, 2500)


def test_a_grader_that_does_not_read_its_input(tmp_path: Path) -> None:
    script(tmp_path / "g", f"echo '{json.dumps(PASSED)}'")
    done = grade("-g", "./g", "-j", 2, stdin=results("x" * 5_000_000, "y" * 5_000_000), cwd=tmp_path).expect(
        0, stderr=""
    )
    assert list(scores(done).values()) == [PASSED, PASSED]


def test_helpers_of_graders_are_gone(mark: str, tmp_path: Path) -> None:
    script(tmp_path / "g", f"cat >/dev/null; setsid sleep {mark} & sleep {mark} & echo '{json.dumps(PASSED)}'")
    with Running("ae-grade", "-g", "./g", cwd=tmp_path) as tool:
        tool.feed({"id": "a", "output": "o"})
        assert tool.record()["score"] == PASSED
        assert not sleepers(mark)
        tool.end().expect(0, stderr="")


# --- streams that fail ----------------------------------------------------------------------------

STREAM_TROUBLES = {
    "sys.exit(3)": "exited with code 3",
    "os.kill(os.getpid(), 9)": "killed by",
    "time.sleep(60)": "timeout",
    "print('nonsense', flush=True); continue": "not JSON",
    "print('', flush=True); continue": "printed nothing",
    "print(json.dumps({'pass': True, 'score': 7}), flush=True); continue": '"score"',
    "sys.stderr.write('last words\\n'); sys.exit(1)": "last words",
}


@pytest.mark.parametrize("workers", [1, 3])
def test_trouble_in_a_stream_costs_the_record_only(workers: int, mark: str, tmp_path: Path) -> None:
    cases = "".join(f"    if record['output'] == {text!r}:\n        {text}\n" for text in STREAM_TROUBLES)
    python_script(
        tmp_path / "loop",
        "import json, os, subprocess, sys, time\n"
        f"subprocess.Popen(['setsid', 'sleep', '{mark}'])\nopen('starts', 'a').write('x')\n"
        f"for line in sys.stdin:\n    record = json.loads(line)\n{cases}"
        "    print(json.dumps({'pass': True, 'score': 1.0, 'reasoning': record['id']}), flush=True)\n",
    )

    def check(limit: int) -> None:
        (tmp_path / "starts").unlink(missing_ok=True)
        check_troubles(STREAM_TROUBLES, "--stream", "-g", "./loop", "-j", workers, "-t", limit, cwd=tmp_path)
        deadly = sum("continue" not in trouble for trouble in STREAM_TROUBLES)
        assert len((tmp_path / "starts").read_text()) <= workers + deadly
        expect_gone(mark, 0)

    with_time_enough(check, 2500)


def test_a_stream_that_answers_twice_gives_no_record_the_answer_of_another(tmp_path: Path) -> None:
    text = LOOP.replace("print(", "answer = (").replace(", flush=True)", ")")
    python_script(tmp_path / "loop", f"{text}    print(answer, flush=True)\n    print(answer, flush=True)\n")
    done = grade("--stream", "-g", "./loop", stdin=many(40), cwd=tmp_path).expect(1)
    assert done.ids == [str(n) for n in range(40)]
    wrong = [r["id"] for r in done.records if "graderError" not in r and r["score"]["reasoning"] != r["id"]]
    assert not wrong, f"{len(wrong)} records have the score of another: {wrong[:10]}"


def test_a_stream_that_closes_its_stdout_and_stays_is_no_hang(mark: str, tmp_path: Path) -> None:
    python_script(tmp_path / "loop", f"import os\ninput()\nos.close(1)\nos.execlp('sleep', 'sleep', '{mark}')\n")
    done = grade("--stream", "-g", "./loop", "-t", 300_000, stdin=many(1), cwd=tmp_path).expect(1)
    assert failure(done.records[0]) == "closed its stdout without an answer"


def test_a_stream_that_buffers_is_told_to_flush(tmp_path: Path) -> None:
    python_script(tmp_path / "loop", LOOP.replace(", flush=True", ""))
    done = grade("--stream", "-g", "./loop", "-t", 300, stdin=many(2), cwd=tmp_path).expect(1)
    assert "flush" in failure(done.records[0])


def test_an_executable_that_is_no_stream_is_an_error_not_a_hang(tmp_path: Path) -> None:
    script(tmp_path / "g", PASSES)
    done = grade("--stream", "-g", "./g", "-t", 300, stdin=many(2), cwd=tmp_path).expect(1)
    assert [failure(record)[:7] for record in done.records] == ["timeout", "timeout"]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_stream_that_never_answers_is_given_up_after_three_timeouts(workers: int, tmp_path: Path) -> None:
    script(tmp_path / "mute", "echo start >> starts; exec sleep 600")
    (tmp_path / "starts").touch()  # a busy machine may start none of them in time
    given = ["--stream", "-g", "./mute", "-t", 300, "-j", workers]
    done = grade(*given, stdin=many(60), cwd=tmp_path).expect(1)
    failures = [failure(record) for record in done.records]
    assert len(failures) == 60 and failures[-1] == "gave up after 3 timeouts without any answer"
    assert 3 <= sum(text.startswith("timeout") for text in failures) <= 2 + workers
    assert len((tmp_path / "starts").read_text().split()) <= 2 + workers
    assert len(done.messages) <= 2 + workers and "gave up after 3 timeouts" in done.stderr, "not one per record"


def test_a_stream_that_has_answered_is_not_given_up(tmp_path: Path) -> None:
    slow = "    if int(record['id']) % 2: import time; time.sleep(600)\n"
    python_script(tmp_path / "loop", LOOP.replace("    print(", f"{slow}    print("))

    def check(limit: int) -> None:
        done = grade("--stream", "-g", "./loop", "-t", limit, stdin=many(5), cwd=tmp_path).expect(1)
        assert ["score" in record for record in done.records] == [True, False, True, False, True]

    with_time_enough(check, 3000)


# --- what graders print ---------------------------------------------------------------------------


NOISY = "print('thinking about', record['id']); import sys; print('on stderr', file=sys.stderr)"
KINDS_THAT_PRINT = {
    "executable": ("noisy", "import json, sys\nrecord = json.load(sys.stdin)\nprint('on stderr', file=sys.stderr)\n"),
    "stream": (
        "noisy",
        "import json, sys\nfor line in sys.stdin:\n  print('on stderr', file=sys.stderr)\n  ",
    ),
    "python": ("noisy.py", f"def grade(record):\n    {NOISY}\n    return "),
}


@pytest.mark.parametrize("kind", KINDS_THAT_PRINT)
@pytest.mark.parametrize("tool", ["ae-grade", "ae-capture"])
def test_debug_shows_what_graders_print(tool: str, kind: str, tmp_path: Path) -> None:
    name, text = KINDS_THAT_PRINT[kind]
    answer = str(PASSED) if kind == "python" else f"print({json.dumps(PASSED)!r}, flush=True)"
    (python_script if kind != "python" else Path.write_text)(tmp_path / name, text + answer)
    write(tmp_path / "in", {"id": "a", "input": "x", "output": "x"}, {"id": "b", "input": "x", "output": "x"})
    args: list[object] = ["in", "-g", f"./{name}", *(["--stream"] if kind == "stream" else [])]
    args += ["--simple", "echo {}"] if tool == "ae-capture" else []
    heard = run(tool, *args, "--debug", cwd=tmp_path).expect(0).messages
    expected = ["on stderr"] + (["thinking about a", "thinking about b"] if kind == "python" else [])
    for line in expected:
        assert f"{tool}: grader noisy: {line}" in heard, heard
    assert heard.count(f"{tool}: grader noisy: on stderr") == 2
    run(tool, *args, cwd=tmp_path).expect(0, stderr="")


@pytest.mark.parametrize("kind", KINDS_THAT_PRINT)
def test_the_end_of_stderr_is_in_the_error(kind: str, tmp_path: Path) -> None:
    name, text = KINDS_THAT_PRINT[kind]
    answer = "{'pass': 1}" if kind == "python" else "print('[]', flush=True)"
    (python_script if kind != "python" else Path.write_text)(tmp_path / name, text + answer)
    stream = ["--stream"] if kind == "stream" else []
    done = grade("-g", f"./{name}", *stream, stdin=many(3), cwd=tmp_path).expect(1)
    for record in done.records:
        lines = f"thinking about {record['id']} | on stderr" if kind == "python" else "on stderr"
        start, _, shown = failure(record).rpartition(" (stderr: ")
        assert start.startswith("its answer is not a grader result")
        assert sorted(shown.removesuffix(")").split(" | ")) == sorted(lines.split(" | "))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ('{"score": 1}', '"pass" is missing (return {"pass": true or false, "score": 0.0 to 1.0})'),
        ('{"score": 1}', '"pass" is missing (return {"pass": true or false, "score": 0.0 to 1.0})'),
        ('{"pass": true, "score": 85}', '"score": 0.0 to 1.0}: 0.85 instead of 85)'),
        ('{"pass": true, "score": 7.5}', '"score": 0.0 to 1.0}: 0.075 instead of 7.5)'),
        ('{"pass": true, "score": -3}', '"score": 0.0 to 1.0})'),
        ('{"pass": "yes", "score": 1}', '"pass" must be true or false, got a string (return {"pass": true or false'),
        ("0.5", 'must be an object, got a number (return {"pass": true or false, "score": 0.0 to 1.0})'),
    ],
)
def test_a_wrong_answer_is_told_what_to_return(answer: str, says: str, tmp_path: Path) -> None:
    script(tmp_path / "g", f"cat > /dev/null; echo '{answer}'")
    done = grade("-g", "./g", stdin=many(1), cwd=tmp_path).expect(1)
    assert says in failure(done.records[0]) and says in done.stderr


def test_big_answers_and_big_records_of_a_stream_do_not_lock_up(tmp_path: Path) -> None:
    """The grader is still writing while the tool is: both pipes are full."""
    python_script(
        tmp_path / "loop",
        "import json, sys\nfor line in sys.stdin:\n    r = json.loads(line)\n"
        "    print(json.dumps({'pass': True, 'score': 1, 'reasoning': r['output']}), flush=True)\n",
    )
    outputs = [str(n) * 400_000 for n in range(10)]
    done = grade("--stream", "-g", "./loop", stdin=results(*outputs), cwd=tmp_path).expect(0, stderr="")
    assert [score["reasoning"] for score in scores(done).values()] == outputs


# --- the tool -------------------------------------------------------------------------------------


def test_bad_records_are_refused_one_by_one(tmp_path: Path) -> None:
    script(tmp_path / "g", PASSES)
    given = jsonl(
        {"id": "a", "output": "o"},
        "nonsense",
        {"id": "b"},
        {"id": "c", "output": "o", "hint": 5},
        {"id": "d", "output": ""},
    )
    done = grade("-g", "./g", stdin=given, cwd=tmp_path).expect(1)
    assert done.ids == ["a", "d"]
    assert [message.split(": ")[1] for message in done.messages] == ["stdin:2", "stdin:3", "stdin:4"]


def test_strict_stops_at_the_first_grader_error(tmp_path: Path) -> None:
    script(tmp_path / "g", f"case $(cat) in *trouble*) exit 3 ;; esac; echo x >> ran; echo '{json.dumps(PASSED)}'")
    done = grade("-g", "./g", "--strict", stdin=results("ok", "trouble", "ok", "ok"), cwd=tmp_path).expect(1)
    assert done.ids == ["0", "1"]
    assert (tmp_path / "ran").read_text() == "x\n"


def test_a_failed_record_is_no_failure_of_the_tool(tmp_path: Path) -> None:
    script(tmp_path / "g", 'cat >/dev/null; echo \'{"pass":false,"score":0}\'')
    grade("-g", "./g", stdin=many(2), cwd=tmp_path).expect(0, stderr="")


def test_resume_with_ids_that_occur_twice(tmp_path: Path) -> None:
    """Two runs in one file: of each id as many are graded as there are, in order."""
    script(tmp_path / "g", 'cat > /dev/null; echo x >> ran; echo \'{"pass": true, "score": 1}\'')
    records = [{"id": name, "output": str(n)} for n, name in enumerate("abcabdcab")]
    for done in range(len(records) + 1):
        write(tmp_path / "out", *records[:done])
        (tmp_path / "ran").write_text("")
        again = grade("-g", "./g", "-o", "out", "--resume", stdin=jsonl(*records), cwd=tmp_path).expect(0)
        kept = f"{done} kept, " + ("nothing to do" if done == len(records) else f"{len(records) - done} new")
        assert bool(again.stderr) == bool(done) and (not done or kept in again.stderr), again
        assert [record["output"] for record in read(tmp_path / "out")] == [str(n) for n in range(len(records))]
        assert len((tmp_path / "ran").read_text().split()) == len(records) - done


@pytest.mark.parametrize("how", ["Ctrl-C", "forged"])
def test_what_is_graded_again_takes_the_place_of_its_record_although_the_run_does_not_end_well(
    how: str, tmp_path: Path
) -> None:
    """Stopped by a signal, or with a line of another program between its own: no id is there twice."""
    ends = {"Ctrl-C": "kill -INT $PPID; exec sleep 60", "forged": 'echo \'{"id":"forged"}\' >> out'}[how]
    script(tmp_path / "g", f"case $(jq -r .id) in 2) {ends} ;; esac; {PASSES}")
    erred = [{**record, "graderError": "late"} for record in map(json.loads, many(4).splitlines())]
    write(tmp_path / "out", erred[0], {**erred[1], "graderError": "early"}, *erred[2:])
    grade("-g", "./g", "-o", "out", "--resume", stdin=many(4), cwd=tmp_path).expect(130 if how == "Ctrl-C" else 1)
    found = read(tmp_path / ("out" if how == "Ctrl-C" else "out.recovered"))
    assert [record["id"] for record in found] == ["0", "1", "2", "3"]
    assert ["score" in record for record in found] == ([True, True, False, False] if how == "Ctrl-C" else [True] * 4)


def test_resume_grades_only_what_is_missing(tmp_path: Path) -> None:
    script(tmp_path / "g", f"jq -r .id >> ran; echo '{json.dumps(PASSED)}'")
    first = json.loads(many(1)) | {"score": PASSED}
    (tmp_path / "out").write_text(json.dumps(first) + '\n{"id":"1","outp')
    done = grade("-g", "./g", "-o", "out", "--resume", stdin=many(4), cwd=tmp_path).expect(0)
    done.says("out: 1 kept, 3 new")
    assert done.out == b""
    assert [record["id"] for record in read(tmp_path / "out")] == ["0", "1", "2", "3"]
    assert (tmp_path / "ran").read_text().split() == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("kind", "signum", "code"),
    [("process", signal.SIGINT, 130), ("process", signal.SIGTERM, 143), ("stream", 2, 130), ("python", 2, 130)],
)
def test_a_signal_costs_no_record_its_score(kind: str, signum: int, code: int, mark: str, tmp_path: Path) -> None:
    """What was being graded is not written as failed: --resume grades it.

    Until then the seventh and all later ones hang: however late the signal is sent, it does not come after the end.
    """
    helper = f"setsid sleep {mark} &"
    late = """case $line in *'"id":"'[0-5]'"'*) sleep 0.12;; *) [ -e resumed ] || sleep 60;; esac"""
    if kind == "process":
        script(tmp_path / "g", f"{helper} read -r line; {late}; {PASSES}")
        args: list[object] = ["-g", "./g"]
    elif kind == "stream":
        script(tmp_path / "g", f"{helper} while read -r line; do {late}; echo '{json.dumps(PASSED)}'; done")
        args = ["--stream", "-g", "./g"]
    else:
        start = f"import os, subprocess, time\nsubprocess.Popen(['setsid', 'sleep', '{mark}'])\n"
        late = "time.sleep(0.12 if int(r['id']) < 6 else 0 if os.path.exists('resumed') else 60)"
        (tmp_path / "g.py").write_text(f"{start}def grade(r):\n    {late}\n    return {PASSED}\n")
        args = ["-g", "g.py"]
    file = tmp_path / "results"
    file.write_text(many(24))
    out = tmp_path / "out"
    with Running("ae-grade", file, "-j", 3, *args, "-o", out, cwd=tmp_path) as tool:
        until(lambda: out.exists() and len(out.read_bytes().splitlines()) >= 4, "some records are graded")
        tool.signal(signum)
        done = tool.end().expect(code)  # how quickly: processes/test_supervisor.py
    expect_gone(mark, 0)
    written = read(out)
    assert all(record["score"] == PASSED for record in written), [r["score"] for r in written if r["score"] != PASSED]
    done.says("stopped by", "--resume")
    (tmp_path / "resumed").touch()
    run("ae-grade", file, "-j", 3, *args, "-o", out, "--resume", cwd=tmp_path).expect(0).says(f"{len(written)} kept, ")
    assert [record["id"] for record in read(out)] == [str(n) for n in range(24)]
    expect_gone(mark, 0)


def test_a_closed_pipe_ends_the_graders(mark: str, tmp_path: Path) -> None:
    script(tmp_path / "g", f"case $(cat) in *quick*) ;; *) sleep {mark} ;; esac; echo '{json.dumps(PASSED)}'")
    with Running("ae-grade", "-g", "./g", "-j", 2, cwd=tmp_path) as tool:
        tool.feed({"id": "a", "output": "quick"}, {"id": "b", "output": "slow"})
        assert tool.record()["id"] == "a"
        until(lambda: sleepers(mark), "the slow one is at work")
        tool.stdout.close()
        assert tool.process.wait(timeout=PATIENCE) == 0
        assert tool.stderr.read() == b""
    expect_gone(mark, 0)


def test_sigkill_takes_the_graders_along(mark: str, tmp_path: Path) -> None:
    script(tmp_path / "g", f"(trap '' TERM; setsid sleep {mark}) & env -i setsid sleep {mark} & sleep {mark}")
    with Running("ae-grade", "-g", "./g", "-j", 2, cwd=tmp_path) as tool:
        tool.feed({"id": "a", "output": "o"}, {"id": "b", "output": "o"})
        until(lambda: len(sleepers(mark)) == 6, "the graders are at work")
        tool.process.kill()
        expect_gone(mark)


@pytest.mark.parametrize(
    ("grader", "message"), [("ae-grader-hint --exakt", "--exakt"), ("ae-grader-judge", "OPENAI_API_KEY")]
)
def test_a_grader_of_the_suite_that_cannot_work_is_found_at_once(grader: str, message: str, tmp_path: Path) -> None:
    """Before an agent is paid for, and not once per record."""
    out = write(tmp_path / "out", "precious")
    source = jsonl({"id": "a", "input": "x", "output": "x"}, {"id": "b", "input": "x", "output": "x"})
    run("ae-grade", "-g", grader, "-o", out, stdin=source, cwd=tmp_path).expect(2).says(message)
    capture = ["ae-capture", "--shell", "touch ran", "-g", grader, "-o", out, "--overwrite"]
    run(*map(str, capture), stdin=source, cwd=tmp_path).expect(2).says(message)
    assert out.read_text() == "precious\n"
    assert not (tmp_path / "ran").exists()
