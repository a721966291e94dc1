#!/usr/bin/env bash
# Compiles the eBPF programs of dwell-kernel. The object is committed, so that building dwell needs no clang; a test compares the
# two byte for byte, so the compiler is one version and no path gets into the object. Takes the file to write.
set -euo pipefail
cd "$(dirname "$0")/../crates/dwell-kernel/bpf"
output=${1:-observe.bpf.o}
flags=(-g -O2 -target bpf -mcpu=v3 -Wall -Wextra -Werror -fno-ident -fdebug-prefix-map="$PWD"=.)
clang-14 "${flags[@]}" -c observe.bpf.c -o "$output"
llvm-strip-14 -g "$output"
