#!/usr/bin/env bash
# Builds a real Ollama from its Go module, without installing anything.
#
#   scripts/fetch-ollama.sh [DEST [LLAMA_TOOLS]]
#
# DEST (default: ollama in dwell's cache) receives Ollama as its packages lay it out:
#
#   DEST/bin/ollama                 the server and its command line, compiled here
#   DEST/lib/ollama/llama-server    the program it starts for each model: a link to that of LLAMA_TOOLS
#   DEST/VERSION                    what it was made from
#
# Ollama's own llama-server is built from sources that are not in its module. LLAMA_TOOLS (default:
# llama-tools in dwell's cache, filled by scripts/fetch-llama-tools.sh) has one that takes the same
# arguments.
#
# The module and what it needs come from the module proxy that this machine's Go is set up for. They
# and the build cache, about 750 MB, lie next to DEST while it is built, and are removed afterwards. A
# DEST of the same version is kept as it is, without network.
set -euo pipefail

readonly module=github.com/ollama/ollama
readonly version=0.34.4
readonly checksum=h1:o7So45nFInmKbWj8O8I5NWuoeRYxoupkLA0hnQ+N60s=
readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/dwell
dest=$(realpath -m "${1:-$cache/ollama}")
llama_tools=$(realpath -m "${2:-$cache/llama-tools}")
readonly dest llama_tools

# Raised when the layout of DEST changes, so that an older DEST is built again.
readonly layout=1

say() { printf 'ollama: %s\n' "$*"; }
fail() { printf 'ollama: %s\n' "$*" >&2; exit 1; }

made_from() {
    printf 'layout %s\n%s v%s %s\nllama-server of %s\n' "$layout" "$module" "$version" "$checksum" "$llama_tools"
}

if [ -x "$dest/bin/ollama" ] && [ "$(cat "$dest/VERSION" 2>/dev/null)" = "$(made_from)" ]; then
    exit 0
fi

[ -x "$llama_tools/bin/llama-server" ] || fail "no llama-server in $llama_tools; first run: scripts/fetch-llama-tools.sh"
command -v go >/dev/null || fail "go not found; Ollama $version is compiled with Go 1.26 or newer"
compiler=$(go env CC)
command -v "${compiler%% *}" >/dev/null || fail "the C compiler of Go, $compiler, not found; install gcc"

mkdir -p "$(dirname "$dest")"
work=$(mktemp -d "$(dirname "$dest")/.ollama.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Options of the machine's Go that are meant for other builds are left out; proxies and checksum
# database stay as they are. Modules are unpacked writable, so that they can be removed.
export GOMODCACHE=$work/modules GOCACHE=$work/build GOBIN=$work/made/bin GOFLAGS=-modcacherw
export CGO_ENABLED=1
unset GOOS GOARCH

say "downloads the module $module v$version"
cd "$work"
go mod download -json "$module@v$version" >module.json 2>go.log || {
    tail -q -n 5 module.json go.log >&2
    fail "could not download $module v$version"
}
found=$(sed -n 's/.*"Sum": "\(.*\)".*/\1/p' module.json)
[ "$found" = "$checksum" ] || fail "$module v$version has checksum $found, and not $checksum: not the sources it had"

say "downloads what it needs and compiles it, about two minutes"
go install -trimpath -ldflags="-s -w -X=$module/version.Version=$version" "$module@v$version" >go.log 2>&1 || {
    tail -n 15 go.log >&2
    fail "could not compile $module v$version with $(go version)"
}

mkdir -p made/lib/ollama
ln -s "$llama_tools/bin/llama-server" made/lib/ollama/llama-server
chmod 755 made
made_from >made/VERSION

# Without a server at the address it names its own version, in a warning. Nothing listens at port 9.
OLLAMA_HOST=127.0.0.1:9 made/bin/ollama --version >version.log 2>&1 || :
grep -qF "version is $version" version.log || {
    tail -n 5 version.log >&2
    fail "the compiled ollama does not start"
}
made/lib/ollama/llama-server --version >version.log 2>&1 || {
    tail -n 5 version.log >&2
    fail "the llama-server of $llama_tools does not start"
}
rm -rf "$dest"
mv made "$dest"
say "has Ollama $version, with the llama-server of $llama_tools"
