"""What needs no cluster: finding runs, scratch folders, outputs, plans, messages."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from conftest import run_command
from made_runs import make_run
from nodes import is_running, wait_until

import dwell
import dwell.cluster
from dwell.cluster.outputs import open_output
from dwell.cluster.plan import Splitting
from dwell.cluster.progress import Progress
from dwell.cluster.runs import Run, StoredFile, runs_among
from dwell.cluster.scratch import Scratch
from dwell.cluster.sources import find_runs, open_source
from dwell.cluster.tasks import Failure, Interrupted, Settings, analyse_run, command_version


def names_of(*paths: str) -> list[str]:
    return [run.name for run in runs_among("root", [StoredFile(path, 1, "") for path in paths])]


def test_runs_are_found_where_the_command_finds_them(command: Path, tmp_path: Path) -> None:
    for path in (
        "m/b/trace.parquet",
        "m/a/raw/STATE",
        "c/metadata.json",
        "c/deeper/trace.parquet",
        "m/x/y/metadata.json",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    for path in (
        "experiments/e/metadata.json",
        ".hidden/r/trace.parquet",
        "m/.hidden/trace.parquet",
        "notes/readme.csv",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    found = [run.name for run in find_runs(open_source(tmp_path, None, None))]
    assert found == ["c", "m/a", "m/b"]
    verified = subprocess.run([command, "verify", "--json", tmp_path], stdout=subprocess.PIPE, text=True).stdout
    assert [run["path"] for run in json.loads(verified)["runs"]] == found


def test_a_run_itself_is_the_only_one_and_keeps_its_files() -> None:
    (run,) = runs_among("s3://b/run", [StoredFile("trace.parquet", 5, "x"), StoredFile("m/r/trace.parquet", 1, "")])
    assert (run.name, run.uri, run.trace_bytes) == ("", "s3://b/run", 5)


def test_keys_that_climb_are_no_files() -> None:
    (run,) = runs_among("root", [StoredFile(path, 1, "") for path in ("m/r/metadata.json", "m/r/../../x", "m/r//y")])
    assert [file.path for file in run.files] == ["metadata.json"]
    assert names_of("../r/metadata.json", "m/../trace.parquet") == []


def test_what_has_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(dwell.NotFoundError, match="found none"):
        find_runs(open_source(tmp_path, None, None))
    with pytest.raises(dwell.NotFoundError, match="no such folder"):
        find_runs(open_source(tmp_path / "nothing", None, None))


def test_a_shared_scratch_folder_is_filled_once_and_swept(tmp_path: Path) -> None:
    scratch = Scratch(str(tmp_path), limit_bytes=100)
    filled: list[Path] = []

    def fill(folder: Path) -> None:
        filled.append(folder)
        (folder / "file").write_text("content")

    for _ in range(2):
        with scratch.shared("key", 60, fill) as folder:
            assert (folder / "file").read_text() == "content"
            scratch.sweep()
            assert folder.exists(), "what is used is not swept"
    assert len(filled) == 1
    scratch.sweep()
    assert not filled[0].exists()


def test_scratch_waits_for_room_and_refuses_what_can_never_fit(tmp_path: Path) -> None:
    scratch = Scratch(str(tmp_path), limit_bytes=100)
    with pytest.raises(dwell.StorageError, match="needs 101 bytes of scratch on its node, and the limit is 100"):
        with scratch.private(101):
            pass
    entered, leave = threading.Event(), threading.Event()
    order: list[str] = []

    def hold() -> None:
        with scratch.private(60):
            entered.set()
            leave.wait(60)
            order.append("first leaves")

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(60)
    threading.Timer(0.3, leave.set).start()
    with scratch.private(60):
        order.append("second enters")
    thread.join()
    assert order == ["first leaves", "second enters"]


def test_what_a_killed_process_left_is_removed_when_its_room_is_needed(tmp_path: Path) -> None:
    script = (
        "import os, signal; from dwell.cluster.scratch import Scratch\n"
        f"with Scratch({str(tmp_path)!r}, 100).private(80) as folder:\n"
        "    (folder / 'file').touch(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script])
    assert list(tmp_path.rglob("file")), "it was killed before it could clean up"
    with Scratch(str(tmp_path), 100).private(80):
        assert not list(tmp_path.rglob("file"))


def test_a_scratch_folder_that_could_not_be_filled_is_removed(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise dwell.StorageError("no")

    with pytest.raises(dwell.StorageError, match="no"):
        with Scratch(str(tmp_path)).shared("key", 1, fail):
            pass
    assert not list(tmp_path.rglob("half"))


def test_an_output_that_cannot_be_completed_leaves_the_earlier_one(tmp_path: Path) -> None:
    output = open_output(str(tmp_path / "out"), None)
    output.write("m/r", {"report.json": b"1", "analysis.json": b"{}"})
    with pytest.raises(dwell.StorageError):
        output.write("m/r", {"report.json": b"2", "no/folder": b"", "analysis.json": b"{}"})
    assert {path.name: path.read_bytes() for path in (tmp_path / "out/m/r").iterdir()} == {
        "report.json": b"1",
        "analysis.json": b"{}",
    }
    assert os.listdir(tmp_path / "out/m") == ["r"]


def test_an_output_in_a_store_that_cannot_be_completed_does_not_look_whole(store: str) -> None:
    output = open_output("s3://bucket/half", store)
    output.write("r", {"analysis.json": b"{}", "metrics.csv": b"1", "report.json": b"1"})
    assert output.mark("r") == {}
    with pytest.raises(dwell.StorageError, match=r"writing s3://bucket/half/r/report\.json failed"):
        # What is no bytes cannot be sent.
        output.write("r", {"analysis.json": b"{}", "metrics.csv": b"2", "report.json": object()})  # type: ignore[dict-item]
    assert output.mark("r") is None


def test_a_folder_that_is_no_analysis_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    make_run(tmp_path / "run", 2_000, seed=1)
    status, _, said = run_command("analyse", str(tmp_path / "run"), "-o", str(tmp_path), "--force")
    assert status == 2 and "has other files" in said
    assert (tmp_path / "thesis.tex").exists()


def test_long_runs_are_split() -> None:
    assert [Splitting(100).parts_of(size) for size in (100, 101, 1_000, 10**9)] == [1, 2, 10, 64]
    assert Splitting(100, parts=7).parts_of(101) == 7
    with pytest.raises(dwell.UsageError):
        Splitting(100, parts=0)


def test_explaining_needs_neither_cluster_nor_ray(tree: Path) -> None:
    program = (
        "import sys; sys.modules['ray'] = None; from dwell.cluster.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", program, "analyse", str(tree)]
    ran = subprocess.run([*words, "--explain", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    explained = json.loads(ran.stdout)
    assert explained["tasks"] == 20 and len(explained["runs"]) == 20
    assert explained["runs"][0]["trace_bytes"] == (tree / "model-0/run-00/trace.parquet").stat().st_size
    text = subprocess.run([*words, "--explain"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "tasks    20\n" in text and "model-0/run-00" in text

    # And anything else says how to install it.
    ran = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.splitlines() == [
        "error: analysing on a cluster needs the module ray, which is not installed",
        "hint: pip install 'dwell[cluster]'",
    ]
    assert not Path(f"{tree}-analysis").exists()


def test_the_parts_of_a_long_run_are_explained_by_the_command(tree: Path) -> None:
    run = tree / "model-0/run-00"
    explained = dwell.cluster.explain(run, splitting=Splitting(above_bytes=1, parts=3))
    (told,) = explained["runs"]
    assert (told["parts"], told["tasks"], told["command"]["rows"]) == (3, 4, 2_000)
    assert told["read_bytes"] == 3 * told["command"]["column_bytes"]
    assert 0 < told["command"]["column_bytes"] < (run / "trace.parquet").stat().st_size


def test_no_cluster_at_the_address_is_an_error_with_a_hint(tree: Path, tmp_path: Path) -> None:
    status, _, said = run_command("analyse", str(tree), "--address", "nowhere", "-o", str(tmp_path / "out"))
    assert status == 2 and "connecting to a Ray cluster at nowhere failed" in said and "hint: start one with" in said
    assert not (tmp_path / "out").exists()


def test_options_that_tasks_pass_themselves_are_refused(tree: Path) -> None:
    for option in ("--json", "--part=1/2", "-o", "--approximate"):
        status, _, said = run_command("analyse", str(tree), "--", option)
        assert status == 2 and "passes" in said


def test_progress_is_lines_in_a_log_and_a_bar_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream in (io.StringIO(), Terminal()):
        progress = Progress(runs=2, tasks=2, stream=stream)
        for is_failed in (False, True):
            progress.task_done()
            progress.run_done(is_failed)
        progress.close()
        last = stream.getvalue().rstrip("\n").splitlines()[-1]
        assert "2 of 2 runs, 1 failed, 2 of 2 tasks" in last
        assert ("########" in last) == stream.isatty() and ("\x1b" in last) == stream.isatty()


def test_a_killed_command_is_repeated_and_one_of_another_version_is_not(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = open_source(tree, None, None)
    run = find_runs(source)[0]
    settings = Settings(source, command_version(), scratch_dir=str(tmp_path / "scratch"))
    (tmp_path / "dwell").write_text("#!/bin/sh\nkill -KILL $$\n")
    (tmp_path / "dwell").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(Interrupted, match="was killed by SIGKILL"):
        analyse_run(settings, run)
    failure = analyse_run(Settings(source, "dwell 0.0.1"), run)
    assert isinstance(failure, Failure)
    assert "this node has dwell" in failure.message and "by dwell 0.0.1" in failure.message


def test_the_command_ends_with_a_worker_that_is_killed(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "dwell").write_text(
        f"#!/bin/sh\necho $$ >{tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid\nexec sleep 1000\n"
    )
    (tmp_path / "dwell").chmod(0o755)
    script = (
        "from dwell.cluster.sources import find_runs, open_source; from dwell.cluster import tasks\n"
        "tasks.command_version = lambda: ''\n"
        f"source = open_source({str(tree)!r}, None, None)\n"
        f"tasks.analyse_run(tasks.Settings(source, '', scratch_dir={str(tmp_path)!r}), find_runs(source)[0])"
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    worker = subprocess.Popen([sys.executable, "-c", script], env=os.environ | {"PATH": path})
    wait_until((tmp_path / "pid").exists, "the command")
    pid = int((tmp_path / "pid").read_text())
    assert is_running(pid)
    worker.kill()
    worker.wait()
    wait_until(lambda: not is_running(pid), "the end of the command")


def test_a_node_that_does_not_see_a_run_says_so(tmp_path: Path) -> None:
    settings = Settings(open_source(tmp_path, None, None), command_version())
    failure = analyse_run(settings, Run("r", str(tmp_path / "r"), ()))
    assert isinstance(failure, Failure)
    assert "does not see the run" in failure.message and failure.hints
