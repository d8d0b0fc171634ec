#!/usr/bin/env bash
# Does what a newcomer does, on machines that have git and make and nothing else: makes a minimal root of each Debian
# suite, clones the project's last commit into it and runs the commands of README's "Try it" there, word for word.
#   scripts/newcomer.sh [--short] [SUITE...]        bookworm, trixie and sid where none is named
# --short only collects what `make test` would run, and asks apt whether it could install what test-all takes. Needs root and debootstrap. The archive, proxies and pip's
# settings are this machine's own. Logs stay in fixtures/build/newcomer; all else is gone at the end, however that comes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

logs=$PWD/fixtures/build/newcomer
short=

say() { printf 'newcomer: %s\n' "$*"; }

die() {
    printf 'newcomer: %s\n' "$*" >&2
    exit 1
}

# URI of an archive of Debian's that apt is set up with: Debian, or Debian-Security.
archive() {
    # shellcheck disable=SC2016 # the words in $() are apt's
    apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
        sed -n "s/^Debian|$1|//p" | sort -u | head -n 1
}

readme_commands() { sed -n '/^## Try it/,/^## /s/^\(make [^#]*[^# ]\) *#.*/\1/p' README.md; }

# What a machine needs to be told to reach apt's archive and pip's index from here.
carry_over() {
    local root=$1 suite=$2 security path
    if [ "$suite" != sid ]; then
        echo "deb $(archive Debian) $suite-updates main" >>"$root/etc/apt/sources.list"
        security=$(archive Debian-Security)
        [ -z "$security" ] || echo "deb $security $suite-security main" >>"$root/etc/apt/sources.list"
    fi
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
    local root=$1 status=0 command variables
    # a mount of its own, which tests need to mount things in turn
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    [ -e "$root/dev/ptmx" ] || ln -s pts/ptmx "$root/dev/ptmx"
    mapfile -t variables < <(settings)
    while IFS= read -r command; do
        case ${short:+$command} in
            *test-all*) command="scripts/setup.sh --simulate all" ;;
            *test*) command+=" PYTEST_ARGS='--collect-only -qq'" ;;
        esac
        printf '\n$ %s\n' "$command"
        SECONDS=0
        chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb \
            ${CI:+CI="$CI"} "${variables[@]}" sh -c "cd /arenascope && $command" </dev/null 2>&1 || status=$?
        printf '= %s: exit %d after %d s\n' "$command" "$status" "$SECONDS"
        [ "$status" -eq 0 ] || return "$status"
    done < <(readme_commands)
}

if [ "${1:-}" = --inside ]; then
    short=$3
    inside "$2"
    exit
fi

suites=()
for word in "$@"; do
    case $word in
        --short) short=yes ;;
        -*) die "usage: scripts/newcomer.sh [--short] [SUITE...]" ;;
        *) suites+=("$word") ;;
    esac
done
[ ${#suites[@]} -gt 0 ] || suites=(bookworm trixie sid)
[ "$(id -u)" -eq 0 ] || die "a root is made as root"
command -v debootstrap >/dev/null || die "debootstrap is not installed: apt-get install debootstrap"
unshare --mount --pid --fork true 2>/dev/null || die "this machine does not let root make namespaces (CAP_SYS_ADMIN)"
mirror=$(archive Debian)
[ -n "$mirror" ] || die "apt knows no archive of Debian's here (or apt-get update was never run)"
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

mkdir -p "$logs"
failed=()
for suite in "${suites[@]}"; do
    root=$work/$suite log=$logs/$suite.log
    SECONDS=0
    # it is thrown away before it need be on the disk, for which dpkg waits after each file
    mkdir -p "$root/etc/dpkg/dpkg.cfg.d"
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/newcomer"
    if ! debootstrap --variant=minbase --include=git,make "$suite" "$root" "$mirror" >"$log" 2>&1; then
        say "$suite: no root could be made: $(tail -n 1 "$log")"
        failed+=("$suite")
        continue
    fi
    say "$suite: a root with git and make, after $SECONDS s"
    carry_over "$root" "$suite"
    git clone -q --no-hardlinks . "$root/arenascope"
    unshare --mount --propagation private --pid --fork --kill-child \
        bash scripts/newcomer.sh --inside "$root" "$short" >"$log" 2>&1 </dev/null &
    child=$!
    status=0
    wait "$child" || status=$?
    child=
    grep -hE '^(setup: (apt-get install|.*tests will be skipped|done in)|= |[=0-9].* in [0-9.]+s)' "$log" |
        cut -c 1-150 | sed "s/^/newcomer: $suite: /"
    [ "$status" -eq 0 ] || { failed+=("$suite") && say "$suite: failed, see $log"; }
    rm -rf --one-file-system "$root"
done
[ ${#failed[@]} -eq 0 ] || die "failed on ${failed[*]}"
say "green on ${suites[*]}"
