"""ae-prompts: suites made with the real programs → prompts, which pass and fail the answers that those programs do."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from agenteval.suites.promptfoo import render
from tests.support.tool import BIN, ROOT, Record, jsonl, read, run, script

DATA = ROOT / "tests" / "data" / "suites"


def write(path: Path, text: str) -> Path:
    """Writes a file and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def graded(prompts: list[Record], answers: dict[str, str | Record]) -> dict[str, bool]:
    """Returns which answers pass; an answer is a text, or fields of a result."""
    fields = {ident: {"output": one} if isinstance(one, str) else one for ident, one in answers.items()}
    records = [{**prompt, "trajectory": [], **fields[prompt["id"]]} for prompt in prompts if prompt["id"] in fields]
    done = run("ae-grade", "-g", "ae-grader-checks --offline", stdin=jsonl(*records)).expect(0)
    return {record["id"]: record["score"]["pass"] for record in done.records}


def call(name: str, **given: str) -> Record:
    return {"type": "tool_call", "name": name, "status": "completed", "input": given}


def prompts_of(*args: object, code: int = 0) -> tuple[dict[str, Record], str]:
    done = run("ae-prompts", *args).expect(code)
    return {record["id"]: record for record in done.records}, done.stderr


# --- promptfoo ----------------------------------------------------------------------------------


def test_promptfoo_passes_and_fails_as_promptfoo_did() -> None:
    """results.json is what promptfoo 0.121.20 wrote for this configuration, with answer.sh as its provider."""
    results = json.loads((DATA / "promptfoo" / "results.json").read_text())["results"]["results"]
    theirs = {f"{one['testIdx'] + 1}-{one['promptIdx'] + 1}": one for one in results}
    prompts, said = prompts_of("promptfoo", DATA / "promptfoo")
    assert {ident: prompt["input"] for ident, prompt in prompts.items()} == {
        ident: one["prompt"]["raw"] for ident, one in theirs.items()
    }
    answers: dict[str, str | Record] = {
        ident: {"output": one["response"]["output"], "timing": {"total": 5}} for ident, one in theirs.items()
    }
    assert graded(list(prompts.values()), answers) == {ident: one["success"] for ident, one in theirs.items()}
    assert "promptfooconfig.yaml:72: 13-1: not expressed: javascript (output.length < 100)" in said
    assert said.endswith("2 of 40 prompts lack part of the original case: javascript 2\n")
    assert prompts["13-1"]["metadata"]["notExpressed"] == ["javascript (output.length < 100)"]


def test_a_broken_test_of_promptfoo_costs_only_itself(tmp_path: Path) -> None:
    config = """\
prompts: ["{{q}}", "file://missing.txt"]
assertionTemplates: {polite: {type: icontains, value: please}}
defaultTest: {vars: {q: default}, threshold: 0.5}
tests:
  - {vars: {q: a}, assert: [{type: contains, value: x}, {$ref: "#/assertionTemplates/polite", weight: 3}]}
  - just text
  - {vars: {q: "{{ a | upper }}"}}
  - {vars: {q: b}, assert: [{type: contains}]}
  - {vars: {q: file://code.py}}
  - {assert: [{type: similar, value: near}, {type: skill-used, value: pdf}]}
scenarios:
  - config: [{vars: {who: Ada}}, {vars: {who: Bo}}]
    tests: [{vars: {q: "Hi {{who}}"}, assert: [{type: contains, value: "{{who}}"}]}]
"""
    write(tmp_path / "promptfooconfig.yaml", config)
    prompts, said = prompts_of("promptfoo", tmp_path, code=1)
    assert {ident: prompt["input"] for ident, prompt in prompts.items()} == {
        "1-1": "a",
        "6-1": "default",
        "7-1": "Hi Ada",
        "8-1": "Hi Bo",
    }
    assert prompts["1-1"]["checks"] == [
        {
            "type": "group",
            "threshold": 0.5,
            "name": "threshold 0.5",
            "checks": [
                {"type": "contains", "value": "x"},
                {"type": "contains", "value": "please", "ignoreCase": True, "weight": 3},
            ],
        }
    ]
    assert prompts["8-1"]["checks"][0]["checks"] == [{"type": "contains", "value": "Bo"}]
    for line, reason in (
        (6, f"{tmp_path}/just text: no such file, or it contains no tests"),
        (7, "{{ a | upper }} is not a variable: filters and expressions cannot be filled in"),
        (8, "an assertion has no value"),
        (9, "file://code.py is a program, which is not run"),
        (5, f"the prompt {tmp_path}/missing.txt cannot be read: no such file"),
    ):
        assert f"promptfooconfig.yaml:{line}: {reason}\n" in said
    assert "6-1: not expressed: similar (near)\n" in said


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ a }}-{{b.c}}-{{list[1]}}-{{missing}}", "1-2-y-"),
        ("{{nested}}", "see 1"),
        ("{{-a-}} {{b}}", '1 {"c":2}'),
    ],
)
def test_templates(template: str, text: str) -> None:
    assert render(template, {"a": 1, "b": {"c": 2}, "list": ["x", "y"], "nested": "see {{a}}"}) == text


