"""Analysis beyond one machine, on a Ray cluster.

import dwell.cluster

analysis = dwell.cluster.analyse("s3://bucket/results", address="auto")
for run in dwell.cluster.map_runs(count_rows, "/shared/results", address="auto"):
    print(run.name, run.value)
"""

from dwell.cluster.analysis import Analysis, RunAnalysis, analyse, explain
from dwell.cluster.mapping import MappedRun, map_runs
from dwell.cluster.plan import Splitting
from dwell.cluster.pool import Limits
from dwell.cluster.tasks import Failure

__all__ = [
    "Analysis",
    "Failure",
    "Limits",
    "MappedRun",
    "RunAnalysis",
    "Splitting",
    "analyse",
    "explain",
    "map_runs",
]
