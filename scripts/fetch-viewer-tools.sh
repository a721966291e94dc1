#!/usr/bin/env bash
# Installs what builds and tests the viewer, as viewer/package-lock.json says, into viewer/node_modules.
#
#   scripts/fetch-viewer-tools.sh
#
# Needs npm. An installation from the same lock file is kept.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../viewer"
stamp="$(sha256sum <package-lock.json | cut -d' ' -f1) $(node --version)"
[ "$(cat node_modules/made-from 2>/dev/null)" != "$stamp" ] || exit 0
printf "viewer: installs its tools to viewer/node_modules\n"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# No package may run a script of its own: the binaries that are needed come in packages.
npm ci --silent --no-audit --no-fund --ignore-scripts >"$log" 2>&1 || {
    tail -n 10 "$log" >&2
    exit 1
}
printf '%s\n' "$stamp" >node_modules/made-from
