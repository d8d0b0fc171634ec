#!/usr/bin/env bash
# Builds some fixtures for other machines, to run under QEMU: into fixtures/build/NAME, with the C library that they run
# on in fixtures/build/NAME/libc. What cannot be had is told in one line, and its tests are skipped (with CI=true they
# fail, unless the archive had it not). And a whole one, to be booted: a kernel, a Python and fixtures, in fixtures/build/guest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=$PWD/fixtures/build
fixtures=(bins fastbins hoard many_heaps mmapped pinned tcache tcache.tls)
guests=(bins bins.static churn hoard signals spinning waiting)

say() { printf 'machines: %s\n' "$*"; }

# NAME, the release of its C library, Debian's suite and machine that have it, and the compiler's name for the machine.
# The name is the tests' (tests/machines/test_machines.py). riscv64 is in no older suite.
table() {
    cat <<'ROWS'
aarch64 2.36 bookworm arm64 aarch64-linux-gnu
aarch64-2.43 2.43 forky arm64 aarch64-linux-gnu
arm 2.36 bookworm armhf arm-linux-gnueabihf
ppc64 2.36 bookworm ppc64el powerpc64le-linux-gnu
riscv64 2.41 trixie riscv64 riscv64-linux-gnu
s390x 2.36 bookworm s390x s390x-linux-gnu
ROWS
}

# A line on what is missing, or nothing.
prepare() {
    local name=$1 release=$2 suite=$3 arch=$4 triple=$5 out=$build/$1 wanted
    mkdir -p "$out"
    if ! command -v "$triple-gcc" >/dev/null; then
        echo "$triple-gcc is not installed"
        return
    fi
    scripts/fetch_libc.sh "$suite" "$arch" "$out/libc" "=$release" 2>&1 || return 0
    wanted=("${fixtures[@]/#/$out/}")
    # under QEMU pages of 64 KiB are whole in static programs alone
    [ "$name" != ppc64 ] || wanted+=("$out"/{bins,hoard,pinned}.static)
    [ "$name" != s390x ] || ! command -v "$triple-g++" >/dev/null || wanted+=("$out/kinds.static")
    # -no-pie: QEMU's cores leave out what a debugger needs to place a program that can lie anywhere
    make -s --no-print-directory -C fixtures OUT="$out" CC="$triple-gcc" CXX="$triple-g++" LDFLAGS=-no-pie "${wanted[@]}" 2>&1 |
        grep -m 1 -i error || touch "$out/built"
}

# The guest's kernel is Debian's for clouds: it has all that is needed here built in. A line on what is missing, or nothing.
prepare_guest() {
    local out=$build/guest triple=aarch64-linux-gnu root=$build/guest/libc/root
    mkdir -p "$out/programs"
    if ! command -v "$triple-gcc" >/dev/null; then
        echo "$triple-gcc is not installed"
        return
    fi
    scripts/fetch_libc.sh bookworm arm64 "$out/libc" @linux-image-cloud-arm64 busybox-static python3.11-minimal \
        libpython3.11-minimal libpython3.11-stdlib zlib1g libexpat1 libffi8 2>&1 || return 0
    [ -e "$out/kernel" ] || mv "$root"/boot/vmlinuz-* "$out/kernel"
    rm -rf "$root"/{boot,lib/modules,usr/lib/debug,usr/share}
    make -s --no-print-directory -C fixtures OUT="$out/programs" CC="$triple-gcc" \
        "${guests[@]/#/$out/programs/}" 2>&1 | grep -m 1 -i error || touch "$out/built"
}

if [ "$(uname -m)" != x86_64 ]; then
    say "other machines are tested on x86-64 alone"
    exit 0
fi
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
while read -r name row; do
    rm -f "$build/$name/built"
    # shellcheck disable=SC2086 # a row is several words
    prepare "$name" $row >"$logs/$name" 2>&1 </dev/null &
done < <(table)
rm -f "$build/guest/built"
prepare_guest >"$logs/guest" 2>&1 </dev/null &
wait
[ -e "$build/guest/built" ] || say "guest: $(tail -n 1 "$logs/guest")"
while read -r name _; do
    [ -e "$build/$name/built" ] || say "$name: $(tail -n 1 "$logs/$name")"
done < <(table)
