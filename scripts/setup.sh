#!/usr/bin/env bash
# Installs what arenascope needs here: Debian packages, and a .venv for the Python libraries.
#   scripts/setup.sh runtime    what `make demo` needs
#   scripts/setup.sh test       what `make test` and `make check` need as well
# Prints one line for each thing it does. Needs root only where a package is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

level=${1:-test}
venv=.venv
# the newest first: it is the one that apt installs
lldbs=(19 16 14)
crosses=(gcc-{aarch64,s390x,powerpc64le,powerpc,riscv64}-linux-gnu gcc-arm-linux-gnueabihf
    libc6-dev-{arm64,armhf,s390x,ppc64el,powerpc,riscv64}-cross)
# other allocators that tests preload or link in, and musl
allocators=(libjemalloc-dev libmimalloc2.0 libtcmalloc-minimal4 musl-tools)
# real programs that `heap report` is held against, and what they or other allocators are built by
programs=(default-jdk-headless g++ golang-go mariadb-server-core memcached nginx-light nodejs)
export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -y -qq -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
log=$(mktemp)
policy=
trap 'rm -f "$log" ${policy:+"$policy"}' EXIT

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

# The Python that GDB embeds, as "3.11". Empty without GDB, and for gdb-minimal, which has no Python.
gdb_python() {
    gdb -nx -q -batch -ex 'python import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null || true
}

python_version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

# An interpreter of GDB's version, as GDB is to import from its site-packages. The distribution's own comes first:
# another python3 may be ahead of it on PATH.
find_python() {
    local wanted=$1 candidate
    for candidate in /usr/bin/python3 "/usr/bin/python$wanted" "python$wanted" python3; do
        [ "$(python_version "$candidate")" = "$wanted" ] || continue
        command -v "$candidate"
        return
    done
}

base_python() {
    if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else echo python3; fi
}

installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Asks for the thing itself and not for its package where it can, so that a debugger or compiler from elsewhere counts.
have() {
    case $1 in
        binutils) command -v readelf ;;
        gcc) command -v gcc ;;
        gdb) [ -n "$(gdb_python)" ] && command -v gcore ;;
        libc6-dev) echo '#include <pthread.h>' | gcc -E -x c - ;;
        procps) command -v ps ;;
        python3) command -v "$(base_python)" ;;
        python3-venv) "$(base_python)" -c 'import ensurepip, venv' ;;
        bzip2 | chromium | g++ | gdbserver | lz4 | memcached | strace | zstd) command -v "$1" ;;
        default-jdk-headless) command -v javac ;;
        golang-go) command -v go ;;
        groff-base) command -v groff ;;
        nodejs) command -v node ;;
        mariadb-server-core) command -v mariadbd ;;
        nginx-light) command -v nginx ;;
        xz-utils) command -v xz ;;
        *) ! command -v dpkg-query || installed "$1" ;;
    esac >/dev/null 2>&1
}

# A server that is installed for the tests must not start: policy-rc.d is how Debian is told so.
hold_services() {
    [ ! -e /usr/sbin/policy-rc.d ] || return 0
    policy=/usr/sbin/policy-rc.d
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
}

release_services() {
    [ -z "$policy" ] || rm -f "$policy"
    policy=
}

install_packages() {
    local package missing=()
    for package in "$@"; do
        have "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null ||
        die "missing: ${missing[*]} (Debian's names; no apt-get here, install them with your package manager)"
    [ "$(id -u)" -eq 0 ] ||
        die "missing: ${missing[*]}
setup: run as root: apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    update_lists
    say "apt-get install ${missing[*]}"
    hold_services
    quietly "${apt[@]}" install --no-install-recommends "${missing[@]}"
    release_services
    done_something=yes
}

update_lists() {
    [ -z "$updated" ] || return 0
    say "apt-get update"
    quietly "${apt[@]}" update
    updated=yes
}

have_lldb() {
    command -v "lldb-$1" >/dev/null &&
        compgen -G "/usr/lib/llvm-$1/lib/python3*/*-packages/lldb/__init__.py" >/dev/null
}

