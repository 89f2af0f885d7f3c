"""The rows of the table: name → function that measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bench.rows import compare, container, extract, format_, grade, peers, pipeline, ray, run, shapes, start, stream
from bench.setting import Setting
from bench.table import Finding

ROWS: dict[str, Callable[[Setting], Iterator[Finding]]] = {
    "start": start.measure,
    "extract": extract.measure,
    "shapes": shapes.measure,
    "run": run.measure,
    "grade": grade.measure,
    "container": container.measure,
    "stream": stream.measure,
    "compare": compare.measure,
    "format": format_.measure,
    "pipeline": pipeline.measure,
    "peers": peers.measure,
    "ray": ray.rows,
}
