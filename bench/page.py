"""Measures the html page in a real Chromium, `python -m bench.page [RECORDS STEPS]`: the table in docs/page.md.

First paint is the browser's own figure; a filter is timed from the change of the address to the frame that shows it.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import MB, Job, run, watch
from tests.support.browser import OpenPage, running_browser

ROOT = Path(__file__).resolve().parent.parent
SIZES = [(1000, 20), (10_000, 20), (50_000, 20)]
FILTERS = ["#status=fail", "#category=api", "#q=zebra", "#q=kivo%20mota&status=pass", "#tool=Bash&sort=-tokens", ""]
ROUNDS = 3
TIMED = """hash => new Promise(resolve => {
  const start = performance.now();
  const shown = () => requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
  addEventListener('hashchange', shown, {once: true});
  location.hash = hash || '#';
})"""
COLUMNS = [
    *("records x steps", "JSONL", "page", "CPU of ae-format", "its memory", "first paint", "table"),
    *("all loaded", "slowest filter", "open a record"),
]


def records(count: int, steps: int) -> Iterator[dict[str, Any]]:
    """Yields graded results with trajectories of words that compress as text does."""
    chance = random.Random(7)
    words = [
        "".join(chance.choice("bdfgklmnprstvz") + chance.choice("aeiou") for _ in range(chance.randint(1, 4)))
        for _ in range(4000)
    ]

    def text(length: int) -> str:
        return " ".join(chance.choices(words, k=length))

    for number in range(count):
        trajectory: list[dict[str, Any]] = []
        for step in range(steps):
            if step % 2:
                tool = {"type": "tool_call", "name": chance.choice(["Bash", "Read", "Edit"]), "status": "completed"}
                trajectory.append(
                    {
                        **tool,
                        "input": {"command": text(8)},
                        "output": text(60),
                        "duration": 300,
                        "timestamp": step * 500,
                    }
                )
            else:
                trajectory.append({"type": "thought", "content": text(30), "timestamp": step * 500})
        score = chance.random()
        yield {
            "id": f"case-{number:06}",
            "input": text(20),
            "output": text(60),
            "trajectory": trajectory,
            "metadata": {
                "category": chance.choice(["ui", "api", "docs", "database"]),
                "agent": "robot",
                "model": "model",
            },
            "timing": {
                "start": 0,
                "end": 9000,
                "total": chance.lognormvariate(9, 1),
                "inputTokens": 1000,
                "outputTokens": 200,
            },
            "score": {"pass": score > 0.3, "score": score, "reasoning": text(15)},
        }


def main(sizes: list[tuple[int, int]]) -> None:
    print(f"| {' | '.join(COLUMNS)} |", f"|{'---|' * len(COLUMNS)}", sep="\n")
    with tempfile.TemporaryDirectory() as folder, running_browser() as browser:
        for count, steps in sizes:
            print(row(Path(folder), browser, count, steps), flush=True)


def row(folder: Path, browser: Any, count: int, steps: int) -> str:
    """Makes a page of that size and measures it."""
    source, page = folder / "records.jsonl", folder / "page.html"
    with source.open("w") as file:
        file.writelines(json.dumps(record) + "\n" for record in records(count, steps))
    job = Job([str(ROOT / "bin" / "ae-format"), str(source), "-f", "html", "-o", str(page)])
    made, (peak, _) = run(job), watch(job)
    paints, tables, loads, filters, opens = [], [], [], [], []
    for _ in range(ROUNDS):
        shown = OpenPage(browser, page)
        shown.page.set_default_timeout(600_000)
        view = shown.go()
        paints.append(view.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        tables.append(view.evaluate("performance.getEntriesByName('rows')[0].startTime"))
        loads.append(view.evaluate("performance.getEntriesByName('all')[0].startTime"))
        filters.append(max(view.evaluate(TIMED, fragment) for fragment in FILTERS))
        started = view.evaluate("performance.now()")
        view.evaluate("location.hash = '#id=case-000777'")
        view.wait_for_selector(".record-body .step")
        opens.append(view.evaluate("performance.now()") - started)
        shown.close()
    times = [f"{statistics.median(values):,.0f} ms" for values in (paints, tables, loads, filters, opens)]
    sizes = [f"{file.stat().st_size / MB:,.0f} MB" for file in (source, page)]
    cells = [f"{count:,} x {steps}", *sizes, f"{made.cpu:.1f} s", f"{peak / MB:.0f} MB", *times]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    asked = [int(text) for text in sys.argv[1:]]
    main([(asked[0], asked[1])] if len(asked) == 2 else SIZES)
