"""SQL over the tables of runs, by DuckDB's module."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dwell.command import error_of, find_command
from dwell.errors import DwellError

if TYPE_CHECKING:
    import duckdb

__all__ = ["sql", "sql_connection"]

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def sql(paths: Paths, query: str) -> duckdb.DuckDBPyRelation:
    """The result of a query over runs; `.df()`, `.pl()`, `.arrow()` and `.fetchall()` give its rows.

    `paths` are run directories, results directories or folders of models. The views are those of `dwell sql`.
    """
    return sql_connection(paths).sql(query)


def sql_connection(paths: Paths) -> duckdb.DuckDBPyConnection:
    """A connection that has the views of `dwell sql` over these runs."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise DwellError("asking runs with SQL needs the module duckdb", ["pip install duckdb"]) from error
    connection = duckdb.connect()
    connection.execute("set autoinstall_known_extensions = false")
    connection.execute(_statements(paths))
    return connection


def _statements(paths: Paths) -> str:
    listed: Iterable[str | os.PathLike[str]] = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    words = [os.fspath(path) for path in listed]
    command = [find_command(), "sql", "--views", "--", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # 1 means that some runs could not be read; the others can be asked.
    if done.returncode not in (0, 1):
        raise error_of(done.stderr, "dwell sql failed")
    return done.stdout
