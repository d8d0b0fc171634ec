#!/usr/bin/env bash
# Builds and checks the compiled engine (engine/) with the first cargo in PATH, ~/.cargo/bin or /usr/bin that is new enough.
#   scripts/engine.sh build            engine/target/release/libarenascope.so; says one line, or nothing if it is up to date
#   scripts/engine.sh portable [CPU]   the same for an old glibc, by cargo-zigbuild, for this machine's processor or another;
#                                      prints the library's path last. Without cargo-zigbuild as `build`
#   scripts/engine.sh has CPU          whether `portable CPU` can be
#   scripts/engine.sh check            rustfmt, clippy and the engine's own tests, as far as they are installed
#   scripts/engine.sh cargo            prints which cargo that is; status 1 if there is none
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../engine"

library=libarenascope.so
oldest_glibc=2.17
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
# whatever cargo's own settings say, the library is where it is looked for
unset CARGO_BUILD_TARGET CARGO_BUILD_TARGET_DIR
export CARGO_TARGET_DIR=target

say() { printf 'engine: %s\n' "$*"; }

die() {
    printf 'engine: %s\n' "$*" >&2
    exit 1
}

# Debian's cargo may have another version than its rustc: the compiler's counts.
find_cargo() {
    local cargo release
    for cargo in "$(command -v cargo)" ~/.cargo/bin/cargo /usr/bin/cargo; do
        [ -x "$cargo" ] || continue
        release=$("${cargo%/*}/rustc" --version 2>/dev/null | awk '{ print $2 }')
        [ -n "$release" ] && printf '%s\n' "$oldest" "$release" | sort -CV || continue
        echo "$cargo"
        return
    done
    return 1
}

cargo=$(find_cargo) ||
    die "there is no cargo with Rust $oldest or newer: apt install cargo (Debian 12: cargo-web), or https://rustup.rs"
PATH=${cargo%/*}:$PATH

# Compiles; one line says so if there is anything to compile.
compile() {
    cargo "$@" --release --locked --color never 2>&1 | awk -v release="$(rustc --version)" '
        /^ *Compiling / { if (!said++) print "engine: compiling it with " release ", about 30 s"; fflush(); next }
        /^ *Finished / { next }
        { print >"/dev/stderr" }'
}

# Whether cargo-zigbuild is here and finds its Zig, and the standard library for a target is.
has_zig() {
    cargo-zigbuild zig ar -- --version >/dev/null 2>&1 && [ -d "$(rustc --print target-libdir --target "$1" 2>/dev/null)" ]
}

can_build() { [ "$1" = "$(uname -m)" ] || has_zig "$1-unknown-linux-gnu"; }

case ${1:-} in
    cargo) echo "$cargo" ;;
    build) compile build ;;
    has) can_build "$2" ;;
    portable)
        cpu=${2:-$(uname -m)}
        target=$cpu-unknown-linux-gnu
        can_build "$cpu" || die "none for $cpu: that needs cargo-zigbuild (pip) and Rust's library (rustup target add $target)"
        if has_zig "$target"; then
            compile zigbuild --target "$target.$oldest_glibc" >&2
            echo "$PWD/target/$target/release/$library"
        else
            compile build >&2
            echo "$PWD/target/release/$library"
        fi
        ;;
    check)
        missing=()
        if cargo fmt --version >/dev/null 2>&1; then cargo fmt --check; else missing+=(rustfmt); fi
        if cargo clippy --version >/dev/null 2>&1; then
            cargo clippy --quiet --locked --all-targets --all-features -- -D warnings
        else
            missing+=(clippy)
        fi
        said=$(cargo test --quiet --locked 2>&1) || die "cargo test:"$'\n'"$said"
        [ ${#missing[@]} -eq 0 ] || say "not installed, so not run: ${missing[*]}"
        ;;
    *) die "usage: scripts/engine.sh build|portable [CPU]|check|cargo" ;;
esac
