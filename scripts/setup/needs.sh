# shellcheck shell=bash
# What each level needs, and whether that is here. Sourced by scripts/setup.sh.

# LEVEL RANK NEED [PACKAGES]
# A need is called as its package is, or by what the package gives. Packages are extended regular expressions over names of
# packages: the first that matches one that can be had, and of several the one with the highest number. Ranks: nothing
# works without what is "hard"; "sure" is what each Debian from 11 and Ubuntu from 22.04 has, so that CI calls for it;
# "may" is what only some have.
needs() {
    cat <<'ROWS'
python  hard python3
engine  sure cargo        cargo-web cargo
check   hard python3-venv
runtime hard gdb
runtime hard gcc
runtime hard libc6-dev
runtime hard libc6-dbg
test    sure lldb         lldb-[0-9]+
test    sure binutils
test    sure bzip2
test    sure g++          g\+\+
test    sure gdbserver
test    sure groff-base
test    sure jemalloc     libjemalloc[0-9]+
test    sure lz4
test    sure parallel
test    sure procps
test    sure strace
test    sure xz-utils
test    sure zstd
all     sure fish
all     sure go           golang-go
all     sure gobject      libglib2.0-dev
all     sure haproxy
all     sure java         default-jdk-headless
all     sure jemalloc-dev libjemalloc-dev
all     sure lighttpd
all     sure mariadb      mariadb-server-core mariadb-server-core-[0-9.]+
all     sure memcached
all     sure musl         musl-tools
all     sure nginx        nginx-light nginx nginx-core
all     sure nodejs
all     sure php          php-cli
all     sure postgres     postgresql
all     sure prometheus
all     sure redis        redis-server
all     sure ruby
all     sure rustc
all     sure sqlite3
all     sure sshd         openssh-server
all     sure tcmalloc     libtcmalloc-minimal4(t64)?
all     sure valgrind
all     sure zsh
all     may  chromium
all     may  libc++       libc\+\+-dev
all     may  mimalloc     libmimalloc[0-9.]+(t64)?
ROWS
    # of no use to a cargo that is not the distribution's
    case $(scripts/engine.sh cargo 2>/dev/null) in '' | /usr/bin/cargo)
        cat <<'ROWS'
lint    may  clippy       rust-web-clippy rust-clippy
lint    may  rustfmt      rustfmt-web rustfmt
ROWS
        ;;
    esac
    # cores and ELF files of other machines, made and run here
    [ "$(uname -m)" != x86_64 ] || cat <<'ROWS'
all     sure gdb-multiarch
all     sure i386         libc6-dev-i386
all     sure qemu         qemu-user
all     sure qemu-system  qemu-system-arm
all     sure aarch64      gcc-aarch64-linux-gnu
all     sure arm          gcc-arm-linux-gnueabihf
all     sure powerpc      gcc-powerpc-linux-gnu
all     sure powerpc64le  gcc-powerpc64le-linux-gnu
all     sure riscv64      gcc-riscv64-linux-gnu
all     sure s390x        gcc-s390x-linux-gnu
all     sure s390x-c++    g\+\+-s390x-linux-gnu
ROWS
}

# The LLDBs that tests tell apart. They stand side by side at the level "all".
lldbs=(19 16 14)

# What a package needs beside it here.
companions() {
    case $1 in
        lldb-*) echo "python3-$1" ;;
        # gcc-multilib, which would bring it, drives out the compilers for other machines
        libc6-dev-i386) echo "lib32gcc-$(compiler_release)-dev lib32stdc++-$(compiler_release)-dev" ;;
        libc++-dev) echo clang libc++abi-dev ;;
        gcc-aarch64-linux-gnu) echo libc6-dev-arm64-cross ;;
        gcc-arm-linux-gnueabihf) echo libc6-dev-armhf-cross ;;
        gcc-powerpc-linux-gnu) echo libc6-dev-powerpc-cross ;;
        gcc-powerpc64le-linux-gnu) echo libc6-dev-ppc64el-cross ;;
        gcc-riscv64-linux-gnu) echo libc6-dev-riscv64-cross ;;
        gcc-s390x-linux-gnu) echo libc6-dev-s390x-cross ;;
    esac
}

