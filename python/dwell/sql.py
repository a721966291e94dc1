"""SQL over the tables of runs, by DuckDB's module."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dwell.errors import DwellError, NotFoundError

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
    command = [_program(), "sql", "--views", "--", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    # 1 means that some runs could not be read; the others can be asked.
    if done.returncode not in (0, 1):
        message, *hints = done.stderr.strip().splitlines() or ["dwell sql failed"]
        raise DwellError(message.removeprefix("error: "), [hint.removeprefix("hint: ") for hint in hints])
    return done.stdout


def _program() -> str:
    found = shutil.which("dwell", path=sysconfig.get_path("scripts")) or shutil.which("dwell")
    if found is None:
        raise NotFoundError("looking for the command dwell found none on the PATH", ["pip install dwell"])
    return found
