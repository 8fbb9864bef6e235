#!/usr/bin/env bash
# Runs go with -v, such as `compile.sh build -o bin/ ./cmd/hostd`, and says how many packages it has compiled.
# It is silent when everything is compiled already. What go says besides is shown.
#
# Compilers and vet collect less garbage, for a tenth less CPU time.
set -euo pipefail

verb=$1
shift
packages=
for word in "$@"; do [[ $word == ./* ]] && packages+=" $word"; done
count=0
terminal=
[ -t 2 ] && terminal=yes

progress() {
    if [ "$terminal" ]; then
        printf '\rcompiling%s: %d packages ' "$packages" "$count" >&2
    elif [ "$count" -eq 1 ]; then
        echo "compiling$packages: about a minute the first time" >&2
    elif [ $((count % 100)) -eq 0 ]; then
        echo "compiling$packages: $count packages" >&2
    fi
}

GOGC=${GOGC:-400} go "$verb" -v "$@" 2>&1 | {
    while IFS= read -r line; do
        if [[ $line =~ ^[A-Za-z0-9_./-]+$ ]]; then
            count=$((count + 1))
            progress
        else
            [ "$terminal" ] && [ "$count" -gt 0 ] && echo >&2
            printf '%s\n' "$line" >&2
        fi
    done
    [ -z "$terminal" ] || [ "$count" -eq 0 ] || echo >&2
}
