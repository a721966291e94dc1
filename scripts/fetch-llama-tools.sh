#!/usr/bin/env bash
# Fetches real llama.cpp programs, built by Debian, without installing anything.
#
#   scripts/fetch-llama-tools.sh [DEST]
#
# DEST (default: llama-tools in dwell's cache) receives Debian unstable's `llama.cpp-tools`, every
# library it needs down to the C library, and a wrapper that starts a program from there:
#
#   DEST/run-llama TOOL [ARGUMENT...]     for example: DEST/run-llama llama-completion -m M.gguf -p Hi
#   DWELL_LLAMA_PRELOAD=/path/lib.so      is loaded into the program before its own libraries
#   DEST/run-llama --list                 names the programs
#   DEST/bin/llama-server [ARGUMENT...]   and llama-cli, llama-completion: like installed ones, LD_PRELOAD too
#
# No root: the packages are unpacked, not installed, and apt keeps its state in a folder of its own.
# The mirror is the one this machine's apt already uses for Debian. An existing DEST is kept as it
# is, without network, but for its wrappers; remove it to fetch the current version. DEST/VERSION names
# the packages.
set -euo pipefail

readonly package=llama.cpp-tools
readonly suite=sid
readonly keyring=/usr/share/keyrings/debian-archive-keyring.gpg
readonly dest=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/dwell/llama-tools}

# Raised when the layout of DEST/root changes, so that an older DEST is fetched again.
readonly layout=1

say() { printf 'llama-tools: %s\n' "$*"; }
fail() { printf 'llama-tools: %s\n' "$*" >&2; exit 1; }

# Writes the wrappers into a folder, each in one step, because somebody may be starting a program.
write_wrappers() {
    local folder=$1 tool
    put_program "$folder/run-llama" <<'WRAPPER'
#!/usr/bin/env bash
# Starts a llama.cpp program of this folder with the libraries of this folder.
# DWELL_LLAMA_PRELOAD names libraries, with colons between them, to load before those.
set -euo pipefail

here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
root=$here/root

tool=${1:-}
if [ -z "$tool" ] || [ "$tool" = --list ]; then
    (cd "$root/usr/bin" && printf '%s\n' llama-*)
    exit 0
fi
shift
if [ ! -x "$root/usr/bin/$tool" ]; then
    printf 'run-llama: no program %s; run-llama --list names them\n' "$tool" >&2
    exit 2
fi

loader=$(find "$root" -name 'ld-linux-*.so.*' -type f -print -quit)
triplet=$(basename "$(dirname "$loader")")
libraries=$root/usr/lib/$triplet

# The plug-ins' folder is compiled in as an absolute path, so one is named here. AVX2 is the most
# that is asked for: some virtual machines announce AMX and stop at its first instruction.
if [ -z "${GGML_BACKEND_PATH:-}" ]; then
    kernels=x64
    ! grep -qw avx2 /proc/cpuinfo || kernels=haswell
    GGML_BACKEND_PATH=$(find "$libraries" -name "libggml-cpu-$kernels.so" -print -quit)
    export GGML_BACKEND_PATH
fi

preload=()
[ -z "${DWELL_LLAMA_PRELOAD:-}" ] || preload=(--preload "$DWELL_LLAMA_PRELOAD")
exec "$loader" --library-path "$libraries:$libraries/llama" "${preload[@]}" --argv0 "$tool" "$root/usr/bin/$tool" "$@"
WRAPPER
    mkdir -p "$folder/bin"
    for tool in llama-server llama-cli llama-completion; do
        put_program "$folder/bin/$tool" <<'WRAPPER'
#!/usr/bin/env bash
# Starts the llama.cpp program of this name like an installed one.
set -euo pipefail
exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../run-llama" "$(basename "$0")" "$@"
WRAPPER
    done
}

# Puts standard input into a file that can be executed.
put_program() {
    cat >"$1.new"
    chmod 755 "$1.new"
    mv "$1.new" "$1"
}

