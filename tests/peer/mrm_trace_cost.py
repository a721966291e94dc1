"""Prints the CPU seconds that mrm-trace's compute_all takes for a trace, without reading the file.

    mrm_trace_cost.py TRACE_PARQUET
"""

import sys
import time

import pandas
from mrm_trace.analyser import compute_all

trace = pandas.read_parquet(sys.argv[1])
begin_s = time.process_time()
compute_all(trace)
print(time.process_time() - begin_s)