# Several LLDBs side by side. Debian's python3-lldb-N conflict with each other although no file of theirs is the same:
# apt installs one, the others are unpacked over the file system. Tests skip what is not there, so nothing here is fatal
# but a broken download.
install_lldb() {
    local version missing=()
    for version in "$@"; do
        have_lldb "$version" || missing+=("$version")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null || [ "$(id -u)" -ne 0 ]; then
        say "LLDB ${missing[*]} missing, its tests will be skipped: run as root (on Debian), or install lldb-${missing[0]}"
        return 0
    fi
    update_lists
    for version in "${missing[@]}"; do
        if ! apt-cache show "lldb-$version" >/dev/null 2>&1; then
            say "LLDB $version is not in this release of the distribution: its tests will be skipped"
        elif dpkg-query -W -f '${db:Status-Status}\n' 'python3-lldb-*' 2>/dev/null | grep -qx installed; then
            unpack_lldb "$version"
        else
            say "apt-get install lldb-$version"
            quietly "${apt[@]}" install --no-install-recommends "lldb-$version" "python3-lldb-$version"
            done_something=yes
        fi
    done
}

unpack_lldb() {
    local version=$1 folder package
    folder=$(mktemp -d)
    say "unpacking lldb-$version"
    quietly "${apt[@]}" install --no-install-recommends "liblldb-$version" python3-six
    (cd "$folder" && quietly "${apt[@]}" download "lldb-$version" "python3-lldb-$version")
    for package in "$folder"/*.deb; do
        quietly dpkg -x "$package" /
    done
    rm -r "$folder"
    done_something=yes
}

make_venv() {
    local wanted=$1 python
    [ -n "$wanted" ] || die "this gdb has no Python in it: gdb-minimal, or built without; arenascope needs one that has"
    # without pip: left by a venv that failed half-way
    [ "$(python_version "$venv/bin/python")" = "$wanted" ] && [ -e "$venv/bin/pip" ] && return
    python=$(find_python "$wanted")
    [ -n "$python" ] || die "GDB embeds Python $wanted, but no python$wanted was found to make $venv with"
    say "making $venv with $python ($wanted, the version that GDB embeds)"
    quietly "$python" -m venv --clear "$venv"
    done_something=yes
}

# What pyproject.toml asks for, one requirement a line: the runtime ones, with the named extra's.
requirements() {
    "$venv/bin/python" - "$@" <<'PYTHON'
import sys

try:
    import tomllib
except ImportError:  # before Python 3.11
    from pip._vendor import tomli as tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
wanted = list(project["dependencies"])
for extra in sys.argv[1:]:
    wanted += project["optional-dependencies"][extra]
print("\n".join(wanted))
PYTHON
}

install_libraries() {
    local key stamp wanted
    key=$(cksum pyproject.toml scripts/setup.sh)
    # the stamp of `test` stands for `runtime` as well
    for stamp in "$venv/installed-test" "$venv/installed-$level"; do
        [ "$(cat "$stamp" 2>/dev/null)" != "$key" ] || return 0
    done
    mapfile -t wanted < <(requirements "$@")
    [ ${#wanted[@]} -gt 0 ] || die "pyproject.toml could not be read"
    say "pip install ${wanted[*]}"
    quietly "$venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --retries 5 "${wanted[@]}"
    echo "$key" >"$stamp"
    done_something=yes
}

packages=(gdb libc6-dbg gcc libc6-dev python3 python3-venv)
extras=(full)
case $level in
    runtime) ;;
    test)
        packages+=(binutils bzip2 chromium gdbserver groff-base libjemalloc2 "${allocators[@]}" "${programs[@]}" lz4
            parallel procps strace xz-utils zstd)
        # cores and ELF files of other machines, made and run here
        [ "$(uname -m)" != x86_64 ] || packages+=(libc6-dev-i386 lib32gcc-12-dev qemu-user gdb-multiarch "${crosses[@]}")
        extras+=(dev)
        ;;
    *) die "usage: scripts/setup.sh [runtime|test]" ;;
esac

done_something=
updated=
install_packages "${packages[@]}"
[ "$level" = runtime ] || install_lldb "${lldbs[@]}"
make_venv "$(gdb_python)"
install_libraries "${extras[@]}"
[ -n "$done_something" ] || say "nothing to do"
