#!/usr/bin/env bash
# Runs every test of the workspace and of the Python package, and closes with one line: N passed, N failed, N skipped.
#
#   scripts/test.sh [ARGUMENT FOR CARGO TEST...]
#
# A test that lacks a privilege or hardware appends `SKIPPED: <test name>: <reason>` to the file
# named by DWELL_SKIP_LOG and returns. The test runner takes it for passed; it is counted as skipped
# here, once per line, as are the tests marked #[ignore].
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
logs=${CARGO_TARGET_DIR:-target}/test-logs
mkdir -p "$logs" || exit 2
logs=$(cd "$logs" && pwd)
export DWELL_SKIP_LOG=$logs/skipped.txt
: >"$DWELL_SKIP_LOG"

# The preload library and the bench are no test's dependency, so cargo would not build them.
cargo build --release --workspace "$@" || exit 1

# All test programs run even after one has failed, so that the sum is of all of them.
cargo test --release --workspace --no-fail-fast "$@" 2>&1 | tee "$logs/cargo-test.txt"
status=${PIPESTATUS[0]}
scripts/test-python.sh 2>&1 | tee "$logs/pytest.txt"
python_status=${PIPESTATUS[0]}

skips=$(grep '^SKIPPED:' "$DWELL_SKIP_LOG" | sort -u)
[ -z "$skips" ] || printf '\n%s\n' "$skips"

printf '\n'
awk -v skips="$(grep -c '^SKIPPED:' <<<"$skips")" -v status="$status" -v python_status="$python_status" '
    # test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
    /^test result: / {
        for (i = 2; i <= NF; i++) {
            if ($i == "passed;") passed += $(i - 1)
            if ($i == "failed;") failed += $(i - 1)
            if ($i == "ignored;") ignored += $(i - 1)
        }
    }
    # 139 passed, 16 skipped in 48.70s
    /^[0-9]+ (passed|failed|skipped|errors?|deselected)(,.*)? in [0-9.]+s/ {
        gsub(/,/, "")
        for (i = 2; i <= NF; i++) {
            if ($i == "passed") python_passed = $(i - 1)
            if ($i == "failed" || $i ~ /^errors?$/) python_failed += $(i - 1)
            if ($i == "skipped") python_skipped = $(i - 1)
        }
    }
    END {
        # A program that does not compile or dies in the middle has no result line.
        if (status != 0 && failed == 0) failed = 1
        if (python_status != 0 && python_failed == 0) python_failed = 1
        if (skips > passed) skips = passed
        printf "%d passed, %d failed, %d skipped\n", passed - skips + python_passed, failed + python_failed,
            skips + ignored + python_skipped
    }' "$logs/cargo-test.txt" "$logs/pytest.txt"
[ "$status" = 0 ] || exit "$status"
exit "$python_status"
