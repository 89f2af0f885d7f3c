"""A Ray cluster of several nodes on this machine."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class TwoNodes:
    """A head without CPUs and nodes with two each: what runs, runs on a node that can be removed.

    Programs in the directory `tools` are on the PATH of these nodes, and not on that of others.
    """

    def __init__(self, cluster: Any, client_port: int, tools: Path) -> None:
        self.cluster, self.address, self.tools = cluster, cluster.address, tools
        self.client_address = f"ray://127.0.0.1:{client_port}"
        self.nodes = [self.add(), self.add()]

    def add(self) -> Any:
        """Adds a node with the tools."""
        path = os.pathsep.join([str(self.tools), os.environ["PATH"]])
        return self.cluster.add_node(num_cpus=2, env_vars={"PATH": path})


@pytest.fixture(scope="session")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    """Starts the cluster once for all tests."""
    pytest.importorskip("ray", reason="Ray is not installed: make test-cluster")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "ray_client_server_port": port}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            yield TwoNodes(cluster, port, tmp_path_factory.mktemp("tools"))
        finally:
            cluster.shutdown()
