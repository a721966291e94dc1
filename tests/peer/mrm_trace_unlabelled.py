"""Writes a trace without labels through the library of mrm-trace.

    mrm_trace_unlabelled.py TRACE_PARQUET
"""

import sys
from pathlib import Path

from mrm_trace.parser.normalizer import normalise_rows
from mrm_trace.parser.writer import TRACE_SCHEMA, write_parquet

# time, phase, address, op, symbol
ACCESSES = [
    (10, "weight_load", 0x5000, "store", "memcpy"),
    (20, "generation", 0x5100, "load", "ggml_vec_dot_q4_0_q8_0"),
    (30, "generation", 0x9000, "store", "ggml_compute_forward_set_rows"),
    (40, "generation", 0xA000, "load", "function_of_nobody"),
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


rows = (row(number, access) for number, access in enumerate(ACCESSES))
write_parquet(normalise_rows(rows), Path(sys.argv[1]), schema=TRACE_SCHEMA)
