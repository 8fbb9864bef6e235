#!/usr/bin/env bash
# Shows docker-compose.yml without a container engine: lints it, builds what the
# Dockerfile builds, and runs the commands of its services as plain processes on
# loopback, in the same order and with the same environment. It fails unless the
# client exits 0, every service stops when asked, and no process is left.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly compose=docker-compose.yml
readonly client_seconds=180 stop_seconds=30

say() { printf 'compose: %s\n' "$*"; }
die() {
    reason=$*
    exit 1
}

# The box stands for the file systems of all containers. Whatever runs from it
# was started here, so a program in it that still runs at the end is a leak.
box=$(realpath "$(mktemp -d)")
reason= # why it failed, said last
token=compose-check-$$-$RANDOM
url= # of the NATS server, once it has a port
declare -A pids=()

# left lists processes whose program lies in the box, by its name there.
left() {
    local exe
    for exe in /proc/[0-9]*/exe; do
        case "$(readlink "$exe" 2>/dev/null)" in
        "$box/bin/${1:-}"*) exe=${exe#/proc/} && echo "${exe%/exe}" ;;
        esac
    done
}

cleanup() {
    local code=$? pid log
    trap - EXIT
    for pid in $(jobs -p) $(left); do kill -KILL "$pid" 2>/dev/null || true; done
    wait
    if [ "$code" -ne 0 ]; then
        for log in "$box"/*.log; do
            [ -s "$log" ] && printf '\n--- %s\n' "$(basename "$log")" >&2 && tail -n 30 "$log" >&2
        done
        say "FAILED: ${reason:-the command above exited with $code}" >&2
    fi
    rm -rf "$box"
    exit "$code"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

[ -d /proc/self ] || die "needs Linux: it looks for left processes in /proc"
command -v npx >/dev/null || die "needs npx (Node.js 20.19 or newer, with npm) to lint $compose"

# command_of prints the command of a service, an argument a line, with the
# addresses and paths of its container put into the box.
command_of() {
    sed -n "/^  $1:\$/,/^  [a-z]/ s/^    command: \\[\"\\(.*\\)\"\\]\$/\\1/p" "$compose" |
        sed -e 's/", "/\n/g' |
        sed -e "s|^nats://nats:4222\$|$url|" \
            -e "s|^\${NATS_TOKEN:-.*}\$|$token|" \
            -e "s|^/usr/local/bin/|$box/bin/|" \
            -e "s|^/var/lib/castnet|$box/$1|" \
            -e "s|^/corpus\$|$(go env GOROOT)/src|" \
            -e 's|^8222$|-1|'
}

hosts() { awk '/^  [a-z-]+:$/ {s = $1} /^    command: \["hostd",/ {sub(":", "", s); print s}' "$compose"; }

# run execs the command of a service with nothing from our environment but what
# its container has. Further arguments are added.
run() {
    local service=$1 argv
    shift
    mapfile -t argv < <(command_of "$service")
    if [ "${#argv[@]}" -eq 0 ]; then
        say "$compose has no one-line command for service $service"
        exit 1
    fi
    mkdir -p "$box/$service/tmp"
    cd "$box/$service"
    exec env -i PATH="$box/bin" HOME="$box/$service" TMPDIR="$box/$service/tmp" \
        NATS_TOKEN="$token" NATS_URL="$url" "${argv[@]}" "$@"
}

start() {
    (run "$@") </dev/null >"$box/$1.log" 2>&1 &
    pids[$1]=$!
}

# until_true polls: until_true SECONDS COMMAND...
until_true() {
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}

stop() {
    local pid=${pids[$1]} code=0
    kill -TERM "$pid" 2>/dev/null || die "$1 was gone before it was stopped"
    until_true "$stop_seconds" gone "$pid" || die "$1 still runs $stop_seconds s after SIGTERM"
    wait "$pid" || code=$?
    [ "$code" -eq 0 ] || die "$1 exited with $code when stopped"
}

gone() { ! kill -0 "$1" 2>/dev/null; }
none_left() { [ -z "$(left "$@")" ]; }
ports_known() { compgen -G "$box/ports/*.ports" >/dev/null; }
port_of() { sed -n "s|.*\"$1\":\\[\"\\([^\"]*\\)\".*|\\1|p" "$box"/ports/*.ports; }
healthy() { node -e 'fetch(process.argv[1]).then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))' "$1"; }

say "lint"
npx --yes dclint@3.1.0 --max-warnings 0 "$compose"

say "build"
build=$(sed -n 's/^RUN \(.*go build .*\)$/\1/p' Dockerfile)
[ -n "$build" ] || die "Dockerfile has no line RUN ... go build ..."
build=${build//-pgo packaging\/castnet.pgo /} # it would compile the standard library again
mkdir "$box/bin" "$box/ports"
bash -c "${build//\/out\//"$box/bin/"}"
go build -C tools -o "$box/bin/" github.com/nats-io/nats-server/v2

say "nats"
start nats --addr 127.0.0.1 --port -1 --ports_file_dir "$box/ports"
until_true 10 ports_known || die "the NATS server named no port within 10 s"
url=$(port_of nats)
health=$(sed -n 's|.*"http://127.0.0.1:8222\(/[^"]*\)".*|\1|p' "$compose")
until_true 10 healthy "$(port_of monitoring)$health" || die "the health check of the NATS server does not pass"

for host in $(hosts); do
    say "$host"
    start "$host"
done

say "client"
start client
code=0
until_true "$client_seconds" gone "${pids[client]}" || die "the client still runs after $client_seconds s"
wait "${pids[client]}" || code=$?
cat "$box/client.log"
[ "$code" -eq 0 ] || die "the client exited with $code"
until_true 10 none_left wordcount || die "procs outlive their client: $(left wordcount | xargs)"

for host in $(hosts); do stop "$host"; done
stop nats
until_true 5 none_left || die "processes are left: $(left | xargs)"
say "ok: the client exited 0, $(hosts | wc -l) hosts and the server stopped when asked, nothing is left"
