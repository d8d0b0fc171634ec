#!/usr/bin/env bash
# Does what a newcomer does, on machines that have git and make and nothing else: makes a minimal root of each suite of
# Debian's or Ubuntu's, clones the project's last commit into it and runs the commands of README's "Try it" there, word
# for word. On bullseye and jammy, whose tools are older than what the tests are written for, `make demo` alone; `make
# test-all`, which takes what these alone have, only on the releases of Debian's from 12 on.
#   scripts/newcomer.sh [--short] [SUITE...]        bullseye, bookworm, trixie, sid, jammy and noble where none is named
#   scripts/newcomer.sh --package [SUITE...]        builds the Debian package instead, and installs it in a second root
# --short only collects what `make test` would run, and asks apt whether it could install what test-all takes. Needs root
# and debootstrap. Proxies and pip's settings are this machine's own, and so are archives: where apt knows one of the two
# alone, the other's is looked for beside it, as mirrors have them. What no archive has is told, and passed over. Logs stay
# in fixtures/build/newcomer; all else is gone at the end, however that comes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

logs=$PWD/fixtures/build/newcomer
usual=(bullseye bookworm trixie sid jammy noble)
demo_alone=" bullseye jammy "
without_all="$demo_alone noble "
short=
what=readme

say() { printf 'newcomer: %s\n' "$*"; }

die() {
    printf 'newcomer: %s\n' "$*" >&2
    exit 1
}

# URI of an archive that apt is set up with, by its origin (Debian, Ubuntu) and label (Debian-Security).
archive() {
    # shellcheck disable=SC2016 # the words in $() are apt's
    apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
        sed -n "s/^$1|$2|//p" | sed 's#/*$##' | sort -u | head -n 1
}

# Of one origin, where apt is set up with it or has the other's beside it.
archive_of() {
    local own other=Debian
    [ "$1" != Debian ] || other=Ubuntu
    own=$(archive "$1" "$1")
    [ -n "$own" ] || own=$(archive "$other" "$other" | sed -n "s#/${other,,}\$#/${1,,}#p")
    [ -z "$own" ] || echo "$own"
}

# Whether an archive has a suite, asked as apt asks; whatever else it says stays in $work/asked.
has() { /usr/lib/apt/apt-helper download-file "$1/dists/$2/InRelease" "$work/InRelease" >"$work/asked" 2>&1; }

readme_commands() { sed -n '/^## Try it/,/^## /s/^\(make [^#]*[^# ]\) *#.*/\1/p' README.md; }

# A package is built, by who has the tools for it,
build_commands() {
    echo "apt-get update -q"
    echo "apt-get install -qy --no-install-recommends build-essential"
    echo "apt-get build-dep -qy --no-install-recommends ./"
    echo "dpkg-buildpackage -b -us -uc"
}

# and tried by who has not: debian/try-installed comes along.
install_commands() {
    echo "apt-get update -q"
    echo "apt-get install -qy --no-install-recommends ./*.deb gdb"
    echo "./try-installed"
}

# What a machine needs to be told to reach apt's archive and pip's index from here.
carry_over() {
    local root=$1 suite=$2 origin=$3 mirror=$4 security path pocket sections=main
    [ "$origin" = Debian ] || sections="main universe"
    security=$mirror
    [ "$origin" = Ubuntu ] || security=$(archive Debian Debian-Security)
    echo "deb $mirror $suite $sections" >"$root/etc/apt/sources.list"
    # sid has none
    for pocket in "$mirror $suite-updates" "$security $suite-security"; do
        # shellcheck disable=SC2086 # two words
        [[ $pocket == " "* ]] || ! has $pocket || echo "deb $pocket $sections" >>"$root/etc/apt/sources.list"
    done
    apt-config dump | grep -iE '^Acquire::(https?::|ftp::|Check-)' >"$root/etc/apt/apt.conf.d/99newcomer" || true
    for path in /etc/resolv.conf /etc/hosts /etc/apt/auth.conf /etc/apt/auth.conf.d /etc/ssl/certs/ca-certificates.crt \
        /usr/local/share/ca-certificates /etc/pip.conf ~/.config/pip ~/.pip $(settings | sed 's/^[^=]*=//' | tr ' ' '\n'); do
        [[ $path == /?* && -e $path ]] || continue
        mkdir -p "$root${path%/*}"
        cp -aLT "$path" "$root$path"
    done
}

# Where pip and git are told of indexes, proxies and certificates by the environment.
settings() { env | grep -E '^(PIP_[A-Z_]*|[A-Za-z]*_proxy|[A-Z]*_PROXY|SSL_CERT_FILE|REQUESTS_CA_BUNDLE)=' || true; }