# --- claude plugin eval -------------------------------------------------------------------------


def test_claude_evals_pass_and_fail_as_claude_plugin_eval_did(tmp_path: Path) -> None:
    """aggregate-result.json is what claude 2.1.326 wrote for this plugin, with a scripted model."""
    result = json.loads((DATA / "claude-evals" / "aggregate-result.json").read_text())
    theirs = {case["name"]: case["arms"]["with"][0] for case in result["cases"]}
    prompts, said = prompts_of("claude-evals", DATA / "claude-evals")
    workspace = tmp_path / "report"
    assert prompts["report"]["workspace"]["setup"].startswith('bash "$AE_PROMPTS"/')
    write(workspace / "numbers.txt", "1\n2\n3\n")
    write(workspace / "report.md", "# Report\n\nTotal: 6\n")
    answers: dict[str, str | Record] = {
        "greeting": {"output": "Hello, Ada!", "trajectory": [call("Skill", skill="greeter:greet")]},
        "farewell": "So long, Ada.",
        "no-digits": "Nineteen ninety.",
        "report": {"output": "Done.", "trajectory": [call("Read"), call("Write")], "cwd": str(workspace)},
    }
    done = graded(list(prompts.values()), answers)
    assert (
        done == {name: one["passed"] for name, one in theirs.items()} == {name: name != "farewell" for name in theirs}
    )
    wrong: dict[str, str | Record] = {
        "greeting": "Hello, Ada!",
        "no-digits": "1990",
        "report": {"output": "", "trajectory": [call("Write"), call("Bash")], "cwd": str(workspace)},
    }
    assert not any(graded(list(prompts.values()), wrong).values())
    assert prompts["farewell"]["timeout"] == 120_000 and prompts["greeting"]["timeout"] == 300_000
    assert "greeting: not expressed: max_turns (10), allowed_tools (Read, Glob, Grep, Skill)" in said


def test_wrong_cases_of_claude_evals_are_named(tmp_path: Path) -> None:
    write(tmp_path / "evals/a/prompt.md", "---\nmax_turn: 3\n---\nHi\n")
    write(tmp_path / "evals/b/prompt.md", "Hi\n")
    write(tmp_path / "evals/group/c/case.yaml", 'schema_version: "1.1"\nname: c\nexecution: {prompt: "Hi"\n')
    write(tmp_path / "evals/d/prompt.md", "Hi\n")
    kinds = {"e": "regex\npattern: a\nmatch: 'count:2'", "f": "baseline", "g": "regex\npattern: '('", "h": "magic"}
    write(tmp_path / "evals/d/graders/ok.md", "---\ntype: llm\n---\nPASS if it greets.\n")
    for name, kind in kinds.items():
        place = "d" if name != "g" else "g"
        write(tmp_path / f"evals/{place}/graders/{name}.md", f"---\ntype: {kind}\n---\n")
    write(tmp_path / "evals/g/prompt.md", "Hi\n")
    prompts, said = prompts_of("claude-evals", tmp_path, code=1)
    assert list(prompts) == ["d"] and [check["type"] for check in prompts["d"]["checks"]] == ["judge"]
    for part in (
        "a/prompt.md:2: unknown field 'max_turn'",
        "b/prompt.md: has no grader",
        "c/case.yaml:4: is not YAML",
    ):
        assert part in said
    assert "g/prompt.md: checks[0] (regex):" in said
    assert "d: not expressed: regex match count:2 (e), baseline (f), magic (h)" in said


