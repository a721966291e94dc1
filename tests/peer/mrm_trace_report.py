"""Prints what mrm-trace says about a run directory of dwell, as JSON.

    mrm_trace_report.py RUN

Its schema check must accept the three tables that it knows; its analyser is given the trace as pandas reads it.
"""

import json
import sys
from pathlib import Path

import pandas
import pyarrow.parquet
from mrm_trace.analyser import compute_all
from mrm_trace.schema_version import check_parquet_schema

run = Path(sys.argv[1])
schema_names = {"trace": "trace", "region_map": "region_map", "kv_block_lifecycle": "kv_block_lifecycle"}
versions = {}
for table, schema_name in schema_names.items():
    path = run / f"{table}.parquet"
    check_parquet_schema(path, schema_name)
    metadata = pyarrow.parquet.ParquetFile(path).schema_arrow.metadata or {}
    versions[table] = metadata.get(b"mrm_trace_schema_version", b"missing").decode()

frames = compute_all(pandas.read_parquet(run / "trace.parquet"))
report = {name: json.loads(frame.to_json(orient="records", double_precision=15)) for name, frame in frames.items()}
json.dump({"versions": versions, "frames": report}, sys.stdout)
