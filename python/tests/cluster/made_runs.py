"""Runs of made accesses, written by DuckDB: ten million rows take it four seconds of CPU time."""

from __future__ import annotations

from pathlib import Path

import duckdb

LINE_BYTES = 64


def make_run(folder: Path, rows: int, seed: int) -> Path:
    """A run directory with a trace alone: loads and stores of lines in three kinds of regions, in no obvious order."""
    folder.mkdir(parents=True)
    lines = min(max(rows // 50, 10), 200_000)
    connection = duckdb.connect()
    connection.execute("set threads = 2")
    connection.execute(
        f"""
        copy (
            select
                'made' as run_id, i::ubigint as sample_id, (1000 * i + (i * {seed}) % 900)::ubigint as timestamp_ns,
                null::varchar as phase, (line * {LINE_BYTES} + 4096)::ubigint as address,
                ((line * {LINE_BYTES} + 4096) >> 12)::ubigint as address_page,
                case when (mixed >> 9) % 4 = 0 then 'store' else 'load' end as op_type, '' as symbol, '' as dso,
                case line % 3 when 0 then 'weight' when 1 then 'kv_cache' else 'activation' end as region_type,
                (1 + line % 97)::uinteger as region_id, {LINE_BYTES}::uinteger as size_bytes, 1::ubigint as period
            from (
                select i, mixed, (mixed >> 20) % {lines} as line
                from (select i, (i * 2654435761 + {seed} * 40503) % 1099511627776 as mixed from range({rows}) r(i))
            )
        ) to '{folder / "trace.parquet"}'
        (format parquet, compression zstd, compression_level 1, row_group_size 131072)
        """
    )
    return folder


def make_tree(root: Path, runs: int, rows: int = 2_000) -> Path:
    """A results tree of two models, whose runs all differ."""
    for number in range(runs):
        make_run(root / f"model-{number % 2}" / f"run-{number:02}", rows + 100 * number, seed=number + 1)
    return root
