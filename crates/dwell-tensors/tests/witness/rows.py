"""Prints the rows of a tensor stream as another program reads them: rows.py PROGRAM FILE."""

import sys

program, path = sys.argv[1:]
columns = ["packet", "name", "layer", "step", "token_index", "dtype", "shape", "record", "payload", "codec", "raw_bytes"]


def rows():
    if program == "polars":
        import polars

        return polars.read_ipc_stream(path).select(columns).rows()
    import pyarrow

    with open(path, "rb") as file:
        stream = pyarrow.ipc.open_stream(file).read_all()
    stream.validate(full=True)
    if program == "duckdb":
        import duckdb

        return duckdb.sql(f"select {', '.join(columns)} from stream").fetchall()
    return [tuple(row[column] for column in columns) for row in stream.to_pylist()]


for *cells, payload, codec, raw_bytes in rows():
    # Codecs may store fewer bytes; what was stored as it is has as many as the elements.
    stored = None if payload is None else raw_bytes if codec != "none" else len(payload)
    print("|".join(str(cell) for cell in [*cells, stored]))
