"""The rows of the table: name → function that measures it and yields what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.findings import Finding
from bench.rows import extract, grade, peers, ray, reports, run, scale, start
from bench.setting import Setting

ROWS: dict[str, Callable[[Setting], Iterator[Finding]]] = {
    "start": start.measure,
    "extract": extract.measure,
    "run": run.measure,
    "grade": grade.measure,
    "stream": grade.measure_streams,
    "compare": reports.measure_compare,
    "format": reports.measure_forms,
    "scale": scale.measure,
    "pipeline": scale.measure_pipeline,
    "peers": peers.measure,
    "ray": ray.measure,
}
