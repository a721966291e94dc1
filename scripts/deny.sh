#!/usr/bin/env bash
# Checks licences, bans and sources of all dependencies against deny.toml, and known
# vulnerabilities where the advisory database can be had.
#
#   scripts/deny.sh [ARGUMENT FOR CARGO-DENY...]
#
# The database is a git repository that cargo-deny fetches. Where the network does not reach it, a
# copy fetched earlier is used; without one the check is left out, and that is said.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
cache=${XDG_CACHE_HOME:-$HOME/.cache}/dwell
deny=$(printf '%s\n' "$cache"/tools/cargo-deny-*/bin/cargo-deny | sort -V | tail -n1)
[ -x "$deny" ] || { printf 'deny: cargo-deny not found; run: make setup\n' >&2; exit 1; }

# Duplicate versions are a warning in deny.toml; only their number is of interest here.
quiet() {
    local log status=0
    log=$(mktemp)
    "$@" >"$log" 2>&1 || status=$?
    if [ "$status" = 0 ]; then
        printf 'deny: %s, %s warnings\n' "$(tail -n1 "$log")" "$(grep -c '^warning\[' "$log" || true)"
    else
        cat "$log" >&2
    fi
    rm -f "$log"
    return "$status"
}

quiet "$deny" "$@" check bans licenses sources

database=${CARGO_HOME:-$HOME/.cargo}/advisory-dbs
if GIT_TERMINAL_PROMPT=0 timeout 60 "$deny" "$@" fetch db >/dev/null 2>&1; then
    quiet "$deny" --offline "$@" check advisories
elif compgen -G "$database/*/crates" >/dev/null; then
    printf 'deny: the advisory database could not be fetched; uses the copy in %s\n' "$database"
    quiet "$deny" --offline "$@" check advisories
else
    printf 'deny: advisories NOT checked: the advisory database could not be fetched\n'
fi