# --- the others ---------------------------------------------------------------------------------


def test_inspect_samples_pass_and_fail_as_in_inspect(tmp_path: Path) -> None:
    """verdicts.json has the scores that inspect_ai 0.3.285 gave to these answers (includes, choice)."""
    answers = json.loads((DATA / "inspect" / "answers.json").read_text())
    prompts, said = prompts_of("inspect", DATA / "inspect" / "questions.jsonl")
    assert graded(list(prompts.values()), answers) == json.loads((DATA / "inspect" / "verdicts.json").read_text())
    others: dict[str, str | Record] = {
        "planet": "ANSWER: B because",
        "giants": "ANSWER: A",
        "star": "**ANSWER: (c)**",
        "chat": "43",
    }
    assert graded(list(prompts.values()), others) == {
        **dict.fromkeys(("planet", "chat", "giants"), False),
        "star": True,
    }
    assert "questions.jsonl:5: chat: not expressed: system message (Be brief.)" in said
    write(tmp_path / "d.csv", 'input,target,choices\n"Which?",B,"x,y"\n,,\nWhich?,D,"x,y"\n')
    rows, said = prompts_of("inspect", tmp_path / "d.csv", code=1)
    assert list(rows) == ["1"] and "A) x\nB) y" in rows["1"]["input"]
    assert "d.csv:4: the target of a sample with choices must be among A, B" in said
    wrong = ({"files": {"a": {"b": "c"}}}, {"setup": ["ls"]})
    write(tmp_path / "d.jsonl", "\n".join(json.dumps({"input": "x", "target": "y", **fields}) for fields in wrong))
    _rows, said = prompts_of("inspect", tmp_path / "d.jsonl", code=1)
    assert "d.jsonl:1: files: the content of 'a' must be a string" in said
    assert 'd.jsonl:2: "setup" must be a string' in said


def test_the_reward_of_a_harbor_task_decides(tmp_path: Path) -> None:
    shutil.copytree(DATA / "harbor" / "hello", tmp_path / "hello")
    refused = run("ae-prompts", "harbor", tmp_path).expect(1)
    assert "runs in an image (environment/Dockerfile)" in refused.says("--on-host")
    done = run("ae-prompts", "harbor", tmp_path, "--on-host", "-o", tmp_path / "out" / "p.jsonl").expect(0)
    prompt = json.loads((tmp_path / "out" / "p.jsonl").read_text())
    assert prompt["input"] == 'Write "Hello, world!" into ./hello.txt.' and prompt["timeout"] == 600_000
    there = {"tests": "../hello/tests", "solution": "../hello/solution"}
    assert prompt["checks"] == [{"type": "harbor", "timeout": 600_000, **there}]
    solved = run("ae-validate-refs", "out/p.jsonl", cwd=tmp_path).expect(0).records[0]
    assert solved["pass"] and solved["reference"] == "../hello/solution/solve.sh"
    assert prompt["metadata"]["category"] == "software_engineering" and "image (environment/Dockerfile)" in done.stderr
    prompt["checks"][0]["tests"] = str(tmp_path / "hello" / "tests")
    for name, text in (("right", "Hello, world!\n"), ("wrong", "Hello\n")):
        write(tmp_path / name / "hello.txt", text)
    records = [{**prompt, "id": name, "output": "", "cwd": str(tmp_path / name)} for name in ("right", "wrong")]
    graded = run("ae-grade", "-g", "ae-grader-checks", stdin=jsonl(*records)).expect(0).records
    assert [record["score"]["pass"] for record in graded] == [True, False]
    assert graded[1]["outcome"]["checks"][0]["reason"] == "the reward is 0"
    write(tmp_path / "hello" / "tests" / "test.sh", "echo oops; exit 3\n")
    failed = run("ae-grade", "-g", "ae-grader-checks", stdin=jsonl(records[0])).expect(1).records[0]
    assert failed["graderError"] == "test.sh wrote no reward; it exited with code 3: oops" and "score" not in failed


