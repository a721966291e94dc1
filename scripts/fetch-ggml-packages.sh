#!/usr/bin/env bash
# Installs Python packages that have ggml inside a library of their own from PyPI into an environment of its own.
#
#   scripts/fetch-ggml-packages.sh [DEST]
#
# DEST (default: venv-ggml-packages in dwell's cache) is a Python environment with xllamacpp: 34 MB of download, 150 MB on
# disk. It comes as a wheel; nothing is compiled. An existing DEST of the same version is kept as it is, without network.
set -euo pipefail

readonly version=2026.10.11549
readonly dest=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/dwell/venv-ggml-packages}

say() { printf 'ggml packages: %s\n' "$*"; }
fail() { printf 'ggml packages: %s\n' "$*" >&2; exit 1; }

stamp="$version $(python3 --version)"
if [ "$(cat "$dest/made-from" 2>/dev/null)" = "$stamp" ] && "$dest/bin/python" -c '' 2>/dev/null; then
    exit 0
fi

# An environment that is not whole would be taken for one.
trap '[ -e "$dest/made-from" ] || rm -rf "$dest"' EXIT
rm -rf "$dest"
say "installs xllamacpp $version to $dest"
python3 -m venv "$dest" || fail "could not make a Python environment"
"$dest/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
    "xllamacpp==$version" || fail "pip could not install it"
"$dest/bin/python" -c 'import xllamacpp' || fail "this machine cannot load it"
printf '%s\n' "$stamp" >"$dest/made-from"