# What a level stands on, itself included.
levels() {
    case $1 in
        python) echo python ;;
        engine) echo python engine ;;
        check) echo python check engine lint ;;
        release) echo python check engine release ;;
        site) echo python check site ;;
        runtime) echo python check runtime ;;
        test) echo python check runtime engine test ;;
        all) echo python check runtime engine lint test all ;;
        *) return 1 ;;
    esac
}

# Which of pyproject.toml's extras .venv is to have.
extras() {
    case $1 in
        check) echo lint ;;
        release) echo lint release ;;
        site) echo site ;;
        runtime) echo table ;;
        test) echo table test ;;
        all) echo table test lint fleet mcp ray release test-all site ;;
    esac
}

# Asks for the thing itself and not for its package where it can, so that a debugger or compiler from elsewhere counts.
have() {
    case $1 in
        aarch64 | powerpc | powerpc64le | riscv64 | s390x) compiles "$1-linux-gnu-gcc" ;;
        arm) compiles arm-linux-gnueabihf-gcc ;;
        binutils) command -v readelf ;;
        cargo) scripts/engine.sh cargo ;;
        clippy) with_cargo clippy-driver ;;
        gdb) [ -n "$(gdb_python)" ] && command -v gcore ;;
        gobject) pkg-config --exists gobject-2.0 ;;
        groff-base) command -v groff ;;
        i386) compiles gcc -m32 ;;
        java) command -v java && command -v javac ;;
        jemalloc | mimalloc) library "$1" ;;
        jemalloc-dev) [ -e /usr/include/jemalloc/jemalloc.h ] ;;
        # its headers may be there without what every program that throws is linked with
        libc++) compiles clang++ -stdlib=libc++ ;;
        libc6-dbg) compgen -G '/usr/lib/debug/.build-id/*/*.debug' ;;
        libc6-dev) echo '#include <pthread.h>' | gcc -E -x c - ;;
        lldb) some_lldb ;;
        mariadb) command -v mariadbd ;;
        musl) command -v musl-gcc ;;
        nodejs) command -v node ;;
        postgres) compgen -G '/usr/lib/postgresql/*/bin/initdb' ;;
        procps) command -v ps ;;
        python3) command -v "$(base_python)" ;;
        python3-venv) "$(base_python)" -c 'import ensurepip, venv' ;;
        qemu) command -v qemu-aarch64 ;;
        qemu-system) command -v qemu-system-aarch64 ;;
        redis) command -v redis-server ;;
        rustfmt) with_cargo rustfmt ;;
        s390x-c++) compiles s390x-linux-gnu-g++ ;;
        sshd) [ -x /usr/sbin/sshd ] && command -v ssh ;;
        tcmalloc) library tcmalloc_minimal ;;
        xz-utils) command -v xz ;;
        *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

# Whether a tool is there beside the cargo that is used, and works there.
with_cargo() {
    local cargo
    cargo=$(scripts/engine.sh cargo) && "${cargo%/*}/$1" --version
}

compiles() { echo 'int main(void) { return 0; }' | "$@" -x c - -o "$work/program"; }

library() { [[ $(ldconfig -p) == *"lib$1.so"* ]]; }

have_lldb() {
    command -v "lldb-$1" >/dev/null &&
        compgen -G "/usr/lib/llvm-$1/lib/python3*/*-packages/lldb/__init__.py" >/dev/null
}

some_lldb() {
    local path
    for path in /usr/bin/lldb-[0-9]*; do
        ! have_lldb "${path#/usr/bin/lldb-}" || return 0
    done
    return 1
}

# The release of the compiler that `gcc` is, or will be once it is installed: "12".
compiler_release() {
    gcc -dumpversion 2>/dev/null | cut -d. -f1 | grep . ||
        apt-cache depends gcc | sed -n 's/^ *Depends: gcc-\([0-9]*\)$/\1/p' | head -n 1
}

# The Python that GDB embeds, as "3.11". Empty without GDB, and for gdb-minimal, which has no Python.
gdb_python() {
    gdb -nx -q -batch -ex 'python import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null || true
}

python_version() {
    "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null || true
}

base_python() {
    if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else echo python3; fi
}
