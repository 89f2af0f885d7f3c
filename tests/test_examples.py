"""The examples, run as a user runs them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from tests.support.tool import BIN, Done, run

ROOT = BIN.parent


README = (ROOT / "README.md").read_text()


def test_the_readmes_first_command_has_a_workspace() -> None:
    commands = re.findall(r"^ae-(?:run|capture|trials) .*$", README, re.MULTILINE)
    assert len(commands) >= 4 and all("--workspace-dir" in command for command in commands)


def test_the_quickstart(tmp_path: Path) -> None:
    """Runs the recipe from a copy outside the checkout, with the tools on PATH."""
    copy = tmp_path / "quickstart"
    shutil.copytree(ROOT / "examples" / "quickstart", copy, ignore=shutil.ignore_patterns("build", "__pycache__"))
    done = run("/bin/sh", "-c", "make show", cwd=copy, timeout=90).expect(0)
    assert "CANNOT TELL  hasty from careful" in done.stdout and "build/comparison.json" in done.stdout, done
    assert done.page() == copy / "build" / "comparison.html"
    report = json.loads((copy / "build" / "comparison.json").read_text())
    assert report["meta"]["promptCount"] == 12
    careful = [json.loads(line) for line in (copy / "build" / "careful.graded.jsonl").read_text().splitlines()]
    assert len(careful) == 12
    assert {record["id"] for record in careful if record.get("errors")} == {"far-future"}
    assert {record["id"] for record in careful if record["toolErrors"]} >= {"product-large"}
    turns = next(record for record in careful if record["id"] == "two-turns")
    assert turns["metadata"]["turnCount"] == 2 and "1370" in turns["output"], "the second turn knows the first"
    assert report["quality"]["careful"]["passCount"] > report["quality"]["hasty"]["passCount"]
    again = run("/bin/sh", "-c", "make show", cwd=copy).expect(0)
    assert "ae-run" not in again.stdout, "nothing is run a second time"
    # The first command of the README is the same recipe; here it finds everything made.
    demo = ("make", "-o", ".venv/.installed", "demo", f"BUILD={copy / 'build'}")
    shown = run("/usr/bin/env", *demo, cwd=ROOT, timeout=90).expect(0)
    assert "CANNOT TELL  hasty from careful" in shown.stdout and "ae-run" not in shown.stdout, shown


def test_the_regression_check(tmp_path: Path) -> None:
    """The recipe passes as stored, and fails with an agent that became worse or a wrong reference."""
    copy = tmp_path / "regression"
    shutil.copytree(ROOT / "examples" / "regression", copy, ignore=shutil.ignore_patterns("build", "__pycache__"))

    def check(*settings: str) -> Done:
        return run("/usr/bin/env", "make", "check", *settings, cwd=copy, timeout=60)

    passing = check("K=1").expect(0)
    assert "not shown to be worse than the baseline" in passing.stdout
    assert passing.page() == copy / "build" / "trials.html"
    assert passing.stderr.count("now and baseline: equal on all 14 prompts") == 2, passing
    good = (copy / "agent").read_text()

    (copy / "agent").write_text(good.replace("{skill(words)}", "{skill(words)}, I think"))
    everything = check("K=1")
    assert everything.code != 0 and everything.page().exists()
    assert everything.stderr.count("now is worse than baseline: pass rate 92.9% → 0.0%, -92.9 points") == 2, everything
    named = (copy / "build" / "results.md").read_text()
    assert "Passed in **baseline**, not in now (13): " in named and "no difference shown" not in named

    (copy / "agent").write_text(good)
    prompts = (copy / "prompts.jsonl").read_text()
    (copy / "prompts.jsonl").write_text(prompts.replace("The answer is: 4", "The answer is: 5"))
    (copy / "build" / "results.jsonl").unlink()
    wrong_reference = check()
    assert wrong_reference.code != 0
    assert "vowels-short" in wrong_reference.stderr
    assert not (copy / "build" / "results.jsonl").exists(), "no agent is run for a wrong evaluation"


def test_the_wikipedia_evaluation(tmp_path: Path) -> None:
    """Runs all of it offline on three of the questions; the evaluation is neither empty nor perfect."""
    copy = tmp_path / "wikipedia"
    shutil.copytree(ROOT / "examples" / "wikipedia", copy, ignore=shutil.ignore_patterns("build", "__pycache__"))
    questions = json.loads((copy / "ground_truth.json").read_text())
    assert len(questions) == 20 and questions[0]["question"] == "What factors influence customer behavior?"
    (copy / "ground_truth.json").write_text(json.dumps([*questions[:2], questions[-1]]))
    done = run("/bin/sh", "-c", "make", cwd=copy, timeout=120).expect(0)
    assert "Hit rate" in done.stdout and "offline" in done.stdout, done
    assert done.page() == copy / "build" / "offline" / "report.html"
    evaluation = json.loads((copy / "build" / "offline" / "evaluation.json").read_text())
    assert evaluation["num_questions"] == len(evaluation["results"]) == 3
    summary = evaluation["summary"]
    cited = round(3 * summary["avg_hit_rate"])
    counted = rf"^Of 3 questions, an expected source was read for [{cited}-3] and cited for {cited}\.$"
    assert re.search(counted, done.stdout, re.MULTILINE), done
    assert 0.5 <= summary["avg_hit_rate"] < 1.0, "earned, not given"
    assert 0.4 <= summary["avg_mrr"] <= summary["avg_hit_rate"]
    assert 0.3 <= summary["avg_judge_score"] < 1.0
    assert summary["total_tokens"] > 10_000
    assert summary["best_combined_score"] >= summary["avg_combined_score"] > 0
    graded = [json.loads(line) for line in (copy / "build" / "offline" / "graded.jsonl").read_text().splitlines()]
    assert not any(record.get("errors") or record.get("graderError") for record in graded)
    for record in graded:
        assert record["metadata"]["model"] == "offline"
        assert record["scores"]["judge"]["outcome"]["judge_model"] == "offline"
        cites = bool(json.loads(record["output"])["sources_used"])
        assert record["scores"]["tools"]["pass"] == cites, "an answer without a source is not as the schema has it"
    assert "ae-run" not in run("/bin/sh", "-c", "make", cwd=copy).expect(0).stdout, "nothing is run a second time"
