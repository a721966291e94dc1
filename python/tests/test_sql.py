"""SQL over runs, by DuckDB's module and the views of the command dwell."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

import dwell

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that an earlier version recorded, with the command of this checkout on the PATH."""
    pytest.importorskip("duckdb")
    if not (PROGRAMS / "dwell").exists():
        pytest.skip("the command dwell was not built")
    monkeypatch.setenv("PATH", str(PROGRAMS), prepend=os.pathsep)
    with tarfile.open(ROOT / "tests/fixtures/v0.1.0/complete.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def run_directory(results: Path) -> Path:
    return next(results.rglob("trace.parquet")).parent


def test_the_tables_of_a_run_are_views(results: Path) -> None:
    run = run_directory(results)
    rows = dwell.sql(run, "select run, count(*) from trace group by run").fetchall()
    pyarrow = pytest.importorskip("pyarrow.parquet")
    assert rows == [(run.name, pyarrow.read_metadata(run / "trace.parquet").num_rows)]


def test_a_connection_keeps_the_views_for_several_queries(results: Path) -> None:
    connection = dwell.sql_connection([run_directory(results)])
    by_definition = dict(connection.sql("select region_type, bytes_read from metric_read_frequency").fetchall())
    summed = dict(
        connection.sql(
            "select region_type, coalesce(sum(size_bytes) filter (op_type = 'load'), 0) from trace group by all"
        ).fetchall()
    )
    assert by_definition == summed and by_definition["weight"] > 0


def test_what_is_no_run_is_an_error_with_a_hint(results: Path, tmp_path: Path) -> None:
    with pytest.raises(dwell.DwellError) as error:
        dwell.sql(tmp_path / "nothing", "select 1")
    assert "nothing" in error.value.message and error.value.hints
