#!/usr/bin/env bash
# Builds the compiled part of the Python package and puts it beside the Python files, for PYTHONPATH=python.
#
# DWELL_CARGO_BUILD: what cargo is to build, if a build that has it was made already; the package alone otherwise.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
read -ra build <<<"${DWELL_CARGO_BUILD:---package dwell-python}"
cargo build --release --locked --quiet "${build[@]}"
cp "${CARGO_TARGET_DIR:-target}/release/libdwell_python.so" python/dwell/_core.abi3.so.new
# Its debug information is nine tenths of it.
strip --strip-debug python/dwell/_core.abi3.so.new
mv python/dwell/_core.abi3.so.new python/dwell/_core.abi3.so
