#!/usr/bin/env bash
# Builds the fixtures once more for each C library that the tests are to run on beside this machine's own: into
# fixtures/build/NAME, with the library in fixtures/build/NAME/libc. What cannot be had is told in one line, and its
# tests are skipped (with CI=true they fail, unless the archive had it not). And a Python and a GDB beside them, which few machines have.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=$PWD/fixtures/build
log=$(mktemp)
trap 'rm -f "$log"' EXIT

say() { printf 'releases: %s\n' "$*"; }

# NAME, its release, and Debian's suite and machine that have it. The name is the tests' (tests/debuggers/platforms.py).
table() {
    cat <<'ROWS'
2.31 2.31 bullseye amd64
2.41 2.41 trixie amd64
2.43 2.43 forky amd64
2.44 2.44 experimental amd64
i386 2.36 bookworm i386
ROWS
}

fetch() {
    local folder=$build/$1/libc release=$2 suite=$3 machine=$4 more=()
    # programs for an older libc than the compiler's must be linked against that; newer ones run what is linked here
    [ "$release" != 2.31 ] || more=(libc6-dev linux-libc-dev libcrypt-dev libcrypt1)
    scripts/fetch_libc.sh "$suite" "$machine" "$folder" "=$release" "${more[@]}" >"$build/$1/log" 2>&1 || true
}

compile() {
    local out=$build/$1 release=$2 root=$build/$1/libc/root library cflags='-O1 -g' ldflags='' always=''
    library=$(dirname "$root"/lib/*/libc.so.6)
    [ "$4" != i386 ] || cflags+=' -m32 -isystem /usr/include/x86_64-linux-gnu'
    if [ "$release" = 2.31 ]; then
        cflags+=" --sysroot=$root -B$root/usr/lib/x86_64-linux-gnu -isystem $root/usr/include/x86_64-linux-gnu"
        ldflags="-L$root/usr/lib/x86_64-linux-gnu -L$library"
    fi
    ldflags+=" -Wl,--dynamic-linker=$(ls "$library"/ld-linux*.so.2) -Wl,-rpath,$library"
    # a program names its loader by its full path: a checkout that was moved is built anew
    [ "$(cat "$out/built" 2>/dev/null)" = "$out" ] || always=-B
    if make -s -j2 $always --no-print-directory -C fixtures OUT="$out" CFLAGS="$cflags" LDFLAGS="$ldflags" all >"$log" 2>&1
    then
        echo "$out" >"$out/built"
    else
        rm -f "$out/built"
        say "$1: the fixtures do not build: $(grep -m 1 -i error "$log" || tail -n 1 "$log")"
    fi
}

if [ "$(uname -m)" != x86_64 ]; then
    say "other releases than this machine's own are tested on x86-64 alone"
    exit 0
fi
# A Python that no machine has yet, with the C library that it needs: fixtures/build/python3.14/root is a root to run it in.
fetch_python() {
    [ ! -e "$build/python3.14/version" ] || return 0
    scripts/fetch_libc.sh forky amd64 "$build/python3.14" python3.14-minimal libpython3.14-minimal libpython3.14-stdlib \
        zlib1g libexpat1 libffi8 2>&1 | sed 's/^fetch_libc: [^:]*/releases: Python 3.14/' || true
}

# A GDB that has the Debug Adapter Protocol (14 and later), which Debian 12 has not: in fixtures/build/gdb16/root. With
# each library that is not libc's own, as it is started by its own loader (tests/debuggers/test_editors.py).
fetch_gdb() {
    [ ! -e "$build/gdb16/version" ] || return 0
    scripts/fetch_libc.sh trixie amd64 "$build/gdb16" gdb libpython3.13 libpython3.13-stdlib libpython3.13-minimal \
        libreadline8t64 libtinfo6 libncursesw6 libbabeltrace1 libdebuginfod1t64 libexpat1 libgmp10 libmpfr6 libipt2 \
        liblzma5 libsource-highlight4t64 libstdc++6 libxxhash0 zlib1g libzstd1 libglib2.0-0t64 libelf1t64 libdw1t64 \
        libboost-regex1.83.0 libuuid1 libffi8 libbz2-1.0 libicu76 2>&1 | sed 's/^fetch_libc: [^:]*/releases: GDB 16/' || true
}

fetch_python &
fetch_gdb &
while read -r name row; do
    [ ! -e "$build/$name/libc/version" ] || continue
    mkdir -p "$build/$name"
    # shellcheck disable=SC2086 # a row is several words
    fetch "$name" $row &
done < <(table)
wait
while read -r name row; do
    if [ ! -e "$build/$name/libc/version" ]; then
        say "$name: $(tail -n 1 "$build/$name/log")"
        rm -f "$build/$name/built"
        continue
    fi
    # shellcheck disable=SC2086
    compile "$name" $row
done < <(table)
