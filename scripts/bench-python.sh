#!/usr/bin/env bash
# Measures how much of a PyTorch model's speed is left while it is captured, beside llm-instrumentation.
#
#   scripts/bench-python.sh [ARGUMENT FOR CAPTURE_SPEED.PY...]
#
# Results are kept under benches/runs/<day>-<machine>-pytorch.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${XDG_CACHE_HOME:-$HOME/.cache}/dwell/venv-torch/bin/python
"$python" -c 'import torch, transformers' || { echo 'bench: needs PyTorch, which make setup installs' >&2; exit 2; }
scripts/build-python.sh

machine=$(awk -F ': ' '/^model name/ { print tolower($2); exit }' /proc/cpuinfo | tr -cs 'a-z0-9' '-' | sed 's/-$//')
output=benches/runs/$(date -u +%F)-$machine-$(nproc)-cores-pytorch
captures=$(mktemp -d -p "${TMPDIR:-/tmp}")
trap 'rm -rf "$captures"' EXIT
mkdir -p "$output"
PYTHONPATH=python ONEDNN_MAX_CPU_ISA=${ONEDNN_MAX_CPU_ISA:-AVX512_CORE_FP16} \
    "$python" python/benches/capture_speed.py --folder "$captures" "$@" >"$output/result.json"
"$python" python/benches/report.py "$output/result.json" --output "$output"
cat "$output/summary.md"
echo "$output"
