"""ae: it becomes the tool that is named, lists the commands, and reports those that it cannot find."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
from keyword import iskeyword
from pathlib import Path

import pytest

from tests.support.tool import BIN, ROOT, TOOLS, Done, clean_env, jsonl, python_script, run, script

PROMPTS = jsonl({"id": "a", "input": "hello"})


def with_plug_ins(*directories: Path) -> dict[str, str]:
    """An environment in which these directories come first on PATH."""
    return {"PATH": os.pathsep.join([*map(str, directories), clean_env(ROOT)["PATH"]])}


def ae(tmp_path: Path, *args: str, stdin: str | None = None) -> Done:
    """ae with the plug-ins of the test's directory."""
    return run("ae", *args, stdin=stdin, cwd=tmp_path, env=with_plug_ins(tmp_path))


# --- it becomes the tool ------------------------------------------------------------------------


def test_a_tool_of_the_suite(tmp_path: Path) -> None:
    done = ae(tmp_path, "run", "--simple", "echo {}", stdin=PROMPTS).expect(0, stderr="")
    assert done.records[0]["rawLines"] == ["hello"], done
    assert ae(tmp_path, "grader-hint", "--version").expect(0).stdout.startswith("ae-grader-hint ")
    failed = ae(tmp_path, "run", "--no-such-option").expect(2)
    assert failed.stderr.startswith("ae-run: "), failed


def test_arguments_stdin_and_exit_code_are_the_tools_own(tmp_path: Path) -> None:
    python_script(tmp_path / "ae-echo", "import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(7)")
    args = ["--help", "", "a b", "-x", "--", "ü\n*", "help"]
    assert ae(tmp_path, "echo", *args, stdin="input").expect(7, stderr="").stdout == f"{args} input\n"


def test_signals_are_the_tools_own(tmp_path: Path) -> None:
    """ae and the tool are one process, which gets the signals; SIGPIPE, which Python ignores, kills it by default."""
    script(tmp_path / "ae-pid", "echo $$; exec sleep 60")
    command = [str(ROOT / ".venv" / "bin" / "ae"), "pid"]
    with subprocess.Popen(command, env=clean_env(tmp_path, with_plug_ins(tmp_path)), stdout=subprocess.PIPE) as process:
        assert process.stdout and int(process.stdout.readline()) == process.pid
        process.terminate()
    assert process.returncode == -signal.SIGTERM
    script(tmp_path / "ae-pipe", "yes | head -1")
    ae(tmp_path, "pipe").expect(0, stderr="")


def test_the_one_beside_ae_comes_first_then_path_in_order(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for name in ("ae-run", "ae-both"):
            script(tmp_path / folder / name, f"echo {folder}")
    env = with_plug_ins(tmp_path / "missing", tmp_path / "one", tmp_path / "two")
    assert run("ae", "run", "--version", env=env).expect(0).stdout.startswith("ae-run 0")
    assert run("ae", "both", env=env).expect(0).stdout == "one\n"
    (tmp_path / "one" / "ae-both").chmod(0o644)
    assert run("ae", "both", env=env).expect(0).stdout == "two\n"


def test_beside_is_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "ae").symlink_to(ROOT / ".venv" / "bin" / "ae")
    done = run(str(tmp_path / "ae"), "run", "--version", env={"PATH": "/usr/bin:/bin"}).expect(0)
    assert done.stdout.startswith("ae-run "), done


def test_a_script_without_interpreter_line(tmp_path: Path) -> None:
    script(tmp_path / "ae-plain", "#!").write_text('echo "$1"\n')
    assert ae(tmp_path, "plain", "given").expect(0, stderr="").stdout == "given\n"


def test_what_cannot_be_started(tmp_path: Path) -> None:
    script(tmp_path / "ae-broken", "#!/no/such/interpreter\n")
    ae(tmp_path, "broken").expect(2).says(str(tmp_path / "ae-broken"), "No such file or directory")


def test_the_packages_of_the_tool_are_not_imported_twice(tmp_path: Path) -> None:
    """ae becomes ae-nothing, which imports Click and the rest itself."""
    script(tmp_path / "ae-nothing", "exit 0")
    env = {**with_plug_ins(tmp_path), "PYTHONPROFILEIMPORTTIME": "1"}
    done = run("ae", "nothing", env=env).expect(0)
    imported = set(re.findall(r"^import time:\s+\d+ \|\s+\d+ \|\s+(\S+)", done.stderr, re.MULTILINE))
    assert "agenteval.cli.tools.ae" in imported, done
    assert imported & {"click", "msgspec", "orjson"} == set()


# --- help and list ------------------------------------------------------------------------------


