#!/usr/bin/env bash
# Fuzzes dwell's decoders, one after the other, guided by coverage.
#
#   scripts/fuzz.sh SECONDS [TARGET...]     each target for so long; all of them by default
#
# Needs a nightly compiler (rustup toolchain install nightly) and cargo-fuzz (cargo install cargo-fuzz).
# What libFuzzer finds beyond the seeds is kept in fuzz/found, and what fails in fuzz/artifacts: neither is
# committed. The decoders contain no unsafe code, so no sanitizer is used.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -ge 1 ] || { printf 'usage: scripts/fuzz.sh SECONDS [TARGET...]\n' >&2; exit 2; }
readonly seconds=$1
shift
targets=("$@")
if [ ${#targets[@]} = 0 ]; then
    for folder in fuzz/corpus/*/; do
        targets+=("$(basename "$folder")")
    done
fi

cargo +nightly fuzz build --sanitizer none decoder
status=0
for target in "${targets[@]}"; do
    mkdir -p "fuzz/found/$target" "fuzz/artifacts/$target"
    printf 'fuzz: %s\n' "$target"
    DWELL_FUZZ_TARGET=$target cargo +nightly fuzz run --sanitizer none decoder \
        "fuzz/found/$target" "fuzz/corpus/$target" -- \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=16384 -print_final_stats=1 \
        -artifact_prefix="fuzz/artifacts/$target/" 2>&1 | tail -n 12 || status=1
done
exit "$status"
