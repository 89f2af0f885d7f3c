"""ae-import: what claude plugin eval, Harbor and promptfoo wrote, with the same pass or fail for each case."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.tool import ROOT, Record, run

DATA = ROOT / "tests" / "data" / "suites"


def imported(format_: str, *paths: Path, code: int = 0) -> dict[str, Record]:
    return {record["id"]: record for record in run("ae-import", format_, *paths).expect(code).records}


def test_results_of_claude_plugin_eval() -> None:
    path = DATA / "claude-evals" / "aggregate-result.json"
    theirs = {case["name"]: case["arms"] for case in json.loads(path.read_text())["cases"]}
    results = imported("claude-evals", path)
    assert len(results) == 16 and {"greeting", "greeting#2", "greeting@without", "greeting@without#2"} <= results.keys()
    for name, arms in theirs.items():
        for arm, one in (("with", name), ("without", f"{name}@without")):
            assert results[one]["score"] == {"pass": arms[arm][0]["passed"], "score": arms[arm][0]["score"]}
    farewell = results["farewell"]
    assert farewell["scores"]["says-goodbye"]["reasoning"] == "pattern not found in last_message"
    assert farewell["metadata"]["arm"] == "with" and farewell["timing"]["costUsd"] > 0
    assert "skill-fired" not in results["greeting"]["scores"]  # it is not scored with two arms


def test_trials_of_a_harbor_job() -> None:
    """Written with the models of harbor 0.25.0."""
    results = imported("harbor", DATA / "harbor-job")
    assert {name: one.get("score", {}).get("pass") for name, one in results.items()} == {
        "acme/right": True,
        "acme/wrong": False,
        "acme/broken": None,
    }
    assert results["acme/broken"]["errors"] == ["RuntimeError: container died"]
    right = results["acme/right"]
    assert (right["input"], right["output"]) == ("Write hello.txt.", "Done.")
    assert right["trajectory"][1]["name"] == "Write" and right["trajectory"][1]["stepId"] == "acme/right-step-2"
    assert right["timing"]["total"] == 30_000 and right["timing"]["inputTokens"] == 1200
    job = DATA / "harbor-job"
    run("ae-import", "harbor", job / "hello__right" / "agent" / "trajectory.json").expect(1).says("not the result of a")
    run("ae-import", "claude-evals", job / "result.json").expect(1).says("not a result of claude plugin eval")


def test_jobs_that_harbor_ran() -> None:
    """Harbor 0.25.0 ran the tasks of harbor-image in podman: with their solutions (oracle), and with no agent (nop)."""
    expected = {
        "oracle": {"acme/hello": True, "acme/scores": True, "acme/stubborn": False},
        "nop": {"acme/hello": False, "acme/scores": False, "acme/stubborn": False},
    }
    for agent, verdicts in expected.items():
        results = imported("harbor", DATA / "harbor-jobs" / agent)
        assert {name: one["score"]["pass"] for name, one in results.items()} == verdicts
        assert {one["metadata"]["agent"] for one in results.values()} == {agent}
    assert results["acme/scores"]["scores"]["lines"]["score"] == 0.5


def test_results_of_promptfoo() -> None:
    path = DATA / "promptfoo" / "results.json"
    theirs = json.loads(path.read_text())["results"]["results"]
    results = imported("promptfoo", path)
    assert {name: one["score"]["pass"] for name, one in results.items()} == {
        f"{one['testIdx'] + 1}-{one['promptIdx'] + 1}": one["success"] for one in theirs
    }