# Behaves like podman as far as it is asked here, but runs what it is to run on this machine, with the directories that
# it is to mount in place of their targets.
PODMAN = r"""#!{python}
import os, re, subprocess, sys
words = sys.argv[1:]
mounts = dict(re.findall(r"source=(.*?),target=(/app|/tests|/logs|/solution)$", "\n".join(words), re.MULTILINE))
if words[:2] == ["image", "inspect"]:
    print("sha256:12")
elif words[0] == "create":
    print(f"made-of-{{words[1]}}")
elif words[0] == "cp":
    assert words[1:] == ["made-of-hello:1", ":/app/.", "."] or words[1:] == ["made-of-hello:1:/app/.", "."], words
    open("of-the-image.txt", "w").write("Hello")
elif words[0] == "run":
    command = words[words.index("agenteval", words.index("hello:1")) + 1 :]
    for source, target in mounts.items():
        command[-1] = command[-1].replace(target, source)
    sys.exit(subprocess.call(command, cwd=words[words.index("--workdir") + 1]))
"""


def test_a_task_with_an_image_runs_in_it(tmp_path: Path) -> None:
    task = tmp_path / "hello"
    shutil.copytree(DATA / "harbor" / "hello", task)
    place = "$(dirname $0)/../logs/verifier/reward.txt"
    write(
        task / "tests" / "test.sh",
        f"grep -q Hello hello.txt of-the-image.txt && echo 1 > {place} || echo 0 > {place}\n",
    )
    write(task / "solution" / "solve.sh", "echo Hello > hello.txt\n")
    (podman := write(tmp_path / "bin" / "podman", PODMAN.format(python=sys.executable))).chmod(0o755)
    env = {"PATH": f"{podman.parent}:{BIN}:{os.environ['PATH']}"}
    run("ae-prompts", "harbor", "hello", "--image", "hello:1", "-o", "p.jsonl", cwd=tmp_path).expect(0, stderr="")
    agent = ("--shell", "cp of-the-image.txt hello.txt", "--workspace-dir", "ws")
    refused = run("ae-capture", "p.jsonl", *agent, cwd=tmp_path, env=env).expect(1)
    assert "p.jsonl:1: the task runs in an image: --sandbox podman --sandbox-image hello:1" in refused.stderr
    assert not refused.records
    image = ("--sandbox", "podman", "--sandbox-image", "hello:1")
    done = run("ae-capture", "p.jsonl", *agent, *image, cwd=tmp_path, env=env).expect(0)
    assert done.records[0]["outcome"]["checks"][0]["reason"] == "the reward is 1"
    assert "(ae-grader-checks --sandbox podman --sandbox-image hello:1)" in done.stderr
    tests = f"ae-grader-checks {' '.join(image)}"
    idle = run("ae-capture", "p.jsonl", *agent[2:], "--shell", "rm *", "-g", tests, cwd=tmp_path, env=env).expect(0)
    assert idle.records[0]["outcome"]["checks"][0]["reason"] == "the reward is 0"
    another = run("ae-capture", "p.jsonl", *agent, *image[:3], "hello:2", cwd=tmp_path, env=env).expect(1)
    assert "runs in the image hello:1, not in hello:2" in another.stderr
    assert run("ae-validate-refs", "p.jsonl", "-g", tests, cwd=tmp_path, env=env).expect(0).records[0]["pass"]


