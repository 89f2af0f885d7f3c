"""What is ended of a Ray cluster: its own processes, and neither its filters nor the clusters of others."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agenteval.cluster.ray_cluster import cluster_mark, end_ray, marked


@contextmanager
def process(mark: int, title: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a process of the cluster with that mark, under a title."""
    with marked(mark):
        started = subprocess.Popen([title, "600"], executable=shutil.which("sleep"))
    with started as running:
        try:
            yield running
        finally:
            running.kill()


def test_only_ray_itself_is_ended(tmp_path: Path) -> None:
    """Also a process that has changed its name, as the agents of Ray do."""
    package = tmp_path / "ray"
    ours, theirs = cluster_mark(), cluster_mark() + 1
    with (
        process(ours, "ray::DashboardAgent") as agent,
        process(ours, f"{package}/core/raylet") as raylet,
        process(ours, f"{package}-evaluation/ae-run") as filter_,
        process(theirs, "ray::DashboardAgent") as other,
    ):
        end_ray(ours, str(package))
        assert (agent.wait(10), raylet.wait(10)) == (-9, -9)
        assert filter_.poll() is None and other.poll() is None
