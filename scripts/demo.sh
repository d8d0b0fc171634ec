#!/usr/bin/env bash
# Shows arenascope on a program that hoards memory: first the live process, then its core.
# Leaves nothing behind: the process it started and its folder are gone when it ends, however it ends.
set -euo pipefail
# GDB would ask whether to load symbols from there
unset DEBUGINFOD_URLS
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=fixtures/build/hoard
workers=fixtures/build/workers
work=$(mktemp -d)
subject=

end_subject() {
    if [ -n "$subject" ]; then
        kill -KILL "$subject" 2>/dev/null || true
        wait "$subject" 2>/dev/null || true
    fi
    subject=
}

clean_up() {
    end_subject
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

bold='' faint='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$'\e[1m' faint=$'\e[2m' plain=$'\e[0m'
fi

heading() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }

show() { printf '%s$ %s%s\n' "$faint" "$*" "$plain"; }

die() {
    printf 'demo: %s\n' "$1" >&2
    [ ! -s "${2:-}" ] || cat "$2" >&2
    exit 1
}

# start_subject PROGRAM [ARGUMENT...]
start_subject() {
    local tries started=$1
    shift
    rm -rf "$work/subject" "$work/ready"
    mkdir "$work/subject"
    "$started" "$work/subject" "$@" </dev/null >"$work/ready" 2>"$work/subject.log" &
    subject=$!
    for ((tries = 0; tries < 600; tries++)); do
        ! grep -q '^ready ' "$work/ready" || return 0
        kill -0 "$subject" 2>/dev/null || die "$started ended before it was ready" "$work/subject.log"
        sleep 0.1
    done
    die "$started was not ready within a minute" "$work/subject.log"
}

# gdb_heap OPEN SHOWN COMMAND...: runs the heap commands on what the GDB command OPEN opens; SHOWN is how the same is
# typed on a command line. GDB's own lines about attaching, threads and frames are swallowed: they say nothing of the
# heap. So are its warnings, unless the command fails.
gdb_heap() {
    local open=$1 shown="gdb -nx -q -batch $2 -ex 'source gdb/arena.py'" run=() command
    shift 2
    for command in "$@"; do
        shown+=" -ex '$command'"
        run+=(-ex "$command")
    done
    show "$shown"
    gdb -nx -q -batch -iex 'set print inferior-events off' -iex 'set suppress-cli-notifications on' "/proc/$subject/exe" \
        -ex "python gdb.execute('$open', to_string=True)" -ex 'source gdb/arena.py' "${run[@]}" \
        </dev/null 2>"$work/gdb.log" || die "gdb failed" "$work/gdb.log"
    # an older GDB does not know each of these settings
    grep -v -e '^warning: ' -e '^Undefined set command' -e '^No symbol ' -e '^$' "$work/gdb.log" >&2 || true
}

heading "A program that has freed most of its memory, and still holds it"
show "$program DIR &"
start_subject "$program"
grep -E '^(Name|Threads|VmRSS):' "/proc/$subject/status"

heading "Live: where its memory is, why it stays, what would bring it back"
gdb_heap "attach $subject" "-p $subject" 'heap report'

heading "Live: whose memory it is, arena by arena"
gdb_heap "attach $subject" "-p $subject" 'heap arenas'

heading "Live: what its free lists hold"
gdb_heap "attach $subject" "-p $subject" 'heap bins --limit 12'

heading "Live: what malloc_trim would give back, and what it would leave"
gdb_heap "attach $subject" "-p $subject" 'heap trim'

heading "A core of the same process"
show "gcore -o core $subject"
gcore -o "$work/core" "$subject" >"$work/gcore.log" 2>&1 </dev/null || die "gcore failed" "$work/gcore.log"
core=$work/core.$subject
[ -s "$core" ] || die "gcore wrote no core" "$work/gcore.log"
printf 'core.%s, %s\n' "$subject" "$(du -h --apparent-size "$core" | cut -f1)"

heading "The core: the same figures, the process need not be there any more"
gdb_heap "core-file $core" "$program core.$subject" 'heap arenas' 'heap version'

end_subject
heading "Another program: eight workers allocated 30 MB blocks, freed them all, and are idle"
show "$workers DIR 30 8 &"
start_subject "$workers" 30 8
grep -E '^(Name|Threads|VmRSS):' "/proc/$subject/status"
gdb_heap "attach $subject" "-p $subject" 'heap report'
heading "The same in the shell, which gives it back: no GDB is needed for that"
show "bin/arenascope trim $subject --apply --tops -y"
bin/arenascope trim "$subject" --apply --tops -y || die "trim --apply failed" /dev/null
grep -E '^(Name|Threads|VmRSS):' "/proc/$subject/status"

printf '\nNext: source gdb/arena.py in your own GDB session, then "heap".\n'
