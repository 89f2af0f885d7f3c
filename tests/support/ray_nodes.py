"""A Ray cluster of several nodes on this machine."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator
from typing import Any

import pytest


class TwoNodes:
    """A head without CPUs and nodes with two each: what runs, runs on a node that can be removed."""

    def __init__(self, cluster: Any, client_port: int) -> None:
        self.cluster, self.address = cluster, cluster.address
        self.client_address = f"ray://127.0.0.1:{client_port}"
        self.nodes = [cluster.add_node(num_cpus=2), cluster.add_node(num_cpus=2)]


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[TwoNodes]:
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
            yield TwoNodes(cluster, port)
        finally:
            cluster.shutdown()