def job_of(tool: str) -> str:
    """Returns the job of a tool, from its own file."""
    folder, module = ("graders", tool[10:]) if tool.startswith("ae-grader-") else ("tools", tool[3:])
    name = f"{module}_" if iskeyword(module) else module.replace("-", "_")
    tree = ast.parse((ROOT / "agenteval" / "cli" / folder / f"{name}.py").read_text())
    first = (ast.get_docstring(tree) or "").splitlines()[0]
    return first.removeprefix(f"{tool}: ").removesuffix(".")


def test_list_has_every_tool_with_its_job() -> None:
    page = run("ae").expect(0, stderr="").stdout
    lines = re.sub(r"\n {3,}", " ", page)  # a long one is wrapped
    for tool in TOOLS:
        if tool != "ae":
            assert re.search(rf"^  {tool[3:]} +{re.escape(job_of(tool))}$", lines, re.MULTILINE), (tool, page)
    assert "Plug-ins" not in page


def test_list_has_plug_ins_once_and_starts_none(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for path in (tmp_path / "ae-mine", tmp_path / "more" / "ae-mine", tmp_path / "more" / "ae-yours"):
        script(path, f"touch {tmp_path}/started")
    script(tmp_path / "ae-run", "exit 1")
    script(tmp_path / "ae-no\nname", "exit 1")
    (tmp_path / "ae-text").write_text("not executable")
    (tmp_path / "ae-folder").mkdir()
    env = with_plug_ins(tmp_path, tmp_path / "more", tmp_path / "missing", tmp_path / "ae-text")
    page = run("ae", env=env).expect(0, stderr="").stdout
    listed = page.partition("Plug-ins")[2].partition("\n\n")[0].splitlines()[1:]
    assert [line.split() for line in listed] == [
        ["mine", str(tmp_path / "ae-mine")],
        ["yours", str(tmp_path / "more" / "ae-yours")],
    ]
    assert not (tmp_path / "started").exists()


def test_help() -> None:
    page = run("ae").expect(0, stderr="").out
    for args in (["--help"], ["help"], ["help", "--help"], ["help", "help"]):
        assert run("ae", *args).expect(0, stderr="").out == page, args
    assert run("ae", "help", "extract").expect(0, stderr="").out == run("ae-extract", "--help").out
    assert run("ae", "help", "completion").expect(0).out == run("ae", "completion", "-h").expect(0).out


@pytest.mark.parametrize(
    "typed, meant",
    [("rnu", ["run"]), ("extrct", ["extract"]), ("hint", ["grader-hint"]), ("mein", ["mine"]), ("hepl", ["help"])],
)
def test_unknown_command_with_names_that_are_near(typed: str, meant: list[str], tmp_path: Path) -> None:
    script(tmp_path / "ae-mine", "exit 0")
    done = ae(tmp_path, typed, "--help").expect(2)
    done.says(f'"{typed}"', "did you mean", *meant, "ae --help")
    assert done.out == b"", done


@pytest.mark.parametrize("typed", ["zzzzzz", "../bin/sh", "/bin/sh", "a\nb", "ü" * 300])
def test_unknown_command_unlike_any(typed: str, tmp_path: Path) -> None:
    message = ae(tmp_path, typed).expect(2).says("there is no command", "ae --help")
    assert "did you mean" not in message


def test_options_come_after_the_command() -> None:
    run("ae", "--debug", "run").expect(2).says("after the command")


# --- completion ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_knows_every_tool_and_where_it_is(shell: str) -> None:
    text = run("ae", "completion", shell).expect(0, stderr="").stdout
    (registered,) = re.findall(r"(?:complete -o .*-F _ae|compdef _ae|for tool in) (.*)", text)
    assert sorted(re.findall(r"[\w-]+", registered)) == TOOLS
    assert f"_ae_bin={ROOT}/.venv/bin\n" in text or f"__ae_bin '{ROOT}/.venv/bin'\n" in text, text


def test_completion_without_a_shell_takes_that_of_the_user() -> None:
    for path in ("/bin/bash", "/usr/local/bin/zsh"):
        script_of = run("ae", "completion", Path(path).name).expect(0).out
        assert run("ae", "completion", env={"SHELL": path}).expect(0, stderr="").out == script_of
    for env in ({"SHELL": "/bin/tcsh"}, {}):
        done = run("ae", "completion", env=env).expect(2)
        assert "ae completion bash" in done.stderr and len(done.messages) == 1, done
    assert "'bash', 'zsh', 'fish'" in run("ae", "completion", "tcsh").expect(2).stderr


def test_completion_of_a_launcher_is_that_of_the_installation() -> None:
    installed = ROOT / ".venv" / "bin" / "ae"
    assert run(str(installed), "completion", "bash").out == run(str(BIN / "ae"), "completion", "bash").out
