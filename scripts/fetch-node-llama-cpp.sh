#!/usr/bin/env bash
# Installs node-llama-cpp from npm, with the llama.cpp that its makers compiled, into a folder of its own.
#
#   scripts/fetch-node-llama-cpp.sh [DEST]
#
# DEST is node-llama-cpp in dwell's cache, unless it is given: 85 MB. Needs node and npm. Only the binaries for this
# kind of machine without a GPU are installed. An existing DEST of the same version is kept, without network.
set -euo pipefail

readonly version=3.22.1
readonly dest=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/dwell/node-llama-cpp}

say() { printf 'node-llama-cpp: %s\n' "$*"; }
fail() { printf 'node-llama-cpp: %s\n' "$*" >&2; exit 1; }

[ "$(cat "$dest/made-from" 2>/dev/null)" != "$version" ] || exit 0
for tool in node npm; do
    command -v "$tool" >/dev/null || fail "$tool not found"
done
[ "$(uname -sm)" = 'Linux x86_64' ] || fail "knows the binaries of Linux on x86-64 only"

say "installs node-llama-cpp $version to $dest"
rm -rf "$dest"
mkdir -p "$dest"
cd "$dest"
printf '{"private": true}\n' >package.json
# Its optional packages are the binaries for all kinds of machines, 725 MB; its scripts would download or compile.
npm install --silent --no-audit --no-fund --ignore-scripts --omit=optional \
    "node-llama-cpp@$version" "@node-llama-cpp/linux-x64@$version" >npm.log 2>&1 || {
    tail -n 10 npm.log >&2
    fail "npm could not install it"
}
printf '%s\n' "$version" >made-from
