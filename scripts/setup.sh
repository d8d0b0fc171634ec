#!/usr/bin/env bash
# Installs what arenascope needs here: packages of Debian or Ubuntu, and a .venv for the Python libraries.
#   scripts/setup.sh python     a Python: all that `make zipapp` and `make docs` need
#   scripts/setup.sh engine     a cargo, and compiles the engine with it
#   scripts/setup.sh check      that, and the linters, for `make check`
#   scripts/setup.sh release    what `make release` needs
#   scripts/setup.sh site       MkDocs, for `make docs-site`
#   scripts/setup.sh runtime    what `make demo` needs: GDB, a compiler, libc's debug symbols
#   scripts/setup.sh test       that, and what `make test` needs: the engine, an LLDB, small tools
#   scripts/setup.sh all        that, and what `make test-all` looks at: more LLDBs, allocators, machines, programs
#   scripts/setup.sh --simulate LEVEL    asks apt whether it could, and does nothing
# Says first what it will install and roughly how long that takes. Needs root only where a package is missing. What
# tests can do without is named in one line where it cannot be had, and they skip.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for part in needs debian libraries; do
    # shellcheck source=/dev/null
    . "scripts/setup/$part.sh"
done

simulate=
[ "${1:-}" != --simulate ] || { simulate=yes && shift; }
level=${1:-test}
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
work=$(mktemp -d)
log=$work/log
trap 'release_services; rm -rf "$work"' EXIT

say() { printf 'setup: %s\n' "$*"; }

die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# Runs a noisy command; its output matters only if it fails.
quietly() {
    "$@" >"$log" 2>&1 </dev/null && return
    cat "$log" >&2
    die "failed: $*"
}

# RANK NEED WHY: noted for a day, in which it is not looked for again, and for the tests: in CI they skip for want of
# that and of nothing else.
cannot_have() {
    case $1 in
        hard) die "$2: $3" ;;
        sure) [ "${CI:-}" != true ] || die "$2: $3" ;;
    esac
    say "$2: $3; its tests will be skipped"
    echo "$2" >>"$absent"
}

# Says so if anything is compiled. Only `make engine` fails without a cargo: most commands do without the engine.
build_engine() {
    scripts/engine.sh cargo >/dev/null 2>&1 || [ "$level" = engine ] || return 0
    scripts/engine.sh build | tee "$work/compiled"
    [ ! -s "$work/compiled" ] || done_something=yes
}

known_absent() { grep -qx -e "$1" "$absent"; }

below=" $(levels "$level") " || die "usage: scripts/setup.sh [--simulate] [python|engine|check|release|site|runtime|test|all]"
done_something=
absent=$work/absent
: >"$absent"
[ -z "$(find $venv/absent -mmin -1440 2>/dev/null)" ] || cp $venv/absent "$absent"
while read -r its_level rank need patterns; do
    [[ "$below" == *" $its_level "* ]] || continue
    known_absent "$need" || have "$need" || echo "$rank $need $patterns"
done < <(needs) >"$work/missing"
[ ! -s "$work/missing" ] || install_packages "$work/missing"
[ -z "$simulate" ] || exit 0
[ "$level" != all ] || unpack_lldbs
[[ "$below" != *" engine "* ]] || build_engine
if [ "$level" != python ] && [ "$level" != engine ]; then
    make_venv
    # shellcheck disable=SC2046 # several words
    install_libraries $(extras "$level")
    if [ "$level" = all ]; then
        install_extensions
        install_axe
    fi
    cmp -s "$absent" $venv/absent || cp "$absent" $venv/absent
fi
if [ "$level" = engine ]; then
    # what was done has been said
    exit 0
elif [ -n "$done_something" ]; then
    say "done in $SECONDS s"
else
    say "nothing to do$([ ! -s "$absent" ] || printf ' (not to be had here: %s)' "$(paste -sd ' ' "$absent")")"
fi
