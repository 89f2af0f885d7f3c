"""The graders that come with the suite, as the processes they are: ae-grader-hint and ae-grader-git."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.tool import BIN, Record, clean_env, jsonl, run, script
from tests.support.watching import Running, expect_gone, sleepers, until

needs_git = pytest.mark.skipif(not shutil.which("git"), reason="git is not on PATH")


def answers(tool: str, *args: str, records: list[Record], code: int = 0) -> list[Record]:
    """One answer per record."""
    done = run(tool, *args, stdin=jsonl(*records)).expect(code, stderr="")
    assert len(done.records) == len(records), done
    return done.records


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_the_process_that_has_checked_its_options_grades(tmp_path: Path) -> None:
    with Running("ae-grade", "-g", "ae-grader-hint", cwd=tmp_path) as tool:

        def graders() -> list[str]:
            children = Path(f"/proc/{tool.pid}/task/{tool.pid}/children").read_text().split()
            return [pid for pid in children if Path(f"/proc/{pid}/comm").read_text() == "ae-grader-hint\n"]

        started = until(graders, "the grader is started before there is a record")
        tool.feed({"id": "a", "input": "x", "output": "x", "hint": "x"})
        assert tool.record()["score"]["pass"]
        assert graders() == started
        tool.end().expect(0, stderr="")


# --- ae-grader-hint -------------------------------------------------------------------------------

HINTS: list[tuple[str, Any, Any, bool]] = [
    # options, output, hint, passes
    ("", "It is 42.", "42", True),
    ("", "It is 42.", "43", False),
    ("", "", "42", False),
    ("", "a.c", "abc", False),
    ("", "abc", "a.c", False),
    ("", "Paris", "paris", True),
    ("", "STRASSE", "straße", True),
    ("--case", "Paris", "paris", False),
    ("--case", "Paris", "Paris", True),
    ("", "two\nlines", "two\nlines", True),
    ("", "caf\u00e9", "\u00e9", True),
    ("-i", "Paris", "pARIS", True),
    ("-i", "STRASSE", "straße", True),
    ("--ignore-case", "London", "paris", False),
    ("--exact", " 42\n", "42", True),
    ("--exact", "It is 42", "42", False),
    ("--exact", "Yes", "yes", True),
    ("--exact --case", "Yes", "yes", False),
    ("--regex --case", "PARIS", "p.ris", False),
    ("--regex", "PARIS", "p.ris", True),
    ("--exact -i", "Yes", "yes", True),
    ("--regex", "It is 42.", "4[0-9]", True),
    ("--regex", "It is 52.", "4[0-9]", False),
    ("--regex", "two\nlines", "^lines$", False),
    ("--regex", "two\nlines", "(?m)^lines$", True),
    ("--regex -i", "PARIS", "p.ris", True),
]


@pytest.mark.parametrize("options", sorted({case[0] for case in HINTS}))
def test_hint_table(options: str) -> None:
    cases = [case for case in HINTS if case[0] == options]
    records = [{"id": "a", "output": output} | ({} if hint is None else {"hint": hint}) for _, output, hint, _ in cases]
    given = answers("ae-grader-hint", *options.split(), records=records)
    for (_, output, hint, passes), answer in zip(cases, given, strict=True):
        assert (answer["pass"], answer["score"]) == (passes, float(passes)), (options, output, hint, answer)
        assert answer["reasoning"]


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({}, ""),
        ({"hint": None}, ""),
        ({"expected": "42"}, '; it has "expected": rename that to "hint"'),
        ({"Hint": "42"}, '; it has "Hint": rename that to "hint"'),
        ({"metadata": {"hint": "42"}}, '; it has "metadata.hint": rename that to "hint"'),
    ],
)
def test_hint_gives_no_verdict_where_there_is_no_hint(fields: Record, advice: str, tmp_path: Path) -> None:
    """It passed such records: a pass rate of 100% over answers that it had not looked at."""
    record = {"id": "a", "input": "x", "output": "It is 42.", **fields}
    done = run("ae-grade", "-g", "ae-grader-hint", stdin=jsonl(record), cwd=tmp_path).expect(1)
    assert "score" not in done.records[0]
    assert done.records[0]["graderError"] == f'the record has no "hint"{advice}'


def test_an_empty_hint_is_no_hint() -> None:
    [answer] = answers("ae-grader-hint", records=[{"id": "a", "output": "x", "hint": ""}], code=1)
    assert answer == {"error": '"hint" is empty: there is nothing to look for'}


def test_hint_says_what_was_looked_for() -> None:
    found, missed = answers(
        "ae-grader-hint",
        records=[{"id": "a", "output": "x 42", "hint": "42"}, {"id": "b", "output": "x", "hint": "42"}],
    )
    assert found["reasoning"] == "output contains the hint '42'"
    assert missed["reasoning"] == "output does not contain the hint '42'"


def test_hint_that_is_no_regular_expression() -> None:
    bad, good = answers(
        "ae-grader-hint",
        "--regex",
        records=[{"id": "a", "output": "x", "hint": "("}, {"id": "b", "output": "x", "hint": "x"}],
        code=1,
    )
    assert set(bad) == {"error"} and "regular expression" in bad["error"]
    assert good["pass"]


def test_error_is_told_also_when_the_grader_is_named_by_its_path() -> None:
    """It is then run once per record, and exits with 1: that alone would not say why."""
    record = {"id": "a", "output": "x", "hint": "("}
    done = run("ae-grade", "-g", f"hint={BIN / 'ae-grader-hint'} --regex", stdin=jsonl(record)).expect(1)
    done.says("a: grader hint: the hint is not a regular expression")


def test_hint_options_that_exclude_each_other() -> None:
    run("ae-grader-hint", "--exact", "--regex", stdin="").expect(2).says("--exact", "--regex")


HAS_HINT = {"id": "a", "output": "x", "hint": "x"}


def test_hint_answers_a_bad_line_too() -> None:
    """One answer per line, or a stream of answers would slip."""
    done = run("ae-grader-hint", stdin=jsonl(HAS_HINT, "nonsense", "[1]", HAS_HINT)).expect(1)
    assert [answer.get("pass") for answer in done.records] == [True, None, None, True]
    assert all(answer["error"] for answer in done.records[1:3])


def test_hint_takes_one_record_over_many_lines() -> None:
    record = json.dumps({"id": "a", "output": "x 42", "hint": "42"}, indent=2)
    assert [answer["pass"] for answer in run("ae-grader-hint", stdin=record).expect(0).records] == [True]


def test_hint_answers_line_by_line(tmp_path: Path) -> None:
    with Running("ae-grader-hint", cwd=tmp_path) as tool:
        for hint in ("x", "y", "x"):
            tool.feed({"id": "a", "output": "x", "hint": hint})
            assert tool.record()["pass"] == (hint == "x")
        tool.end().expect(0, stderr="")


def test_hint_is_streamed_by_ae_grade_without_being_asked(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"print('x', file=open({str(tmp_path / 'starts')!r}, 'a'))")
    records = [{"id": str(n), "output": f"it is {n}", "hint": str(n % 70)} for n in range(200)]
    env = {"PYTHONPATH": str(tmp_path)}
    done = run("ae-grade", "-g", "ae-grader-hint -i", stdin=jsonl(*records), env=env).expect(0, stderr="")
    assert done.ids == [str(n) for n in range(200)]
    wanted = [str(n % 70) in str(n) for n in range(200)]
    assert [record["score"]["pass"] for record in done.records] == wanted
    assert (tmp_path / "starts").read_text().count("x") < 10, "a process for each record"


# --- ae-grader-git --------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with three committed files, one of them in a directory."""
    root = tmp_path / "repository"
    (root / "sub").mkdir(parents=True)
    for name in ("kept.txt", "other.txt", "sub/inner.txt"):
        (root / name).write_text(f"content of {name}\n" * 5)
    git(root, "init", "-q", ".")
    git(root, "add", ".")
    commit(root)
    return root