# In a mount and process namespace of its own: what is mounted and started here is gone with it.
inside() {
    local root=$1 suite=${1##*/} status=0 command variables
    # a mount of its own, which tests need to mount things in turn
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    [ -e "$root/dev/ptmx" ] || ln -s pts/ptmx "$root/dev/ptmx"
    mapfile -t variables < <(settings)
    while IFS= read -r command; do
        [[ $command != *test* || $demo_alone != *" $suite "* ]] || continue
        [[ $command != *test-all* || $without_all != *" $suite "* ]] || continue
        case ${short:+$command} in
            *test-all*) command="scripts/setup.sh --simulate all" ;;
            *test*) command+=" PYTEST_ARGS='--collect-only -qq'" ;;
        esac
        printf '\n$ %s\n' "$command"
        SECONDS=0
        chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
            DEBIAN_FRONTEND=noninteractive ${CI:+CI="$CI"} "${variables[@]}" \
            sh -c "cd /arenascope && $command" </dev/null 2>&1 || status=$?
        printf '= %s: exit %d after %d s\n' "$command" "$status" "$SECONDS"
        [ "$status" -eq 0 ] || return "$status"
    done < <("${what}_commands")
}

if [ "${1:-}" = --inside ]; then
    short=$3 what=$4
    inside "$2"
    exit
fi

suites=()
for word in "$@"; do
    case $word in
        --short) short=yes ;;
        --package) what=build ;;
        -*) die "usage: scripts/newcomer.sh [--short | --package] [SUITE...]" ;;
        *) suites+=("$word") ;;
    esac
done
[ ${#suites[@]} -gt 0 ] || suites=("${usual[@]}")
[ -e .git ] || die "it clones the last commit, and this is no git checkout"
[ "$(id -u)" -eq 0 ] || die "a root is made as root"
command -v debootstrap >/dev/null || die "debootstrap is not installed: apt-get install debootstrap"
unshare --mount --pid --fork true 2>/dev/null || die "this machine does not let root make namespaces (CAP_SYS_ADMIN)"
[ -n "$(archive_of Debian)$(archive_of Ubuntu)" ] ||
    die "apt knows no archive of Debian's or Ubuntu's here (or apt-get update was never run)"
[ -n "$(readme_commands)" ] || die "README.md has no commands under 'Try it'"

work=$(mktemp -d)
child=
clean_up() {
    # with it ends every process of its namespace, and with those its mounts
    [ -z "$child" ] || { kill -TERM "$child" && wait "$child"; } 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

in_namespace() {
    unshare --mount --propagation private --pid --fork --kill-child \
        bash scripts/newcomer.sh --inside "$1" "$short" "$2" </dev/null &
    child=$!
    local its=0
    wait "$child" || its=$?
    child=
    return "$its"
}

mkdir -p "$logs"
failed=() green=() absent=()
for suite in "${suites[@]}"; do
    root=$work/$suite log=$logs/$suite.log
    SECONDS=0
    origin= mirror= why=
    for each in Debian Ubuntu; do
        found=$(archive_of "$each")
        if [ -z "$found" ]; then
            why+="; apt knows no archive of $each's"
        elif has "$found" "$suite"; then
            origin=$each mirror=$found
            break
        else
            why+="; $each's: $( (grep -m 1 '^E: ' "$work/asked" || tail -n 1 "$work/asked") |
                sed 's#[a-z]*://[^ ]* *##; s# *\[IP: .*##; s#^E: *##')"
        fi
    done
    if [ -z "$origin" ]; then
        say "$suite: not to be had here: ${why#; }"
        absent+=("$suite")
        continue
    fi
    script=()
    # all of a distribution's releases are made by the same one, by whatever name a debootstrap that is older has it
    [ -e "/usr/share/debootstrap/scripts/$suite" ] || script=("$([ "$origin" = Ubuntu ] && echo gutsy || echo sid)")
    # it is thrown away before it need be on the disk, for which dpkg waits after each file
    mkdir -p "$root/etc/dpkg/dpkg.cfg.d"
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/newcomer"
    if ! debootstrap --variant=minbase --include=git,make "$suite" "$root" "$mirror" \
        "${script[@]/#//usr/share/debootstrap/scripts/}" >"$log" 2>&1; then
        say "$suite: no root could be made: $(tail -n 1 "$log")"
        failed+=("$suite")
        continue
    fi
    say "$suite: a root with git and make, after $SECONDS s"
    carry_over "$root" "$suite" "$origin" "$mirror"
    [ "$what" = readme ] || cp -a "$root" "$root.bare"
    git clone -q --no-hardlinks . "$root/arenascope"
    status=0
    in_namespace "$root" "$what" >"$log" 2>&1 || status=$?
    if [ "$what" != readme ] && [ "$status" -eq 0 ]; then
        mkdir "$root.bare/arenascope"
        cp "$root"/arenascope_*.deb debian/try-installed "$root.bare/arenascope"
        in_namespace "$root.bare" install >>"$log" 2>&1 || status=$?
    fi
    grep -hE '^(setup: (apt-get install|.*tests will be skipped|done in)|= |[=0-9].* in [0-9.]+s)' "$log" |
        cut -c 1-150 | sed "s/^/newcomer: $suite: /"
    if [ "$status" -eq 0 ]; then
        green+=("$suite")
    else
        failed+=("$suite")
        say "$suite: failed, see $log"
    fi
    rm -rf --one-file-system "$root" "$root.bare"
done
[ ${#failed[@]} -eq 0 ] || die "failed on ${failed[*]}"
[ ${#green[@]} -gt 0 ] || die "nothing was tried: no archive has ${absent[*]}"
say "green on ${green[*]}${absent:+; not to be had here: ${absent[*]}}"
