#!/usr/bin/env bash
# Installs what dwell needs on this machine and is not there yet; says each thing it does.
#
#   scripts/setup.sh run     what building and running needs
#   scripts/setup.sh test    that, and what the tests need
#
# With everything in place it does nothing, in under a second and without network.
# System packages come from apt. Everything else goes to a cache folder of dwell's own
# (XDG_CACHE_HOME, or ~/.cache, then dwell/), which may be removed at any time.
set -euo pipefail

readonly purpose=${1:-run}
case $purpose in
    run | test) ;;
    *) printf 'usage: scripts/setup.sh [run|test]\n' >&2; exit 2 ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/dwell
# The oldest compiler the workspace accepts; Cargo.toml says the same.
readonly rust_minor_needed=90
readonly deny_version=0.20.2

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# What is missing, by what it does rather than by package, so that other sources of it count.

has() { command -v "$1" >/dev/null 2>&1; }

has_library() { grep -q "$1" < <("$(command -v ldconfig || echo /sbin/ldconfig)" -p 2>/dev/null); }

# bindgen loads libclang and reads clang's own headers, which libclang alone does not bring.
has_libclang() {
    [ -z "${LIBCLANG_PATH:-}" ] || return 0
    { has_library libclang || compgen -G '/usr/lib/llvm-*/lib/libclang*.so*' >/dev/null; } &&
        { compgen -G '/usr/lib/llvm-*/lib/clang/*/include/stddef.h' || compgen -G '/usr/lib*/clang/*/include/stddef.h'; } >/dev/null
}

has_python_module() {
    python3 -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)' "$1" 2>/dev/null
}

has_certificates() { [ -n "${SSL_CERT_FILE:-}" ] || [ -s /etc/ssl/certs/ca-certificates.crt ] || [ -d /etc/pki/tls ]; }

missing=()
need() { missing+=("$1"); }

has g++ || need g++
has make || need make
has cmake || need cmake
has_libclang || need libclang-dev
has_library libgomp.so.1 || need libgomp1
has_certificates || need ca-certificates
has python3 || need python3
has_python_module pip || need python3-pip
if [ "$purpose" = test ]; then
    has valgrind || need valgrind
    has perf || need linux-perf
    has pkg-config || need pkg-config
    has_python_module ensurepip || need python3-venv
    has node || need nodejs
    has npm || need npm
    has chromium || need chromium
fi

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

apt_knows_all() {
    local package
    for package in "${missing[@]}"; do
        apt-cache show "$package" >/dev/null 2>&1 || return 1
    done
}

apt_update() {
    say "updates apt's package lists"
    # One source that does not answer need not matter: the install tells whether it did.
    as_root apt-get -qq update || say "apt-get update reported errors; goes on with the lists it has"
}

# Packages talk a lot while they are set up; it is of interest only if the last try fails.
apt_log=
apt_install() {
    apt_log=$(as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
        install --yes --no-install-recommends "${missing[@]}" 2>&1 </dev/null)
}

apt_failed() {
    printf '%s\n' "$apt_log" | tail -n 20 >&2
    fail "apt-get could not install: ${missing[*]}"
}

