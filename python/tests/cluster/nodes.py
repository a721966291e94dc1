"""A Ray cluster on this machine: every node a group of processes with its own folder, ports and small object store."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

# A busy machine may take a minute to start a node.
READY_LIMIT_S = 180.0
OBJECT_STORE_BYTES = 80_000_000
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # The user of this machine may have a token for clusters of their own.
    "RAY_AUTH_MODE": "disabled",
    # Others may fill the memory of this machine: no task of ours is to be killed for it.
    "RAY_memory_monitor_refresh_ms": "0",
    # Ray starts a worker for each core of the machine in advance, and some more.
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    # A killed node is noticed within seconds.
    "RAY_health_check_initial_delay_ms": "2000",
    "RAY_health_check_period_ms": "1000",
}


class Node:
    """The processes of one `ray start --block`."""

    def __init__(self, folder: Path, arguments: list[str], environment: dict[str, str]) -> None:
        folder.mkdir()
        self.log = folder / "start.log"
        common = [
            "--block",
            "--min-worker-port=0",
            "--max-worker-port=0",
            f"--object-store-memory={OBJECT_STORE_BYTES}",
        ]
        common += [f"--temp-dir={folder / 'ray'}", "--include-log-monitor=false", "--disable-usage-stats"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ray.scripts.scripts", "start", *common, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | ENVIRONMENT | environment,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        wait_until(lambda: "Ray runtime started" in self.log.read_text() or self._fail_if_dead(), "a node of Ray")

    def _fail_if_dead(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        return False

    def processes(self) -> list[psutil.Process]:
        """All processes of the node: they are in the session of the first one, whoever their parent is."""
        return [process for process in psutil.process_iter() if _session(process) == self.process.pid]

    def commands(self, word: str) -> list[psutil.Process]:
        """Those of the command dwell with this argument."""
        return [process for process in self.processes() if word in _arguments(process) and _is_dwell(process)]

    def kill(self) -> None:
        """As when a machine fails: nothing gets the chance to say goodbye."""
        while processes := self.processes():
            for process in processes:
                try:
                    process.send_signal(signal.SIGKILL)
                except psutil.NoSuchProcess:
                    continue
            self.process.poll()
            time.sleep(0.02)
        self.process.wait()


class RayCluster:
    """A head without CPUs, and worker nodes with one each."""

    def __init__(self) -> None:
        # Names of sockets have a limit that the folders of pytest exceed.
        self.folder = Path(tempfile.mkdtemp(prefix="dwell-ray-", dir="/tmp"))
        self.nodes: list[Node] = []
        self._count = 0
        port = _free_port()
        head = self._start(["--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false"], {})
        head.wait_until_ready()
        self.address = next(
            word for word in head.log.read_text().replace("'", " ").split() if word.endswith(f":{port}")
        )

    def add_nodes(self, count: int, **environment: str) -> list[Node]:
        arguments = [f"--address={self.address}", "--num-cpus=1", "--dashboard-agent-listen-port=0"]
        nodes = [self._start(arguments, environment) for _ in range(count)]
        for node in nodes:
            node.wait_until_ready()
        return nodes

    def _start(self, arguments: list[str], environment: dict[str, str]) -> Node:
        self._count += 1
        node = Node(self.folder / str(self._count), arguments, environment)
        self.nodes.append(node)
        return node

    def stop(self) -> None:
        for node in reversed(self.nodes):
            node.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def wait_until(is_so: object, what: str, limit_s: float = READY_LIMIT_S) -> None:
    """Polls until a function says so."""
    assert callable(is_so)
    end_s = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < end_s, f"waited {limit_s:.0f} s for {what}"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether there is such a process that has not ended: its parent may be slow to take note of its end."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _session(process: psutil.Process) -> int | None:
    try:
        return os.getsid(process.pid) if is_running(process.pid) else None
    except ProcessLookupError:
        return None


def _arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _is_dwell(process: psutil.Process) -> bool:
    try:
        return process.name() == "dwell"
    except psutil.Error:
        return False


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("", 0))
        return int(listening.getsockname()[1])
