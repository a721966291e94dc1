#!/usr/bin/env bash
# Runs every test of the workspace and of the Python package, and closes with one line: N passed, N failed, N skipped.
#
#   scripts/test.sh [ARGUMENT FOR CARGO TEST...]
#
# A test that lacks a privilege or hardware appends `SKIPPED: <test name>: <reason>` to the file
# named by DWELL_SKIP_LOG and returns. The test runner takes it for passed; it is counted as skipped
# here, once per line, as are the tests marked #[ignore]. One that is ignored because it is the child process
# of another test, `#[ignore = "child process of ..."]`, is no test and is not counted.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
logs=${CARGO_TARGET_DIR:-target}/test-logs
mkdir -p "$logs" || exit 2
logs=$(cd "$logs" && pwd)
export DWELL_SKIP_LOG=$logs/skipped.txt
# Pictures of the pages that tests open in a browser.
export DWELL_SCREENSHOTS=$logs/screenshots
: >"$DWELL_SKIP_LOG"

# The preload library and the bench are no test's dependency, so `cargo test` would not build them. With all targets, the
# crates get the features that tests need, and are not compiled a second time for those.
build=(--workspace --all-targets)
cargo build --release "${build[@]}" "$@" || exit 1

# Prints folder and program of each test program, those that take longest first, as far as an earlier run has shown.
list_programs() {
    python3 - "$logs/durations.txt" <<'PYTHON'
import json, os, sys
durations = {}
if os.path.exists(sys.argv[1]):
    with open(sys.argv[1]) as lines:
        durations = {name: float(seconds) for seconds, name, *_ in (line.split() for line in lines)}
programs = []
for line in open(os.environ["MESSAGES"]):
    message = json.loads(line)
    if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
        folder = os.path.dirname(message["manifest_path"])
        name = f"{os.path.basename(folder)}/{message['target']['name']}"
        programs.append((-durations.get(name, 0.0), folder, name, message["executable"]))
for _, folder, name, program in sorted(programs):
    print(folder, name, program, sep="\0", end="\0")
PYTHON
}

# Runs one test program where cargo would. What it says goes to a file of its own; one line tells how it ended.
run_program() {
    local folder=$1 name=$2 program=$3 begin=$EPOCHREALTIME status=0
    local said=$logs/programs/${name//\//.}.txt
    (cd "$folder" && "$program") >"$said" 2>&1 || status=$?
    [ "$status" = 0 ] || printf 'FAILED: %s ended with exit status %s\n' "$name" "$status" >>"$said"
    awk -v begin="$begin" -v end="$EPOCHREALTIME" -v name="$name" '
        /^test result: |^FAILED: / { results = results "  " $0 }
        END { printf "%.1f %s%s\n", end - begin, name, results }' "$said"
}
export -f run_program
export logs MESSAGES=$logs/messages.json

# Tests wait for other programs more than they compute: two test programs at a time take less than one after the
# other. All of them run even after one has failed, so that the sum is of all of them.
cargo test --release --workspace --no-run --message-format=json-render-diagnostics "$@" >"$MESSAGES" || exit 1
rm -rf "$logs/programs"
mkdir "$logs/programs"
list_programs | xargs -0 -n 3 -P "${DWELL_TEST_PROGRAMS:-2}" bash -c 'run_program "$@"' run_program |
    tee "$logs/durations.new"
mv "$logs/durations.new" "$logs/durations.txt"
grep -lZ '^FAILED: ' "$logs"/programs/*.txt | xargs -0 -r cat
cat "$logs"/programs/*.txt >"$logs/cargo-test.txt"
status=0
! grep -q '^FAILED: ' "$logs/cargo-test.txt" || status=1
cargo test --release --workspace --doc "$@" 2>&1 | tee -a "$logs/cargo-test.txt"
[ "${PIPESTATUS[0]}" = 0 ] || status=1
export DWELL_CARGO_BUILD=${build[*]}
scripts/test-python.sh 2>&1 | tee "$logs/pytest.txt"
python_status=${PIPESTATUS[0]}
scripts/test-cluster.sh 2>&1 | tee -a "$logs/pytest.txt"
cluster_status=${PIPESTATUS[0]}
[ "$python_status" != 0 ] || python_status=$cluster_status

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
    /^test .* \.\.\. ignored, child process of / { ignored-- }
    # 139 passed, 16 skipped in 48.70s
    /^[0-9]+ (passed|failed|skipped|errors?|deselected)(,.*)? in [0-9.]+s/ {
        gsub(/,/, "")
        for (i = 2; i <= NF; i++) {
            if ($i == "passed") python_passed += $(i - 1)
            if ($i == "failed" || $i ~ /^errors?$/) python_failed += $(i - 1)
            if ($i == "skipped") python_skipped += $(i - 1)
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
