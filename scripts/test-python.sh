#!/usr/bin/env bash
# Runs the tests of the Python package with PyTorch and transformers from dwell's cache; closes with pytest's summary.
#
#   scripts/test-python.sh [ARGUMENT FOR PYTEST...]
#
# Without that environment, and when DWELL_QUICK is 1, all of them are one skipped test.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${XDG_CACHE_HOME:-$HOME/.cache}/dwell/venv-torch/bin/python

skip() {
    printf 'SKIPPED: the Python package: %s\n1 skipped in 0s\n' "$1"
    exit 0
}
[ "${DWELL_QUICK:-}" != 1 ] || skip 'DWELL_QUICK'
"$python" -c 'import torch, transformers' 2>/dev/null || skip 'no PyTorch, which make setup installs'

scripts/build-python.sh

# Tests that need a GPU are told apart from those that pass.
PYTHONPATH=python PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -rs -p no:cacheprovider --show-capture=no "$@"