def git(root: Path, *args: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *args], cwd=root, check=True, env=clean_env(root.parent), capture_output=True)


def commit(root: Path) -> None:
    git(root, "commit", "-q", "-m", "a commit")


def look(cwd: Path | str | None, *args: str, code: int = 0) -> Record:
    """What the grader says about a directory."""
    record = {"id": "a", "output": "o"} | ({} if cwd is None else {"cwd": str(cwd)})
    return answers("ae-grader-git", *args, records=[record], code=code)[0]


def files(answer: Record) -> tuple[list[str], list[str], list[str]]:
    outcome = answer["outcome"]
    return outcome["filesCreated"], outcome["filesChanged"], outcome["filesDeleted"]


@needs_git
def test_git_sees_what_was_created_changed_and_deleted(repository: Path) -> None:
    (repository / "new.txt").write_text("n")
    (repository / "fresh" / "deep").mkdir(parents=True)
    (repository / "fresh" / "deep" / "file").write_text("n")
    (repository / "kept.txt").write_text("changed")
    (repository / "sub" / "inner.txt").unlink()
    answer = look(repository)
    assert (answer["pass"], answer["score"]) == (True, 1.0)
    assert files(answer) == (["fresh/deep/file", "new.txt"], ["kept.txt"], ["sub/inner.txt"])
    for name in ("new.txt", "kept.txt", "sub/inner.txt"):
        assert name in answer["reasoning"]


