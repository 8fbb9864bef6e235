#!/bin/sh
# Names each missing part in one line before anything is compiled: Go, writable folders, modules, with
# --race a C compiler, and with --nats the modules of the nats command. Fetches missing modules.
set -u
cd "$(dirname "$0")/.." || exit 1

failed=
problem() {
    printf 'castnet: %s\n' "$*" >&2
    failed=yes
}

command -v go >/dev/null || {
    problem "there is no go on PATH: install Go $(sed -n 's/^go //p' go.mod) or newer"
    exit 1
}

# minor prints N of go1.N.x; 0 for any other text.
minor() {
    v=${1#go1.}
    v=${v%%[!0-9]*}
    [ "$v" ] && [ "${1%%.*}" = go1 ] && echo "$v" || echo 0
}

# From / because go.mod would have an old Go fetch a newer one.
settings=$(cd / && GOTOOLCHAIN=local GOWORK=off go env GOVERSION GOCACHE GOMODCACHE CGO_ENABLED CC 2>&1) || {
    problem "go env failed: $(printf '%s' "$settings" | head -n 1)"
    exit 1
}
{
    read -r version
    read -r cache
    read -r modules
    read -r cgo
    read -r cc
} <<END
$settings
END

want=$(minor "go$(sed -n 's/^go //p' go.mod)")
if [ "$(minor "$version")" -lt "$want" ] && { [ "${GOTOOLCHAIN:-}" = local ] || ! go version >/dev/null 2>&1; }; then
    problem "Go 1.$want or newer is needed, and $(command -v go) is $version"
    exit 1
fi

# writable makes the folder if it is missing, and a file in it: test -w is wrong for root and for a
# read-only disk.
writable() { # path, content, advice
    case $1 in
    '' | off) problem "$2 has no folder: $3" && return ;;
    esac
    probe=$1/.castnet-$$
    if mkdir -p "$1" 2>/dev/null && (: >"$probe") 2>/dev/null; then
        rm -f "$probe"
    else
        problem "$2 is in $1, which cannot be written: $3"
    fi
}
writable "$cache" "Go's build cache" "set HOME or GOCACHE to a writable folder"
writable "${TMPDIR:-/tmp}" "the folder for temporary files" "set TMPDIR to a writable folder"
writable "$PWD/bin" "what make builds" "check out castnet into a writable folder"

# Without cgo Go needs no C compiler; the race detector needs one.
if [ "${1:-}" = --race ] || [ "$cgo" = 1 ]; then
    # shellcheck disable=SC2086 # CC may have flags
    if ! command -v "${cc%% *}" >/dev/null; then
        problem "the race detector needs a C compiler, and there is no ${cc%% *}: install gcc and libc6-dev"
    elif ! echo '#include <stdlib.h>' | $cc -E - >/dev/null 2>&1; then
        problem "the C compiler ${cc%% *} finds no stdlib.h: install libc6-dev, or set CGO_ENABLED=0 (without the race detector)"
    fi
fi

# absent reports whether a module of go.mod is not there yet.
absent() {
    awk '/^require [^(]/ {print $2 "@" $3} /^\t/ {print $1 "@" $2}' go.mod |
        { while read -r m; do [ -d "$modules/$m" ] || exit 0; done; exit 1; }
}
if [ -z "$failed" ] && absent; then
    writable "$modules" "Go's module cache" "set HOME or GOMODCACHE to a writable folder"
    [ "$failed" ] && exit 1
    echo "castnet: fetching modules…" >&2
    said=$(go mod download 2>&1) || problem "modules cannot be fetched: $(printf '%s' "$said" | head -n 1)"
fi
if [ -z "$failed" ] && [ "${1:-}" = --nats ]; then
    said=$(go list -C tools -deps github.com/nats-io/natscli/nats 2>&1 >/dev/null) ||
        problem "modules of the nats command cannot be fetched: $(printf '%s' "$said" | grep -v '^go: downloading' | head -n 1)"
fi
[ -z "$failed" ]
