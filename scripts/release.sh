#!/usr/bin/env bash
# Builds what a release consists of, from the last commit: sdist, wheels, zipapp and their checksums. The same
# commit gives the same bytes: all dates are the commit's, and pyproject.toml names the release of hatchling. Wheels are for this
# machine's processor, and with cargo-zigbuild for glibc 2.17 and for other processors whose Rust library is installed.
#   scripts/release.sh [FOLDER]        dist/ where none is named
# It publishes nothing. PYTHON is one that has hatchling (make release sees to it).
set -euo pipefail
target=$(realpath -m "${1:-$(dirname "${BASH_SOURCE[0]}")/../dist}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=$(command -v "${PYTHON:-.venv/bin/python}")
[[ $python == /* ]] || python=$PWD/$python
# where cargo-zigbuild is, if it is
PATH=${python%/*}:$PATH

say() { printf 'release: %s\n' "$*"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
[ -z "$(git status --porcelain)" ] || say "what is not committed is left out"
# what is ignored or left lying about in this checkout is in none of them
mkdir "$work/source" "$work/built"
git archive HEAD | tar -x -C "$work/source"
cd "$work/source"
version=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' common/arenascope/base/about.py)
quietly() {
    "$@" >"$work/log" 2>&1 && return
    cat "$work/log" >&2
    exit 1
}
quietly "$python" -m hatchling build -d "$work/built" -t sdist -t wheel
for cpu in x86_64 aarch64; do
    [ "$cpu" != "$(uname -m)" ] && scripts/engine.sh has "$cpu" || continue
    ARENASCOPE_CPU=$cpu quietly "$python" -m hatchling build -d "$work/built" -t wheel
done
"$python" scripts/pack.py "$work/built/arenascope.pyz" >/dev/null
(cd "$work/built" && sha256sum -- * >SHA256SUMS)
mkdir -p "$target"
cp "$work"/built/* "$target"
grep -q "^## \[$version\]" CHANGELOG.md || say "CHANGELOG.md has no section [$version]"
! grep -q '^repository = ""' pyproject.toml ||
    say "pyproject.toml has no address (repository): the metadata have no URLs, and README's links are relative"
say "$version is in $target:"
cat "$target/SHA256SUMS"
