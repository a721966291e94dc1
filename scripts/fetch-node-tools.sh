#!/usr/bin/env bash
# Installs what builds and tests the pages of a folder, as its package-lock.json says, into its node_modules.
#
#   scripts/fetch-node-tools.sh viewer     reports and `dwell view`
#   scripts/fetch-node-tools.sh web        models in the browser, with the runtimes that the tests run
#
# Needs npm. An installation from the same lock file is kept.
set -euo pipefail

readonly folder=${1:?usage: scripts/fetch-node-tools.sh viewer|web}
cd "$(dirname "${BASH_SOURCE[0]}")/../$folder"
stamp="$(sha256sum <package-lock.json | cut -d' ' -f1) $(node --version)"
[ "$(cat node_modules/made-from 2>/dev/null)" != "$stamp" ] || exit 0
printf '%s: installs its tools to %s/node_modules\n' "$folder" "$folder"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# No package may run a script of its own: the binaries that are needed come in packages.
npm ci --silent --no-audit --no-fund --ignore-scripts >"$log" 2>&1 || {
    tail -n 10 "$log" >&2
    exit 1
}
printf '%s\n' "$stamp" >node_modules/made-from
