#!/usr/bin/env bash
# Fetches the code with which vLLM and SGLang publish KV cache events, and nothing else of them.
#
#   scripts/fetch-kv-publishers.sh [DEST]
#
# DEST (default: kv-publishers in dwell's cache) receives one folder per version with its unmodified
# kv_events.py. A wheel of vLLM has hundreds of megabytes; only the parts that hold this file are
# asked for. The index is the one pip is told of by PIP_INDEX_URL, or PyPI. What comes is compared
# with the checksums below. An existing DEST with all of them is kept, without network.
set -euo pipefail

readonly dest=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/dwell/kv-publishers}

# package, version, path in the wheel, SHA-256
readonly wanted="\
vllm 0.11.0 vllm/distributed/kv_events.py 232ccb502d7c8ed3b6e55b7dc0dd6d82b4c6baa8637e10862b71d260dc8f04f2
vllm 0.22.0 vllm/distributed/kv_events.py 84dce79a7690dba87f1a7f408bf2daa619715f422c0ddfab9f97ec0c74c547c8
vllm 0.32.0 vllm/distributed/kv_events.py fc73fe6a4b52b05183a9b7bb7696e3c468f7ec9d7c37ec08f1cbee989298e949
sglang 0.5.15 sglang/srt/disaggregation/kv_events.py 9d5b85785d3004fcef68ef1902c104add67e779a3776285287c8bb51f5e4c9ff
sglang 0.5.23 sglang/srt/disaggregation/kv_events.py ef80e7165b11280d30bc07a9e3c04de5057ee45e9c94503a3ac432b009a0e421"

is_there() {
    [ -f "$1" ] && [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]
}

while read -r package version member sum; do
    file=$dest/$package-$version/kv_events.py
    ! is_there "$file" "$sum" || continue
    printf 'kv-publishers: fetches kv_events.py of %s %s\n' "$package" "$version"
    mkdir -p "$(dirname "$file")"
    python3 - "$package" "$version" "$member" "$sum" "$file" <<'PYTHON'
"""Reads one file out of a wheel on the package index, without the rest of the wheel."""

import hashlib
import io
import os
import re
import sys
import urllib.parse
import urllib.request
import zipfile


class Remote(io.RawIOBase):
    """A file on a server, read piece by piece."""

    def __init__(self, url):
        self.url = url
        self.place = 0
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:
            self.size = int(answer.headers["content-length"])

    def readable(self):
        return True

    def seekable(self):
        return True

    def tell(self):
        return self.place

    def seek(self, offset, whence=io.SEEK_SET):
        self.place = [0, self.place, self.size][whence] + offset
        return self.place

    def readinto(self, buffer):
        end = min(self.place + len(buffer), self.size)
        if end <= self.place:
            return 0
        asked = urllib.request.Request(self.url, headers={"Range": f"bytes={self.place}-{end - 1}"})
        with urllib.request.urlopen(asked) as answer:
            if answer.status != 206:
                sys.exit(f"kv-publishers: {self.url} cannot be read in part")
            piece = answer.read()
        buffer[: len(piece)] = piece
        self.place += len(piece)
        return len(piece)


package, version, member, checksum, target = sys.argv[1:]
index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + f"/{package}/"
with urllib.request.urlopen(urllib.request.Request(index, headers={"Accept": "text/html"})) as answer:
    links = re.findall(r'href="([^"#]*)[^"]*"[^>]*>([^<]*)<', answer.read().decode())
wheels = [urllib.parse.urljoin(index, link) for link, name in links if name.startswith(f"{package}-{version}-")]
wheels = [wheel for wheel in wheels if wheel.endswith(".whl")]
if not wheels:
    sys.exit(f"kv-publishers: {index} has no wheel of version {version}")
with zipfile.ZipFile(io.BufferedReader(Remote(wheels[0]), 1 << 20)) as wheel:
    content = wheel.read(member)
if hashlib.sha256(content).hexdigest() != checksum:
    sys.exit(f"kv-publishers: {member} of {package} {version} is not the file that was expected")
partial = f"{target}.partial"
with open(partial, "wb") as file:
    file.write(content)
os.replace(partial, target)
PYTHON
done <<<"$wanted"
