"""The names of runs: labels that the user gives, or labels made from the paths."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from agenteval.errors import UserError

EXTENSIONS = (".jsonl", ".ndjson", ".json")


class NamedRun(NamedTuple):
    """A file and the label that the user gave it, if any."""

    label: str | None
    path: str


def named_run(text: str, *, labelled: bool) -> NamedRun:
    """Parses `label:path` or `path`; without --run, the name of an existing file may have a colon."""
    label, colon, path = text.partition(":")
    if not colon or (not labelled and os.path.exists(text)):
        return NamedRun(None, text)
    if not label or not path:
        raise UserError(f"{text}: give a run as LABEL:PATH")
    return NamedRun(label, path)


def named_runs(paths: Sequence[str], labelled: Sequence[str]) -> list[NamedRun]:
    """The runs given as arguments, then those given with --run."""
    return [named_run(text, labelled=False) for text in paths] + [named_run(text, labelled=True) for text in labelled]


def label_runs(runs: Sequence[NamedRun]) -> list[tuple[str, str]]:
    """Label and path of each run: the user's label, else one made from the path; UserError if two are the same."""
    if len(runs) < 2:
        raise UserError("two runs or more are needed: ae-compare A.jsonl B.jsonl")
    if [run.path for run in runs].count("-") > 1:
        raise UserError("stdin (-) can be one run only")
    made = iter(distinct_labels([run.path for run in runs if run.label is None]))
    labelled = [(next(made) if run.label is None else run.label, run.path) for run in runs]
    seen: set[str] = set()
    for label, path in labelled:
        if label in seen:
            raise UserError(f"{path}: another run is called {label} too; name it: --run LABEL:{path}")
        seen.add(label)
    return labelled


def distinct_labels(paths: Sequence[str]) -> list[str]:
    """File names without extension and shared endings (.graded); with folders where two would be the same."""
    parts = [_label_parts(path) for path in paths]
    labels = _without_shared_ending([part[-1] for part in parts])
    for depth in range(2, max(map(len, parts), default=0) + 1):
        labels = [
            "/".join(part[-depth:]) if labels.count(label) > 1 else label
            for label, part in zip(labels, parts, strict=True)
        ]
    return [
        label if label not in labels[:place] else f"{label}#{labels[: place + 1].count(label)}"
        for place, label in enumerate(labels)
    ]


def _label_parts(path: str) -> list[str]:
    if path == "-":
        return ["stdin"]
    *folders, name = [part for part in path.split("/") if part not in ("", ".")] or [path]
    stem, extension = os.path.splitext(name)
    return [*folders, stem if stem and extension in EXTENSIONS else name]


def _without_shared_ending(names: list[str]) -> list[str]:
    shorter = [name.rpartition(".") for name in names]
    stems = [stem for stem, _, _ in shorter]
    if len({ending for _, _, ending in shorter}) != 1 or not all(stems) or len(set(stems)) < max(2, len(stems)):
        return names
    return _without_shared_ending(stems)