def test_evals_and_queries_of_skill_creator() -> None:
    evals, said = prompts_of("skill-creator", DATA / "skill-creator", code=1)
    assert 'evals.json:11: "prompt" is missing' in said
    assert [check["rubric"] for check in evals["1"]["checks"]] == [
        *("The answer greets Ada by name", "The answer is one line")
    ]
    assert evals["1"]["hint"] == "A greeting that names Ada"
    assert evals["1"]["workspace"]["setup"].endswith("evals/files/people.txt .")
    queries, _said = prompts_of("skill-creator", DATA / "skill-creator" / "evals" / "triggers.json")
    used = {"output": "", "trajectory": [call("Read", file_path="/w/.claude/skills/greet/SKILL.md")]}
    assert graded(list(queries.values()), {"query-1": used, "query-2": used}) == {"query-1": True, "query-2": False}
    assert graded(list(queries.values()), {"query-1": "", "query-2": ""}) == {"query-1": False, "query-2": True}


def test_a_table(tmp_path: Path) -> None:
    write(
        tmp_path / "q.csv",
        "\ufeffid;input;contains;contains;max-duration;tool-order;category;timeout;json-schema\n"
        'a;"What; is\nit?";yes;no;30s;Read, Write;x;5s;"{""type"": ""object""}"\n'
        ";Q2;y;;;;;;\nc;;y;;;;;;\na;Q;;;;;;;\nd;Q;;;soon;;;;\n",
    )
    prompts, said = prompts_of("csv", tmp_path / "q.csv", code=1)
    assert prompts["a"] == {
        "id": "a",
        "input": "What; is\nit?",
        "category": "x",
        "timeout": 5000,
        "checks": [
            {"type": "contains", "value": "yes"},
            {"type": "contains", "value": "no"},
            {"type": "max-duration", "value": "30s"},
            {"type": "tool-order", "tools": ["Read", "Write"]},
            {"type": "json-schema", "schema": {"type": "object"}},
        ],
    }
    assert prompts["row-2"] == {"id": "row-2", "input": "Q2", "checks": [{"type": "contains", "value": "y"}]}
    for part in (
        *('q.csv:5: "input" is missing', 'q.csv:6: duplicate id "a"', "q.csv:7: checks[0] (max-duration)"),
        "1 of 2 prompts have no id",
    ):
        assert part in said


def test_a_row_that_is_wrong_costs_only_itself(tmp_path: Path) -> None:
    path = write(tmp_path / "q.csv", 'ID,Input,max-tokens\nrow-3,x,0\na,"y,1\n,z,\nb,z,many\nc,"q"x,\nd,e,1,more\n')
    prompts, said = prompts_of("csv", path, code=1)
    assert prompts == {
        "row-3": {"id": "row-3", "input": "x", "checks": [{"type": "max-tokens", "value": 0}]},
        "row-3-2": {"id": "row-3-2", "input": "z"},
    }
    for line, reason in (
        (3, "',' expected"),
        (5, "max-tokens: 'many' is not a number"),
        (6, "',' exp"),
        (7, "'more' is not in"),
    ):
        assert f"q.csv:{line}: {reason}" in said
    assert "1 of 2 prompts have no id" in said
    run("ae-prompts", "csv", write(tmp_path / "e.csv", "id,input\n")).expect(2).says("has no rows")
    run("ae-prompts", "csv", write(tmp_path / "o.csv", 'id,input\na,"b\n')).expect(1).says(
        "o.csv:2: a quote is not closed"
    )


@pytest.mark.parametrize(
    ("format_", "path", "like"),
    [
        ("csv", "inspect/questions.jsonl", "inspect"),
        ("inspect", "promptfoo/promptfooconfig.yaml", "promptfoo"),
        ("promptfoo", "claude-evals", "claude-evals"),
        ("claude-evals", "harbor", "harbor"),
        ("harbor", "skill-creator", "skill-creator"),
        ("skill-creator", "promptfoo", "promptfoo"),
        ("inspect", "skill-creator/evals/triggers.json", "skill-creator"),
    ],
)
def test_a_file_of_another_format_says_which(format_: str, path: str, like: str) -> None:
    done = run("ae-prompts", format_, DATA / path).expect(2)
    done.says(f"looks like {like}, not {format_}: try ae-prompts {like} ")