@needs_git
def test_git_does_not_mind_whether_a_change_is_staged(repository: Path) -> None:
    (repository / "new.txt").write_text("n")
    (repository / "kept.txt").write_text("changed")
    git(repository, "rm", "-q", "other.txt")
    git(repository, "add", ".")
    assert files(look(repository)) == (["new.txt"], ["kept.txt"], ["other.txt"])
    (repository / "new.txt").write_text("again")
    (repository / "kept.txt").unlink()
    assert files(look(repository)) == (["new.txt"], [], ["kept.txt", "other.txt"])


@needs_git
def test_git_file_that_came_and_went(repository: Path) -> None:
    """Staged, then deleted: nothing was created."""
    (repository / "brief.txt").write_text("n")
    git(repository, "add", "brief.txt")
    (repository / "brief.txt").unlink()
    answer = look(repository)
    assert "brief.txt" not in answer["outcome"]["filesCreated"]
    assert answer["pass"] is False


@needs_git
def test_git_rename_is_a_deletion_and_a_creation(repository: Path) -> None:
    git(repository, "mv", "kept.txt", "moved.txt")
    assert files(look(repository)) == (["moved.txt"], [], ["kept.txt"])


@needs_git
def test_git_gives_names_as_they_are(repository: Path) -> None:
    names = ["with space", "with\nnewline", "é ü 日本", 'quo"te', "back\\slash", "-dash", " lead", "a -> b"]
    for name in names:
        (repository / name).write_text("n")
    assert files(look(repository))[0] == sorted(names)
    git(repository, "config", "status.relativePaths", "false")
    git(repository, "config", "core.quotePath", "true")
    assert files(look(repository))[0] == sorted(names)


@needs_git
def test_git_in_a_subdirectory_looks_at_that_directory(repository: Path) -> None:
    (repository / "outside.txt").write_text("n")
    assert look(repository / "sub")["pass"] is False
    (repository / "sub" / "inside.txt").write_text("n")
    (repository / "sub" / "inner.txt").write_text("changed")
    answer = look(repository / "sub", "--require", "inside.txt")
    assert answer["pass"] is True
    created, changed, deleted = files(answer)
    assert [name.rpartition("/")[2] for name in created] == ["inside.txt"]
    assert [name.rpartition("/")[2] for name in changed] == ["inner.txt"]
    assert deleted == []


@needs_git
def test_git_ignores_what_the_repository_ignores(repository: Path) -> None:
    (repository / ".gitignore").write_text("*.log\n")
    git(repository, "add", ".")
    commit(repository)
    (repository / "x.log").write_text("n")
    answer = look(repository)
    assert (answer["pass"], files(answer)) == (False, ([], [], []))


