"""What the tests of the cluster share. They run in an environment of their own, which has Ray and no PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_runs import make_tree
from moto.server import ThreadedMotoServer
from nodes import RayCluster

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"

# Workers inherit these: the package of this checkout, its command, and the keys of the store.
os.environ["PYTHONPATH"] = str(ROOT / "python")
os.environ["PATH"] = os.pathsep.join([str(PROGRAMS), os.environ["PATH"]])
os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
os.environ.pop("RAY_ADDRESS", None)


@pytest.fixture(scope="session", autouse=True)
def command() -> Path:
    """The command that is compared with."""
    if not (PROGRAMS / "dwell").exists():
        pytest.skip("the command dwell was not built")
    return PROGRAMS / "dwell"


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayCluster]:
    """A head and two worker nodes."""
    cluster = RayCluster()
    try:
        cluster.add_nodes(2)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty runs that all differ."""
    return make_tree(tmp_path_factory.mktemp("tree") / "results", runs=20)


@pytest.fixture(scope="session")
def store() -> Iterator[str]:
    """The endpoint of an S3 server, with an empty bucket `bucket`."""
    import boto3

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    boto3.client("s3", endpoint_url=endpoint).create_bucket(Bucket="bucket")
    yield endpoint
    server.stop()


def start_command(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """`python -m dwell.cluster` with these arguments."""
    return subprocess.Popen(
        [sys.executable, "-m", "dwell.cluster", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def run_command(*arguments: str) -> tuple[int, str, str]:
    """The same, when it is done: exit code, standard output and standard error."""
    process = start_command(*arguments)
    try:
        printed, said = process.communicate(timeout=300)
    finally:
        process.kill()
    return process.returncode, printed, said
