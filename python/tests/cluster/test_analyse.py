"""Analyses on a real Ray cluster, compared byte for byte with the command on this machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import boto3
import pytest
from conftest import run_command, start_command
from made_runs import make_run
from nodes import Node, RayCluster, is_running, wait_until

TEN_MILLION = 10_000_000
# The trace is above 8 MiB then: the task that merges its parts downloads the footer alone.
LONG_ENOUGH_FOR_A_FOOTER = 2_000_000
Files = dict[str, bytes]


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """The folder for temporary files of all nodes. Nothing may be left in it."""
    folder = tmp_path / "scratch"
    yield folder
    left = [path for path in folder.rglob("*") if path.is_file() and path.name != "ledger"]
    assert not left


@pytest.fixture(scope="session")
def alone(command: Path, tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """What the command writes about every run of the tree, one after the other."""
    folder = tmp_path_factory.mktemp("alone")
    files: Files = {}
    for run in sorted(path.parent.relative_to(tree) for path in tree.rglob("trace.parquet")):
        written = analysed_alone(command, tree / run, folder / run)
        files |= {f"{run}/{name}": content for name, content in written.items()}
    return files


def analysed_alone(command: Path, run: Path, output: Path, *options: str) -> Files:
    subprocess.run([command, "analyse", run, "-o", output, *options], stdout=subprocess.DEVNULL, check=True)
    files = files_below(output)
    assert files.keys() == {"metrics.csv", "metrics_by_region.csv", "retention_histogram.csv", "report.json"}
    return files


def files_below(output: Path) -> Files:
    """The files of analyses, without those that say how they were made."""
    files = {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*") if path.is_file()}
    return {path: content for path, content in files.items() if not path.endswith("analysis.json")}


def folders_below(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_dir()} if root.exists() else set()


def test_a_damaged_run_is_named_and_the_others_are_analysed(
    cluster: RayCluster, tree: Path, alone: Files, scratch: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(tree / "model-0", results / "model-0")
    damaged = results / "model-0/run-04/trace.parquet"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    output = tmp_path / "analysis"
    arguments = ["analyse", str(results), "--address", cluster.address, "-o", str(output), "--scratch", str(scratch)]
    status, printed, said = run_command(*arguments)
    assert status == 1, said
    assert f"error: {damaged.parent}: " in said and "trace.parquet" in said
    assert printed == f"9 runs analysed, 1 failed: {output}\n"
    expected = {path: file for path, file in alone.items() if "model-0/" in path and "run-04/" not in path}
    assert files_below(output) == expected
    assert said.splitlines()[-1].startswith("10 of 10 runs, 1 failed, 10 of 10 tasks, ")

    # What is there is not replaced unless that is said, and what is complete need not be computed again.
    assert run_command(*arguments)[0] == 2
    status, printed, said = run_command(*arguments, "--resume")
    assert (status, printed) == (1, f"0 runs analysed, 1 failed, 9 kept: {output}\n"), said


def test_options_of_the_command_are_passed_on(
    cluster: RayCluster, command: Path, tree: Path, scratch: Path, tmp_path: Path
) -> None:
    run = tree / "model-1/run-01"
    arguments = ["--address", cluster.address, "-o", str(tmp_path / "analysis"), "--scratch", str(scratch), "-q"]
    options = ["--definitions", "mrm-trace", "--high-retention-secs", "0.5"]
    status, _, said = run_command("analyse", str(run), *arguments, *options[:2], "--", *options[2:])
    assert (status, said) == (0, "")
    files = files_below(tmp_path / "analysis")
    assert files == analysed_alone(command, run, tmp_path / "alone", *options)
    assert files["report.json"] != analysed_alone(command, run, tmp_path / "other")["report.json"]


def test_a_store_is_read_and_written(cluster: RayCluster, tree: Path, alone: Files, store: str, scratch: Path) -> None:
    client = boto3.client("s3", endpoint_url=store)
    for path in tree.rglob("*.parquet"):
        client.upload_file(str(path), "bucket", f"results/{path.relative_to(tree)}")
    status, _, said = run_command(
        *("analyse", "s3://bucket/results", "-o", "s3://bucket/analysis", "--endpoint-url", store),
        *("--address", cluster.address, "--scratch", str(scratch), "--scratch-limit", "64M"),
    )
    assert status == 0, said
    assert not folders_below(scratch) - {f"dwell-cluster-{os.getuid()}"}
    listed = client.list_objects_v2(Bucket="bucket", Prefix="analysis/")["Contents"]
    read = {item["Key"]: client.get_object(Bucket="bucket", Key=item["Key"])["Body"].read() for item in listed}
    assert {key.removeprefix("analysis/"): read[key] for key in read if not key.endswith("analysis.json")} == alone
    mark = json.loads(read["analysis/model-0/run-00/analysis.json"])
    assert mark["run"] == "s3://bucket/results/model-0/run-00"
    listed = {f"model-0/run-00/{file['path']}": file["sha256"] for file in mark["files"]}
    assert listed == {path: sha256(file).hexdigest() for path, file in alone.items() if "/run-00/" in path}


def test_a_run_of_a_store_is_split(
    cluster: RayCluster, command: Path, store: str, scratch: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", LONG_ENOUGH_FOR_A_FOOTER, seed=3)
    boto3.client("s3", endpoint_url=store).upload_file(str(run / "trace.parquet"), "bucket", "long/trace.parquet")
    output = tmp_path / "analysis"
    status, printed, said = run_command(
        *("analyse", "s3://bucket/long", "-o", str(output), "--endpoint-url", store, "--split-above", "1M"),
        *("--parts", "3", "--address", cluster.address, "--scratch", str(scratch)),
    )
    assert (status, printed) == (0, f"1 run analysed: {output}\n"), said
    assert "1 of 1 runs, 4 of 4 tasks" in said
    assert files_below(output) == analysed_alone(command, run, tmp_path / "alone")


@pytest.fixture(scope="module")
def stalling_node(cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[Node, Path]:
    """A node on which the analysis of a run never ends, and the file in which it writes the processes that do it."""
    folder = tmp_path_factory.mktemp("stalling")
    log, program = folder / "pids", folder / "dwell"
    version = shutil.which("dwell")
    program.write_text(
        f'#!/bin/sh\n[ "$1" != --version ] || exec {version} --version\necho $$ >>{log}\nexec sleep 1000\n'
    )
    program.chmod(0o755)
    log.touch()
    (node,) = cluster.add_nodes(1, PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")
    return node, log


def test_an_interrupted_analysis_leaves_nothing(
    cluster: RayCluster, stalling_node: tuple[Node, Path], tree: Path, scratch: Path, tmp_path: Path
) -> None:
    _, pids = stalling_node
    output = tmp_path / "analysis"
    process = start_command(
        *("analyse", str(tree), "-o", str(output), "--address", cluster.address, "--scratch", str(scratch))
    )
    wait_until(lambda: pids.read_text() or process.poll() is not None, "a task on the node that stalls")
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130 and "interrupted" in said, said
    assert not any(is_running(int(pid)) for pid in pids.read_text().split())
    assert not [name for name in folders_below(output) if name.startswith(".")]
    pids.write_text("")


def test_a_node_that_dies_while_it_analyses_a_tree_changes_nothing(
    cluster: RayCluster,
    stalling_node: tuple[Node, Path],
    tree: Path,
    alone: Files,
    scratch: Path,
    tmp_path: Path,
) -> None:
    node, pids = stalling_node
    output = tmp_path / "analysis"
    process = start_command(
        *("analyse", str(tree), "-o", str(output), "--address", cluster.address, "--scratch", str(scratch))
    )
    wait_until(lambda: pids.read_text() or process.poll() is not None, "a task on the node that stalls")
    assert process.poll() is None
    node.kill()
    printed, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert printed == f"20 runs analysed: {output}\n"
    assert files_below(output) == alone


def test_a_node_that_dies_while_it_analyses_ten_million_rows_changes_nothing(
    cluster: RayCluster, command: Path, scratch: Path, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", TEN_MILLION, seed=7)
    output = tmp_path / "analysis"
    process = start_command(
        *("analyse", str(run), "-o", str(output), "--address", cluster.address, "--scratch", str(scratch)),
        *("--split-above", "1M", "--parts", "4"),
    )
    busy: list[Node] = []

    def has_begun() -> bool:
        busy.extend(node for node in cluster.nodes if node.commands("--part"))
        return bool(busy) or process.poll() is not None

    wait_until(has_begun, "the command on a node")
    assert process.poll() is None
    busy[0].kill()
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert files_below(output) == analysed_alone(command, run, tmp_path / "alone")
