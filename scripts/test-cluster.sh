#!/usr/bin/env bash
# Runs the tests of dwell.cluster with Ray from dwell's cache, on a cluster that they start on this machine; closes with pytest's
# summary. The command dwell must have been built.
#
#   scripts/test-cluster.sh [ARGUMENT FOR PYTEST...]
#
# Without that environment, and when DWELL_QUICK is 1, all of them are one skipped test.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${XDG_CACHE_HOME:-$HOME/.cache}/dwell/venv-cluster/bin/python

skip() {
    printf 'SKIPPED: analysis on a cluster: %s\n1 skipped in 0s\n' "$1"
    exit 0
}
[ "${DWELL_QUICK:-}" != 1 ] || skip 'DWELL_QUICK'
"$python" -c 'import ray, moto' 2>/dev/null || skip 'no Ray, which make setup installs'

scripts/build-python.sh

# The tests of the other environment import PyTorch in their conftest.py, which is not read from there.
PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -rs -p no:cacheprovider --show-capture=no \
    --confcutdir=python/tests/cluster --override-ini=filterwarnings= --override-ini=testpaths=python/tests/cluster "$@"