if [ ${#missing[@]} -gt 0 ]; then
    has apt-get || fail "needs these, named as Debian names them, and found no apt-get to install them: ${missing[*]}"
    [ "$(id -u)" = 0 ] || has sudo ||
        fail "needs root; run as root: apt-get install --no-install-recommends ${missing[*]}"
    updated=
    if ! apt_knows_all; then
        apt_update
        updated=yes
    fi
    say "installs ${missing[*]} with apt-get"
    if ! apt_install; then
        # Old lists name files that the archive no longer has.
        [ -z "$updated" ] || apt_failed
        apt_update
        apt_install || apt_failed
    fi
fi

# Another version of clang makes another object, so a Debian without this one skips the comparison.
if [ "$purpose" = test ] && ! { has clang-14 && has llvm-strip-14; }; then
    missing=(clang-14 llvm-14)
    if has apt-get && { [ "$(id -u)" = 0 ] || has sudo; } && apt_knows_all; then
        say "installs ${missing[*]} with apt-get"
        apt_install || true
    fi
    has llvm-strip-14 || say "goes on without clang-14; the test that compiles the eBPF programs will be skipped"
fi

has cargo || [ ! -x "$HOME/.cargo/bin/cargo" ] || PATH=$PATH:$HOME/.cargo/bin
has cargo || fail "needs Rust 1.$rust_minor_needed or newer, and found no cargo; install it with rustup"
rust_version=$(cargo --version | cut -d' ' -f2)
rust_minor=${rust_version#1.}
[ "${rust_minor%%.*}" -ge "$rust_minor_needed" ] || fail "needs Rust 1.$rust_minor_needed or newer, and found $rust_version; run: rustup update stable"

[ "$purpose" = test ] || exit 0

components=()
cargo fmt --version >/dev/null 2>&1 || components+=(rustfmt)
cargo clippy --version >/dev/null 2>&1 || components+=(clippy)
if [ ${#components[@]} -gt 0 ]; then
    has rustup || fail "needs ${components[*]} for the installed Rust, and found no rustup to add them"
    say "adds ${components[*]} with rustup"
    rustup --quiet component add "${components[@]}"
fi

# Two runs at once must not fill the same folder. Waiting is said, because it may be long.
mkdir -p "$cache"
exec 9>"$cache/setup.lock"
flock --nonblock 9 || { say "waits for another setup to finish"; flock 9; }

# Compiled without optimisation, cargo-deny is built in about a minute on two cores, and a check of
# the tree still takes about a second.
deny_root=$cache/tools/cargo-deny-$deny_version
if [ ! -x "$deny_root/bin/cargo-deny" ]; then
    say "compiles cargo-deny $deny_version, about a minute"
    CARGO_TARGET_DIR=$cache/tools/build CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
        CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=0 \
        cargo install --quiet --locked --root "$deny_root" "cargo-deny@$deny_version" 2>"$cache/cargo-deny.log" || {
        cat "$cache/cargo-deny.log" >&2
        fail "could not install cargo-deny $deny_version"
    }
    rm -rf "$cache/tools/build" "$cache/cargo-deny.log"
fi

# An environment is made for one interpreter and one list of packages; either may change.
make_venv() {
    local folder=$cache/$1 requirements=$root/$2 stamp
    stamp="$(sha256sum <"$requirements" | cut -d' ' -f1) $(python3 --version)"
    if [ "$(cat "$folder/made-from" 2>/dev/null)" = "$stamp" ] && "$folder/bin/python" -c '' 2>/dev/null; then
        return 0
    fi
    say "installs $3 to $folder"
    rm -rf "$folder"
    python3 -m venv "$folder" &&
        "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: -r "$requirements" &&
        printf '%s\n' "$stamp" >"$folder/made-from"
}

make_venv venv-peer tests/peer/requirements.txt 'mrm-trace, the program that dwell is compared with,' ||
    fail "could not install the packages of tests/peer/requirements.txt"
make_venv venv-torch python/tests/requirements.txt 'PyTorch and transformers, about 6 GB with the GPU libraries they bring,' ||
    say "goes on without PyTorch; the tests of the Python package will be skipped"
make_venv venv-cluster python/tests/cluster/requirements.txt 'Ray and an S3 server for tests, 470 MB,' ||
    say "goes on without Ray; the tests of analysis on a cluster will be skipped"

# What rebuilds the viewer of reports and opens them in a browser.
"$root/scripts/fetch-node-tools.sh" viewer ||
    say "goes on without the viewer's tools; the tests that open reports in a browser will be skipped"

# What rebuilds the pages of models in the browser, and the runtimes that their tests run: 270 MB.
"$root/scripts/fetch-node-tools.sh" web ||
    say "goes on without the tools of web/; the tests that run models in a browser will be skipped"

# Debian's unstable release may be without the package for a while. Tests that need it then skip.
"$root/scripts/fetch-llama-tools.sh" "$cache/llama-tools" ||
    say "goes on without real llama.cpp programs; the tests that trace them will be skipped"

# Needs Go, which is not installed for it: what Debian has is often older than Ollama asks for.
"$root/scripts/fetch-ollama.sh" "$cache/ollama" "$cache/llama-tools" ||
    say "goes on without a real Ollama; the tests that run it will be skipped"

# The publishers of KV cache events, of which the tests of that collector receive.
{ make_venv venv-kv crates/dwell-kv-events/tests/publisher/requirements.txt 'what the publishers of vLLM and SGLang import' &&
    "$root/scripts/fetch-kv-publishers.sh" "$cache/kv-publishers"; } ||
    say "goes on without the publishers of vLLM and SGLang; the tests that receive from them will be skipped"

# Programs that dwell knows nothing about, for the tests of `dwell trace`.
"$root/scripts/fetch-node-llama-cpp.sh" "$cache/node-llama-cpp" ||
    say "goes on without node-llama-cpp; the test that traces it will be skipped"
"$root/scripts/fetch-llama-cpp-python.sh" "$cache/venv-llama-cpp" ||
    say "goes on without llama-cpp-python; the tests that trace it will be skipped"
"$root/scripts/fetch-ggml-packages.sh" "$cache/venv-ggml-packages" ||
    say "goes on without xllamacpp; the tests that trace it will be skipped"