if [ -x "$dest/run-llama" ] && [ "$(head -n1 "$dest/VERSION" 2>/dev/null)" = "layout $layout" ]; then
    write_wrappers "$dest"
    exit 0
fi

for tool in apt-get apt-cache dpkg; do
    command -v "$tool" >/dev/null || fail "$tool not found; this needs Debian or a system made from it"
done
[ -r "$keyring" ] || fail "$keyring not found; install the package debian-archive-keyring"
arch=$(dpkg --print-architecture)
[ "$arch" = amd64 ] || fail "the wrapper knows the plug-ins of amd64 only, and this machine is $arch"

mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$(dirname "$dest")/.llama-tools.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Addresses of this machine's Debian archives, that of its own release first. Sources of other
# origins and the security archive name other suites, so they are left out.
mirrors() {
    local codename
    # shellcheck disable=SC1091
    codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
    apt-get update --print-uris 2>/dev/null |
        sed -n "s|^'\(.*\)/dists/\([^/']*\).*|\2 \1|p" |
        awk -v own="$codename" '
            $1 == own { print 0, $2; next }
            $1 ~ /^(oldstable|stable|testing|unstable|sid)$/ { print 1, $2 }' |
        sort -s -n -k1,1 | awk '!seen[$2]++ { print $2 }'
}

# An apt that knows unstable alone and believes nothing is installed, so that it resolves the whole
# set of libraries. Proxy and credentials of the machine's apt still apply; its hooks do not.
mkdir -p "$work/apt/state/lists/partial" "$work/apt/cache/archives/partial"
: >"$work/apt/status"
cat >"$work/apt/apt.conf" <<CONF
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear APT::Architectures;
Dir::Etc::sourcelist "$work/apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferences "-";
Dir::Etc::preferencesparts "-";
Dir::State "$work/apt/state";
Dir::State::status "$work/apt/status";
Dir::Cache "$work/apt/cache";
Debug::NoLocking "true";
APT::Sandbox::User "root";
APT::Architecture "$arch";
APT::Install-Recommends "false";
APT::Get::Assume-Yes "true";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "2";
CONF
private=(-q -c="$work/apt/apt.conf")

found=
for mirror in $(mirrors); do
    printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$suite" >"$work/apt/sources.list"
    say "reads the package list of Debian $suite"
    if apt-get "${private[@]}" update >"$work/apt.log" 2>&1 &&
        apt-cache "${private[@]}" show "$package" >/dev/null 2>&1; then
        found=yes
        break
    fi
done
if [ -z "$found" ]; then
    [ ! -s "$work/apt.log" ] || tail -n 5 "$work/apt.log" >&2
    fail "found no Debian archive with $package among this machine's apt sources"
fi

say "downloads $package and its libraries"
apt-get "${private[@]}" --download-only install "$package" >"$work/apt.log" 2>&1 || {
    tail -n 15 "$work/apt.log" >&2
    fail "could not download $package"
}

say "unpacks to $dest"
mkdir "$work/root"
{
    printf 'layout %s\n' "$layout"
    for deb in "$work"/apt/cache/archives/*.deb; do
        dpkg -x "$deb" "$work/root" >&2
        # shellcheck disable=SC2016
        dpkg-deb --show --showformat='${Package} ${Version}\n' "$deb"
    done
} >"$work/VERSION"
rm -rf "$work/apt" "$work/apt.log" "$work/root/etc" "$work/root/var" "$work/root"/usr/share/{doc,locale,man,info,perl5}

write_wrappers "$work"
chmod 755 "$work"

"$work/run-llama" llama-completion --version >"$work/version.log" 2>&1 || {
    tail -n 5 "$work/version.log" >&2
    fail "the unpacked llama-completion does not start"
}
rm -rf "$work/version.log" "$dest"
mv "$work" "$dest"
trap - EXIT
say "has $(grep "^$package " "$dest/VERSION")"
