"""What an agent leaves running: gone before its record is written, or named in it if it cannot be ended."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.support.tool import BIN, jsonl, start
from tests.support.watching import Running, in_time, sleepers, until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")

OTHER_USER = "setpriv --reuid=54321 --clear-groups"


@pytest.mark.parametrize("concurrency", [1, 8])
def test_no_helper_is_alive_when_its_record_is_written(concurrency: int, mark: str, tmp_path: Path) -> None:
    line = f"sleep {mark} >/dev/null 2>&1 & echo $!"  # the agents end in quick succession
    prompts = [{"id": f"p{number}", "input": "x"} for number in range(60)]
    with Running("ae-run", "-j", concurrency, "--shell", line, cwd=tmp_path) as tool:
        tool.feed(*prompts)
        for _prompt in prompts:
            helper = int(tool.record()["rawLines"][0])
            assert helper not in sleepers(mark)


def test_more_orphans_than_the_kernel_lists_at_once(mark: str, tmp_path: Path) -> None:
    line = f"i=0; while [ $i -lt 900 ]; do (: &) ; i=$((i+1)); done; (sleep {mark} >/dev/null 2>&1 &)"
    with Running("ae-run", "--shell", line, cwd=tmp_path) as tool:
        tool.feed({"id": "a", "input": "x"})
        assert "errors" not in tool.record()
        assert not sleepers(mark)


# --- processes of another user --------------------------------------------------------------------


@pytest.fixture
def powerless() -> list[str]:
    """ae-run as root, which may start processes of another user, without the right to signal them."""
    setpriv = shutil.which("setpriv")
    if os.geteuid() != 0 or setpriv is None:
        pytest.skip("only root can start a process that it may not signal, with setpriv")
    return [setpriv, "--bounding-set=-kill", "--inh-caps=-kill", str(BIN / "ae-run")]


AWAIT = "until pgrep -x -f 'sleep MARK' >/dev/null; do :; done"  # setpriv has become another user, and sleep
AGENTS = {
    "a helper of an agent in time": (f"{OTHER_USER} sleep MARK >/dev/null & {AWAIT}; echo done", 60_000),
    "a helper of an agent that is late": (f"echo done; {OTHER_USER} sleep MARK & wait", 300),
    "the agent itself": (f"echo done; exec {OTHER_USER} sleep MARK", 300),
}


@pytest.mark.parametrize("kind", AGENTS)
def test_what_cannot_be_ended_is_named_and_the_run_goes_on(
    kind: str, powerless: list[str], mark: str, tmp_path: Path
) -> None:
    line, timeout = AGENTS[kind]
    line = f'if [ "$PROMPT" = other ]; then {line.replace("MARK", mark)}; else echo done; fi'

    def is_named(limit: int) -> bool | None:
        """None if the time was over before there was a process of another user."""
        with Running(*powerless, "-t", limit, "--shell", line, cwd=tmp_path) as tool:
            tool.feed({"id": "a", "input": "other"}, {"id": "b", "input": "x", "timeout": 60_000})
            record = tool.record()
            if not sleepers(mark):
                return None
            (helper,) = sleepers(mark)
            assert record["rawLines"] == ["done"]
            why = f"could not be terminated: sleep (process {helper}), which runs as another user"
            assert record["errors"][-1] == why
            assert "errors" not in tool.record()
            done = tool.end()
            assert f"ae-run: {why}\n" in done.stderr, done
            assert done.code == 0, done
        return True

    assert in_time(is_named, timeout)


def test_a_guardian_gives_up_on_what_it_may_not_signal(powerless: list[str], mark: str, tmp_path: Path) -> None:
    line = f"{OTHER_USER} sleep {mark} >/dev/null 2>&1 & sleep {mark}"
    prompt = tmp_path / "prompts.jsonl"
    prompt.write_text(jsonl({"id": "a", "input": "x"}))
    tool = start(*powerless, "--shell", line, stdin=prompt, cwd=tmp_path)
    try:
        until(lambda: len(sleepers(mark)) == 2, "both helpers run")
        (guardian,) = until(lambda: _guardians(tool.pid), "the guardian runs")
    finally:
        tool.send_signal(signal.SIGKILL)
        tool.communicate()
    until(lambda: not Path("/proc", str(guardian)).exists(), "the guardian has ended")
    assert len(sleepers(mark)) == 1, "what it may signal is gone, the rest is left"


def _guardians(tool: int) -> list[int]:
    """The children of the tool that have renamed themselves."""
    children = Path(f"/proc/{tool}/task/{tool}/children").read_text().split()
    return [int(pid) for pid in children if "agenteval" in Path("/proc", pid, "comm").read_text()]
