"""Any function over every run, on a real Ray cluster."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import boto3
import pytest
from nodes import RayCluster

import dwell
import dwell.cluster


def test_results_are_in_the_order_of_runs_and_errors_stay_with_their_run(cluster: RayCluster, tree: Path) -> None:
    def name_unless_seven(path: Path) -> str:
        if path.name == "run-07":
            raise ValueError("seven")
        time.sleep(0.2 if path.name == "run-00" else 0)
        return path.name

    mapped = list(dwell.cluster.map_runs(name_unless_seven, tree, address=cluster.address))
    assert [run.name for run in mapped] == sorted(run.name for run in mapped) and len(mapped) == 20
    (failed,) = [run for run in mapped if run.failure is not None]
    assert failed.name == "model-1/run-07" and failed.value is None
    assert failed.failure is not None and failed.failure.message == "ValueError: seven"
    assert "name_unless_seven" in failed.failure.traceback
    with pytest.raises(dwell.DwellError, match="run-07: ValueError: seven"):
        failed.result()
    assert {run.name: run.result() for run in mapped if run.failure is None} == {
        run.name: run.name.split("/")[1] for run in mapped if run is not failed
    }


def test_only_so_many_tasks_are_in_flight(cluster: RayCluster, tree: Path, tmp_path: Path) -> None:
    def note_times(path: Path) -> tuple[float, float]:
        begin_s = time.monotonic()
        time.sleep(0.02)
        return begin_s, time.monotonic()

    limits = dwell.cluster.Limits(in_flight=1)
    mapped = dwell.cluster.map_runs(note_times, tree / "model-0", address=cluster.address, limits=limits)
    times = [run.result() for run in mapped]
    assert len(times) == 10
    # Both nodes run on this machine, so that they have one clock.
    assert all(earlier[1] <= later[0] for earlier, later in pairwise(times))


def test_runs_of_a_store_are_downloaded_whole(cluster: RayCluster, store: str, tmp_path: Path) -> None:
    client = boto3.client("s3", endpoint_url=store)
    for key in ("m/r/trace.parquet", "m/r/raw/STATE", "m/r/figures/a.svg", "m/r/../escape", "m/notes.txt"):
        client.put_object(Bucket="bucket", Key=f"map/{key}", Body=key.encode())

    def files(path: Path) -> dict[str, str]:
        return {str(file.relative_to(path)): file.read_text() for file in path.rglob("*") if file.is_file()}

    (mapped,) = dwell.cluster.map_runs(
        files, "s3://bucket/map", address=cluster.address, endpoint_url=store, scratch_dir=str(tmp_path)
    )
    assert mapped.name == "m/r"
    assert mapped.result() == {path: f"m/r/{path}" for path in ("trace.parquet", "raw/STATE", "figures/a.svg")}
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "ledger"]


def test_an_iterator_that_is_closed_cancels_its_tasks_on_a_connection_of_others(
    cluster: RayCluster, tree: Path, tmp_path: Path
) -> None:
    script = f"""
import ray, time
from pathlib import Path
import dwell.cluster

def wait_unless_first(path):
    if path.name == "run-00":
        return "first"
    Path({str(tmp_path)!r}, "began").touch()
    try:
        for _ in range(10_000):
            time.sleep(0.05)
    finally:
        Path({str(tmp_path)!r}, "ended").touch()

ray.init({cluster.address!r}, log_to_driver=False, logging_level="ERROR")
runs = dwell.cluster.map_runs(wait_unless_first, {str(tree / "model-0")!r}, limits=dwell.cluster.Limits(in_flight=2))
print(next(runs).result())
while not Path({str(tmp_path)!r}, "began").exists():
    time.sleep(0.02)
runs.close()
print(ray.is_initialized())
"""
    ran = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, timeout=300)
    assert ran.stdout == "first\nTrue\n"
    assert (tmp_path / "ended").exists()