@needs_git
def test_git_is_told_by_no_agent_what_to_ignore(repository: Path) -> None:
    """Only what the commit ignores is ignored: in its own directory, and with the exceptions it makes."""
    (repository / ".gitignore").write_text("*.log\nbuild/\n:odd\n")
    (repository / "sub" / ".gitignore").write_text("!kept.log\n/local\n")
    git(repository, "add", ".")
    commit(repository)
    (repository / "build").mkdir()
    for name in ("a.log", "build/a", ":odd", "sub/kept.log", "sub/local", "local", "new"):
        (repository / name).write_text("n")
    assert files(look(repository)) == (["local", "new", "sub/kept.log"], [], [])
    (repository / ".gitignore").write_text("*\n")
    (repository / "sub" / ".gitignore").unlink()
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "exclude").write_text("*\n")
    git(repository, "config", "core.excludesFile", str(repository / ".gitignore"))
    git(repository, "update-index", "--assume-unchanged", "kept.txt", ".gitignore")
    (repository / "kept.txt").write_text("changed")
    expected = (["local", "new", "sub/kept.log"], [".gitignore", "kept.txt"], ["sub/.gitignore"])
    assert files(look(repository)) == expected


@needs_git
def test_git_runs_nothing_that_an_agent_has_set_up(repository: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    trap = script(tmp_path / "trap", f'echo "$0 $@" >> {ran}; cat')
    settings = ("core.fsmonitor", "filter.trap.clean", "filter.trap.process", "diff.trap.command", "diff.external")
    for setting in (*settings, "diff.trap.textconv", "core.sshCommand", "core.pager", "core.editor", "alias.status"):
        git(repository, "config", setting, str(trap))
    git(repository, "config", "core.worktree", str(tmp_path))
    git(repository, "config", "core.hooksPath", str(tmp_path / "hooks"))
    (tmp_path / "hooks").mkdir()
    script(tmp_path / "hooks" / "post-index-change", str(trap))
    (repository / ".gitattributes").write_text("* filter=trap diff=trap\n")
    (repository / "kept.txt").write_text("changed")
    assert files(look(repository)) == ([".gitattributes"], ["kept.txt"], [])
    assert not ran.exists(), ran.read_text()


@needs_git
def test_git_looks_at_the_directory_and_not_where_variables_point(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "other")
    (repository / "new.txt").write_text("n")
    env = {"GIT_DIR": str(tmp_path / "other" / ".git"), "GIT_INDEX_FILE": "/nowhere", "GIT_CONFIG_COUNT": "x"}
    record = jsonl({"id": "a", "output": "o", "cwd": str(repository)})
    command = ("--command", 'test -z "$GIT_DIR$GIT_INDEX_FILE"')
    done = run("ae-grader-git", *command, stdin=record, env=env).expect(0, stderr="")
    assert files(done.records[0]) == (["new.txt"], [], []) and done.records[0]["pass"], done


@needs_git
def test_git_looks_into_submodules(repository: Path, tmp_path: Path) -> None:
    above = tmp_path / "above"
    git(tmp_path, "init", "-q", "above")
    git(above, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(repository), "inner")
    commit(above)
    assert files(look(above)) == ([], [], [])
    (above / "inner" / "new").write_text("n")
    assert files(look(above)) == ([], ["inner"], [])
    git(above / "inner", "add", ".")
    commit(above / "inner")
    assert files(look(above)) == ([], ["inner"], [])


@needs_git
def test_git_misses_nothing_that_a_sparse_checkout_leaves_out(repository: Path) -> None:
    git(repository, "sparse-checkout", "set", "--no-cone", "/kept.txt", "/other.txt")
    assert not (repository / "sub").exists()
    (repository / "other.txt").unlink()
    assert files(look(repository)) == ([], [], ["other.txt"])


@needs_git
def test_git_with_longer_names_of_commits(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256", "new")
    for name in ("a", "b"):
        (tmp_path / "new" / name).write_text("n")
        git(tmp_path / "new", "add", ".")
        commit(tmp_path / "new")
    (tmp_path / "new" / "b").write_text("changed")
    assert files(look(tmp_path / "new")) == ([], ["b"], [])


@needs_git
def test_git_mode_and_link_changes_count(repository: Path) -> None:
    (repository / "kept.txt").chmod(0o755)
    (repository / "other.txt").unlink()
    (repository / "other.txt").symlink_to("kept.txt")
    assert files(look(repository)) == ([], ["kept.txt", "other.txt"], [])


@needs_git
def test_git_nothing_changed(repository: Path) -> None:
    answer = look(repository)
    assert (answer["pass"], answer["score"]) == (False, 0.0)
    assert "no file changed" in answer["reasoning"]
    assert look(repository, "--allow-unchanged")["pass"] is True


@needs_git
def test_git_before_the_first_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "new")
    assert look(tmp_path / "new")["pass"] is False
    (tmp_path / "new" / "file").write_text("n")
    assert files(look(tmp_path / "new")) == (["file"], [], [])


@needs_git
@pytest.mark.parametrize("where", ["no repository", "no directory", "no cwd"])
def test_git_without_a_repository(where: str, tmp_path: Path) -> None:
    place = {"no repository": tmp_path, "no directory": tmp_path / "nowhere", "no cwd": None}[where]
    answer = look(place, code=1)
    says = {
        "no repository": "not a git repository",
        "no directory": "nowhere no longer exists",
        "no cwd": '"cwd" is missing',
    }
    assert set(answer) == {"error"} and says[where] in answer["error"]


@needs_git
def test_git_command(repository: Path) -> None:
    (repository / "new.txt").write_text("n")
    good = look(repository, "--command", "grep -q n new.txt && echo noise && echo noise >&2")
    assert (good["pass"], good["score"]) == (True, 1.0)
    assert good["outcome"]["exitCode"] == 0 and good["outcome"]["commandPassed"] is True
    bad = look(repository, "--command", "exit 7")
    assert (bad["pass"], bad["score"]) == (False, 0.5)
    assert bad["outcome"]["exitCode"] == 7 and bad["outcome"]["commandPassed"] is False
    assert "`exit 7`" in bad["reasoning"]


@needs_git
def test_git_keeps_what_the_command_printed(repository: Path) -> None:
    """stdout and stderr in order, also of a command that fails; of much, whole lines at the end."""
    noisy = look(repository, "--command", "echo one; echo two >&2; echo é; exit 1")
    assert noisy["outcome"]["output"] == "one\ntwo\né\n"
    assert look(repository, "--command", "true")["outcome"]["output"] == ""
    lines = look(repository, "--command", "seq 100000")["outcome"]["output"].splitlines()
    assert lines == [str(number) for number in range(100_001 - len(lines), 100_001)]
    assert 8000 < sum(len(line) + 1 for line in lines) <= 8192
    assert "output" not in look(repository)["outcome"]


@needs_git
@pytest.mark.skipif(not shutil.which("setsid"), reason="setsid is not on PATH")
def test_git_command_whose_child_holds_the_output(repository: Path, mark: str) -> None:
    answer = look(repository, "--command", f"setsid sleep {mark} & echo done")
    assert answer["outcome"]["output"] == "done\n" and answer["outcome"]["exitCode"] == 0


@needs_git
def test_git_command_that_takes_too_long(repository: Path, mark: str) -> None:
    (repository / "new.txt").write_text("n")
    answer = look(repository, "--command", f"sleep {mark} & sleep {mark}; true", "--command-timeout", "300")
    assert (answer["pass"], answer["outcome"]["exitCode"], answer["outcome"]["commandPassed"]) == (False, None, False)
    expect_gone(mark)


@needs_git
def test_git_does_not_count_what_its_own_command_leaves(repository: Path) -> None:
    answer = look(repository, "--command", "touch made-by-the-check")
    assert files(answer) == ([], [], [])
    assert answer["pass"] is False


@needs_git
def test_git_required_files(repository: Path) -> None:
    (repository / "new.txt").write_text("n")
    answer = look(repository, "--require", "new.txt", "--require", "sub/inner.txt", "--require", "missing.md")
    assert (answer["pass"], answer["score"]) == (False, 0.75)
    assert "missing.md" in answer["reasoning"] and "sub/inner.txt exists" not in answer["reasoning"]


@needs_git
def test_git_through_run_and_grade(tmp_path: Path, repository: Path) -> None:
    """The whole way: a template, an agent that changes one workspace of two, the grader."""
    prompts = jsonl({"id": "does", "input": "touch done.txt"}, {"id": "does not", "input": "true"})
    args = ["--workspace-dir", "ws", "--workspace-template", repository]
    raw = run("ae-run", "--keep-order", "--shell", 'eval "$PROMPT"', *args, stdin=prompts, cwd=tmp_path).expect(0)
    results = jsonl(*({**record, "output": "o"} for record in raw.records))
    done = run("ae-grade", "-g", "git=ae-grader-git --require done.txt", stdin=results, cwd=tmp_path).expect(0)
    does, does_not = done.records
    assert does["score"]["pass"] and does["outcome"]["filesCreated"] == ["done.txt"]
    assert not does_not["score"]["pass"]
    assert not any("rawLines" in json.dumps(record["score"]) for record in done.records)


@needs_git
def test_git_leaves_nothing_when_it_is_killed(repository: Path, tmp_path: Path, mark: str) -> None:
    """Neither its temporary files nor its command, whoever started it."""
    place = tmp_path / "tmp"
    place.mkdir()
    with Running("ae-grader-git", "--command", f"sleep {mark}", cwd=tmp_path, env={"TMPDIR": str(place)}) as tool:
        tool.feed({"id": "a", "cwd": str(repository)})
        until(lambda: sleepers(mark), "its command runs")
        assert list(place.iterdir())
        tool.signal(9)
    expect_gone(mark)
    until(lambda: not list(place.iterdir()), "its temporary files are gone")


@needs_git
def test_git_does_not_count_its_own_temporary_files(repository: Path) -> None:
    (repository / "tmp").mkdir()
    (repository / "new.txt").write_text("n")
    record = jsonl({"id": "a", "cwd": str(repository)})
    done = run("ae-grader-git", stdin=record, env={"TMPDIR": str(repository / "tmp")}).expect(0, stderr="")
    assert files(done.records[0]) == (["new.txt"], [], [])
    assert not list((repository / "tmp").iterdir())


# --- ae-grader-git and others on the same workspace -----------------------------------------------


@needs_git
def test_a_command_runs_in_a_copy(repository: Path) -> None:
    """What it writes, deletes and commits is gone afterwards; it has the whole history and the agent's files."""
    (repository / "new.txt").write_text("n")
    before = sorted(path.relative_to(repository) for path in repository.rglob("*"))
    command = (
        "test -f new.txt && git log --oneline | grep -q 'a commit' && rm kept.txt && mkdir __pycache__ && "
        "touch __pycache__/x.pyc made && git add -A && git -c user.name=n -c user.email=e commit -qm more && pwd"
    )
    answer = look(repository, "--command", command)
    assert answer["outcome"]["exitCode"] == 0, answer
    copy = Path(answer["outcome"]["output"].strip())
    assert copy.name == "repository" and copy != repository and not copy.parent.exists()
    after = sorted(path.relative_to(repository) for path in repository.rglob("*"))
    assert [path for path in after if ".git" not in path.parts] == [path for path in before if ".git" not in path.parts]
    assert files(look(repository)) == (["new.txt"], [], [])


@needs_git
def test_what_one_grader_leaves_is_not_created_by_the_agent(tmp_path: Path) -> None:
    """Two graders on one workspace: the second saw the __pycache__ of the first."""
    tests = f"{sys.executable} -c 'import code_of_agent'"
    script(tmp_path / "imports.sh", f"cd ws/prompt-a && {tests}; echo '{{\"pass\": true}}'")
    graders = ("-g", "./imports.sh", "-g", f'one=ae-grader-git --command "{tests}"', "-g", "two=ae-grader-git")
    agent = ("--shell", "echo 'x = 1' > code_of_agent.py", "--workspace-dir", "ws", "--workspace-git")
    [record] = (
        run("ae-capture", *agent, *graders, stdin=jsonl({"id": "a", "input": "x"}), cwd=tmp_path).expect(0).records
    )
    for name in ("one", "two"):
        assert record["scores"][name]["outcome"]["filesCreated"] == ["code_of_agent.py"], record["scores"][name]


@needs_git
def test_a_command_gets_the_record(repository: Path) -> None:
    record = {"id": "it's a", "output": "o", "cwd": str(repository / "sub"), "mine": [1]}
    command = 'printf "%s\\n" "$AE_ID"; cat "$AE_RECORD"; cat inner.txt > /dev/null'
    [answer] = answers("ae-grader-git", "--allow-unchanged", "--command", command, records=[record])
    name, stored = answer["outcome"]["output"].splitlines()
    assert (name, json.loads(stored)) == ("it's a", record)


@needs_git
def test_hidden_tests_are_copied_over_the_copy(repository: Path, tmp_path: Path) -> None:
    """Whatever the agent put in their place: files, directories, links that lead elsewhere."""
    hidden = tmp_path / "hidden" / "a" / "tests"
    (hidden / "deep").mkdir(parents=True)
    (hidden / "check.sh").write_text("grep -q right ../answer.txt\n")
    (hidden / "deep" / "data").write_text("data")
    (repository / "answer.txt").write_text("right")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "check.sh").write_text("exit 0\n")
    (repository / "tests").symlink_to(outside)
    command = ("--command", "cd tests && sh check.sh && test -f deep/data")
    options = ("--tests", str(tmp_path / "hidden" / "{id}"), *command)
    assert look(repository, *options)["pass"] is True
    (repository / "answer.txt").write_text("wrong")
    assert look(repository, *options)["outcome"]["exitCode"] == 1
    assert (outside / "check.sh").read_text() == "exit 0\n" and not (outside / "deep").exists()
    assert (repository / "tests").is_symlink()
    by_field = ("--tests", str(tmp_path / "hidden" / "{metadata.suite}"), *command)
    assert look(repository, *by_field, code=1)["error"].endswith('the record has no "metadata.suite"')
    other = {"id": "b", "output": "o", "cwd": str(repository)}
    [answer] = answers("ae-grader-git", *options, records=[other], code=1)
    assert answer["error"].endswith("hidden/b: no such directory")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--tests", "tests"], "--tests needs --command"),
        (["--tests", "nowhere", "--command", "true"], "--tests nowhere: no such directory"),
    ],
)
def test_tests_that_cannot_be_run_are_refused(options: list[str], says: str, tmp_path: Path) -> None:
    run("ae-grader-git", *options, cwd=tmp_path).expect(2).says(says)


