"""Judges runs and traces as mrm-trace does: JSON on standard input, JSON on standard output.

    {"runs": [[cpu, memory, throttles, baseline, io, temperature], ...],
     "traces": [{"collector": ..., "rows": ..., "latency_rows": ..., "cache_level_rows": ..., "unknown_rows": ...}, ...]}
"""

import json
import sys

import pandas
from mrm_trace.reporter.trace_qa import check_trace_quality
from mrm_trace.telemetry.validity import classify_run


def share_of(rows, first, value, other):
    return [value if row < first else other for row in range(rows)]


def quality(trace):
    rows = trace["rows"]
    frame = pandas.DataFrame(
        {
            "access_latency_ns": share_of(rows, trace["latency_rows"], 1.0, None),
            "cache_level": share_of(rows, trace["cache_level_rows"], "L1", None),
            "symbol": share_of(rows, rows, "", ""),
            "region_type": share_of(rows, trace["unknown_rows"], "unknown", "weight"),
        }
    )
    return check_trace_quality(frame, trace["collector"], print_report=False).status


asked = json.load(sys.stdin)
answer = {
    "runs": [classify_run(*run).run_validity for run in asked["runs"]],
    "traces": [quality(trace) for trace in asked["traces"]],
}
json.dump(answer, sys.stdout)
