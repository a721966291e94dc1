#!/usr/bin/env bash
# Measures what dwell costs. Arguments go to dwell-bench unchanged.
#
#   scripts/bench.sh [ARGUMENT FOR DWELL-BENCH...]
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${CARGO_TARGET_DIR:-target}/release

cargo build --release --workspace
exec "$bin/dwell-bench" "$@"