@needs_git
def test_a_workspace_of_another_run_or_none_is_no_evidence(tmp_path: Path) -> None:
    """Two runs shared a workspace directory: grading the first again graded the files of the second."""
    place = tmp_path / "ws" / "prompt-a"
    place.mkdir(parents=True)
    git(place, "init", "-q", ".")
    (place / "file").write_text("n")
    marker = tmp_path / "ws" / ".agenteval" / "prompt-a"
    marker.parent.mkdir()
    marker.write_text("1 2 made\nsecond\n")
    record = {"id": "a", "output": "o", "cwd": str(place), "metadata": {"runId": "first"}}
    done = run("ae-grade", "-g", "ae-grader-git", stdin=jsonl(record), cwd=tmp_path).expect(1)
    assert "belongs to another run (second, this record to first)" in done.records[0]["graderError"]
    for same in ({"runId": "second"}, {}):
        assert answers("ae-grader-git", records=[{**record, "metadata": same}])[0]["pass"] is True
    marker.write_text("1 2 made\n")
    assert answers("ae-grader-git", records=[record])[0]["pass"] is True


@needs_git
def test_a_run_in_the_workspaces_of_another_leaves_that_one_without_evidence(tmp_path: Path) -> None:
    """The recipes of AGENTS.md shared one directory: grading the first run again graded the files of the second."""
    prompt = jsonl({"id": "a", "input": "x"})
    for name in ("first", "second"):
        agent = ("--shell", f"touch {name}", "--workspace-dir", "ws", "--workspace-git", "-o", f"{name}.jsonl")
        run("ae-capture", *agent, stdin=prompt, cwd=tmp_path).expect(0)
    done = run("ae-grade", "first.jsonl", "-g", "ae-grader-git", cwd=tmp_path).expect(1)
    assert "belongs to another run" in done.records[0]["graderError"]
    done = run("ae-grade", "second.jsonl", "-g", "ae-grader-git", cwd=tmp_path).expect(0)
    assert done.records[0]["outcome"]["filesCreated"] == ["second"]
