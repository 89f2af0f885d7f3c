"""A Slurm cluster of one node on this machine: munged, slurmctld and slurmd, all below a temporary folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.watching import until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
PATH = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
CONF = """\
ClusterName=agenteval
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Returns why no cluster can be started here, "" if one can."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    if absent:
        return f"{', '.join(absent)} not found: apt-get install slurm-wlm munge"
    return "" if os.geteuid() == 0 else "slurmctld and slurmd are started by root only"


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[dict[str, str]]:
    """Starts the cluster; yields the environment in which sbatch finds it."""
    (folder / "spool").mkdir(parents=True)
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    host = socket.gethostname().partition(".")[0]
    conf = folder / "slurm.conf"
    conf.write_text(CONF.format(host=host, folder=folder, controller=_free_port(), node=_free_port()))
    env = {**os.environ, "PATH": PATH, "SLURM_CONF": str(conf)}
    names = {"key-file": key, "socket": folder / "munge.socket", "pid-file": folder / "munged.pid"}
    files = names | {"log-file": folder / "munged.log", "seed-file": folder / "munged.seed"}
    with ExitStack() as stack:
        stack.enter_context(
            _running(["munged", "-F", "--force", *(f"--{name}={path}" for name, path in files.items())], env)
        )
        until(names["socket"].exists, "munged listens")
        for daemon in ("slurmctld", "slurmd"):
            stack.enter_context(_running([daemon, "-D", "-f", str(conf)], env))
        until(lambda: _state(env) == "idle", "the node is idle", within=60)
        yield env


def _state(env: dict[str, str]) -> str:
    return subprocess.run(["sinfo", "-h", "-o", "%T"], env=env, capture_output=True, text=True).stdout.strip()


@contextmanager
def _running(command: list[str], env: dict[str, str]) -> Iterator[None]:
    daemon = subprocess.Popen(
        [str(shutil.which(command[0], path=PATH)), *command[1:]],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        daemon.terminate()
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
