#!/usr/bin/env bash
# Installs llama-cpp-python from PyPI into an environment of its own.
#
#   scripts/fetch-llama-cpp-python.sh [DEST]
#
# DEST (default: venv-llama-cpp in dwell's cache) is a Python environment. PyPI has the package as source
# only, so its llama.cpp is compiled here, with little optimisation: about three minutes on two idle cores.
# Only the libraries that the Python code loads are compiled (libllama and ggml), not llama.cpp's tools.
# An existing DEST of the same version is kept as it is, without network.
set -euo pipefail

readonly version=0.3.36
readonly dest=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/dwell/venv-llama-cpp}

say() { printf 'llama-cpp-python: %s\n' "$*"; }
fail() { printf 'llama-cpp-python: %s\n' "$*" >&2; exit 1; }

stamp="$version $(python3 --version)"
if [ "$(cat "$dest/made-from" 2>/dev/null)" = "$stamp" ] && "$dest/bin/python" -c '' 2>/dev/null; then
    exit 0
fi

mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$(dirname "$dest")/.llama-cpp-python.XXXXXX")
# An environment that is not whole would be taken for one.
trap 'rm -rf "$work"; [ -e "$dest/made-from" ] || rm -rf "$dest"' EXIT
quietly() { "$@" >"$work/log" 2>&1 || { tail -n 15 "$work/log" >&2; fail "could not run: $*"; }; }

rm -rf "$dest"
quietly python3 -m venv "$dest"
pip=("$dest/bin/python" -m pip --disable-pip-version-check)
say "downloads llama-cpp-python $version"
quietly "${pip[@]}" download --no-deps --no-binary llama-cpp-python --dest "$work" "llama-cpp-python==$version"
mkdir "$work/source"
tar -xzf "$work"/llama_cpp_python-*.tar.gz --strip-components 1 -C "$work/source"

say "compiles its llama.cpp, about three minutes"
quietly cmake -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=OFF -DLLAVA_BUILD=OFF \
    -DLLAMA_BUILD_UI=OFF -DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_CXX_FLAGS_RELEASE=-O1
quietly cmake --build "$work/build" --parallel "$(nproc)" --target llama ggml ggml-base ggml-cpu

# The Python code as it is, and beside it the libraries, where its own build would have put them.
CMAKE_ARGS=-DLLAMA_BUILD=OFF quietly "${pip[@]}" install "$work/source"
libraries=$("$dest/bin/python" -c 'import importlib.util, os; print(os.path.dirname(importlib.util.find_spec("llama_cpp").origin))')/lib
mkdir -p "$libraries"
cp -a "$work"/build/bin/lib*.so* "$libraries/"
quietly "$dest/bin/python" -c 'import llama_cpp'
printf '%s\n' "$stamp" >"$dest/made-from"
say "has llama-cpp-python $version"
