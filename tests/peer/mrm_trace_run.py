"""Writes a run through the library of mrm-trace and prints what it holds.

    mrm_trace_run.py RUN_DIR

Prints, as JSON: the labels of the trace by row, the regions and the KV blocks as the peer has them in memory.
"""

import json
import sys
from pathlib import Path

import pandas as pd
from mrm_trace.analyser import compute_all
from mrm_trace.labeller.labeller import TraceLabeller
from mrm_trace.parser.normalizer import normalise_rows
from mrm_trace.reporter.run_exporter import RunExporter

# time, phase, address, op, symbol
ACCESSES = [
    (10, "weight_load", 0x5000, "store", "memcpy"),
    (20, "generation", 0x9000, "store", "llama_kv_cache_update"),
    (30, "generation", 0x9000, "load", "llama_kv_cache_update"),
    (40, "generation", 0x5100, "load", "ggml_vec_dot_q4_0_q8_0"),
    (50, "generation", 0xA000, "load", "function_of_nobody"),
]


def row(number, access):
    timestamp_ns, phase, address, op_type, symbol = access
    return {
        "run_id": "peer",
        "sample_id": number,
        "timestamp_ns": timestamp_ns,
        "phase": phase,
        "address": address,
        "address_page": address >> 12,
        "op_type": op_type,
        "symbol": symbol,
        "dso": "libggml.so",
    }


labeller = TraceLabeller()
rows = list(labeller.label(normalise_rows(row(number, access) for number, access in enumerate(ACCESSES))))
trace = pd.DataFrame(rows)
regions = labeller.region_map()
blocks = labeller.kv_lifecycle()
RunExporter(Path(sys.argv[1])).export(
    trace=trace,
    region_map=regions,
    kv_lifecycle=blocks,
    analysis=compute_all(trace),
    metadata={"run_id": "peer", "note": "kept"},
    run_id="peer",
    figures=False,
)
labels = [[row["region_type"], row["region_id"]] for row in rows]
print(json.dumps({"labels": labels, "regions": regions, "blocks": blocks}))