def test_what_is_no_suite(tmp_path: Path) -> None:
    write(tmp_path / "prompts.jsonl", '{"id": "a", "input": "b", "checks": []}\n')
    run("ae-prompts", "inspect", tmp_path / "prompts.jsonl").expect(2).says("already contains prompts")
    run("ae-prompts", "harbour", tmp_path).expect(2).says('no format is named "harbour"; did you mean harbor?')
    run("ae-prompts", "harbor", tmp_path / "none").expect(2).says("No such file or directory")
    run("ae-prompts", "harbor", tmp_path).expect(2).says("does not look like tasks of Harbor")
    run("ae-prompts", "csv", write(tmp_path / "a.csv", "a,b\n1,2\n")).expect(2).says('has no column "input"')


AGENTS = {  # programs that print what these agents print; codex knows no answer
    "claude": """printf '{"type":"result","session_id":"s","is_error":false,"result":"%s"}\\n' """
    '''"$(sh answer.sh "$*" | sed 's/"/\\\\"/g')"''',
    "codex": """printf '{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"nothing"}}\\n"""
    """{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}\\n'""",
}


def test_two_suites_run_on_two_agents_in_three_commands(tmp_path: Path) -> None:
    """As docs/suites.md shows it: a promptfoo suite of 20 tests, and cases of claude plugin eval."""
    shutil.copytree(DATA / "promptfoo", tmp_path, dirs_exist_ok=True)
    shutil.copytree(DATA / "claude-evals", tmp_path / "my-plugin")
    (tmp_path / "bin").mkdir()
    for name, line in AGENTS.items():
        script(tmp_path / "bin" / name, line.replace("answer.sh", f"{tmp_path}/answer.sh"))
    shown = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / "suites.md").read_text(), re.DOTALL | re.MULTILINE)[:2]
    env = {"PATH": f"{tmp_path}/bin:{BIN}:{os.environ['PATH']}"}
    assert [len(commands.splitlines()) for commands in shown] == [3, 3]
    for line in shown[1].replace(".jsonl; done", ".jsonl -j 8; done").splitlines():
        run("/usr/bin/env", "bash", "-c", line, cwd=tmp_path, env=env, timeout=120).expect(0)
    runs = [read(tmp_path / f"{agent}.jsonl") for agent in AGENTS]
    assert [len(records) for records in runs] == [44, 44]
    assert [sum(record["score"]["pass"] for record in records) for records in runs] == [29, 1]
    assert (tmp_path / "ws-codex" / "prompt-report" / "numbers.txt").read_text() == "1\n2\n3\n"


def test_the_example_with_checks(tmp_path: Path) -> None:
    """Ten prompts, no grader, and one prompt without a file."""
    run("ae", "init", "mine", "--from", "checks", cwd=tmp_path).expect(0)
    options = ("--simple", "./agent {}", "-j", "4", "--workspace-dir", "ws")
    done = run("ae-capture", "prompts.jsonl", *options, cwd=tmp_path / "mine").expect(0)
    assert len(done.records) == 10
    assert {one["id"] for one in done.records if not one["score"]["pass"]} == {"capital", "river"}
    single = run("ae-capture", "-p", "say it", "--simple", "echo {}").expect(0).records
    assert [(one["id"], one["input"], one["output"]) for one in single] == [("prompt", "say it", "say it")]
    run("ae-capture", "-p", "x", "f.jsonl", "--simple", "echo {}").expect(2).says(
        "-p and f.jsonl cannot be used together"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tests:\n- {vars: {x: &a [*a]}}\n", "an alias refers to itself"),
        ("prompts: &p [hi]\ntests:\n- {vars: {x: *p, y: *p}, assert: [{type: contains, value: hi}]}\n", None),
    ],
)
def test_aliases_of_yaml(text: str, says: str | None, tmp_path: Path) -> None:
    (tmp_path / "promptfooconfig.yaml").write_text(text)
    done = run("ae-prompts", "promptfoo", "promptfooconfig.yaml", cwd=tmp_path)
    assert "internal error" not in done.stderr and (says or "") in done.stderr, done
    assert done.code in (0, 1, 2) and bool(done.records) == (says is None), done
