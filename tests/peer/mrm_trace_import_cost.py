"""Prints the CPU seconds that mrm-trace takes from the text of `perf script` to a labelled Parquet file, and its rows.

    mrm_trace_import_cost.py TEXT TRACE_PARQUET

Its parts are joined as generators, which is the cheapest way that its library offers. Rows are not normalised, because
those of its parser are in the right form already.
"""

import sys
import time

from mrm_trace.labeller.labeller import TraceLabeller
from mrm_trace.parser.perf_script_parser import parse_perf_script
from mrm_trace.parser.writer import TRACE_SCHEMA, write_parquet

begin_s = time.process_time()
samples = parse_perf_script(sys.argv[1], "peer")
rows = write_parquet(TraceLabeller().label(samples), sys.argv[2], schema=TRACE_SCHEMA)
print(time.process_time() - begin_s, rows)
