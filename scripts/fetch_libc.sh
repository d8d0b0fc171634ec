#!/usr/bin/env bash
# Unpacks another release's C library, with its debug symbols, for the tests to run programs on.
#   scripts/fetch_libc.sh SUITE ARCH FOLDER [=RELEASE] [PACKAGE...]      e.g. trixie amd64 fixtures/build/2.41/libc =2.41
# Of the library that release alone, where one is given; testing's goes on. @PACKAGE is what that one depends on first, as
# linux-image-arm64 does on the newest kernel.
# FOLDER/root is then what a machine of that release would have at /, and FOLDER/version the library's package version.
# Why there is none is in FOLDER.absent, for the tests (tests/debuggers/platforms.py).
# Nothing to do where it is there already. The archive is the one that this machine's apt is set up with; apt's state is
# private to the run, nothing is installed. Needs no root.
set -euo pipefail

folder=
die() {
    printf 'fetch_libc: %s\n' "$*" >&2
    [ -z "$folder" ] || echo "$*" >"$folder.absent"
    exit 1
}

[ $# -ge 3 ] || die "usage: fetch_libc.sh SUITE ARCH FOLDER [=RELEASE] [PACKAGE...]"
suite=$1 arch=$2 folder=$(realpath -m "$3") release=
shift 3
[[ ${1-} != =* ]] || { release=${1#=} && shift; }
packages=(libc6 libc6-dbg libgcc-s1 "$@")
[ ! -e "$folder/version" ] || exit 0
mkdir -p "$(dirname "$folder")"

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
command -v apt-get >/dev/null || die "$suite $arch: no apt-get here"
[ -r "$keyring" ] || die "$suite $arch: Debian's keyring is not here (package debian-archive-keyring)"
# shellcheck disable=SC2016 # the words in $() are apt's
archive=$(apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
    sed -n 's/^Debian|Debian|//p' | sort -u | head -n 1)
[ -n "$archive" ] || die "$suite $arch: apt knows no archive of Debian's here (or apt-get update was never run)"

work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/apt/{lists,cache/archives}/partial "$work"/{debs,root}
printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$archive" "$suite" >"$work/apt/sources.list"
# experimental has only what is newer than sid's
[ "$suite" != experimental ] ||
    printf 'deb [signed-by=%s] %s sid main\n' "$keyring" "$archive" >>"$work/apt/sources.list"
# a suite that nobody renews any more still has the release that it had
options=(
    -o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o Dir::State::Lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" -o Dir::State::status=/dev/null
    -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o Acquire::Languages=none
    -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false
    -o APT::Update::Post-Invoke::= -o APT::Update::Post-Invoke-Success::= -o APT::Sandbox::User=
    -o APT::Default-Release="$suite" -o Acquire::Check-Valid-Until=false -o Acquire::Retries=2 -o Acquire::http::Timeout=30 -o APT::Update::Error-Mode=any)
apt=(apt-get -qq "${options[@]}")

attempt() {
    "$@" >"$work/log" 2>&1 </dev/null && return
    die "$suite $arch: $( (grep -m 1 '^E: ' "$work/log" || tail -n 1 "$work/log") | sed 's#[a-z]*://[^ ]* *##; s# *\[IP: .*##')"
}

attempt "${apt[@]}" update
for at in "${!packages[@]}"; do
    name=${packages[at]#@}
    [ "$name" = "${packages[at]}" ] ||
        packages[at]=$(apt-cache "${options[@]}" depends "$name" 2>/dev/null | sed -n 's/^ *Depends: //p' | head -n 1)
    [ -n "${packages[at]}" ] || die "$suite $arch: there is no $name"
done
(cd "$work/debs" && attempt "${apt[@]}" download "${packages[@]}")
found=$(dpkg-deb -f "$work"/debs/libc6_*.deb Version)
[ -z "$release" ] || [ "${found%%-*}" = "$release" ] || die "$suite $arch: it has glibc ${found%%-*} now, not $release"
for package in "$work"/debs/*.deb; do
    dpkg-deb -x "$package" "$work/root"
done

# what a release with a merged /usr has, whichever way the package was made
for name in lib lib32 lib64; do
    [ ! -d "$work/root/usr/$name" ] || [ -e "$work/root/$name" ] || ln -s "usr/$name" "$work/root/$name"
done
# links from the root would lead to this machine's own files
find "$work/root" -type l -lname '/*' | while IFS= read -r link; do
    target=$(readlink "$link")
    ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$work/root$target")" "$link"
done

echo "$found" >"$work/version"
rm -rf "$work"/{apt,debs,log}
rm -rf "$folder" "$folder.absent"
mv "$work" "$folder"
chmod 755 "$folder"
trap - EXIT
