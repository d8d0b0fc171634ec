# shellcheck shell=bash
# Installs packages on Debian and Ubuntu. Sourced by scripts/setup.sh.

# nothing of somebody's own machine goes for the sake of a test
apt=(apt-get -y -qq --no-install-recommends --no-remove -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
policy=

# Reads lines "RANK NEED [PATTERNS]" of what is missing.
install_packages() {
    local rank need patterns options wanted
    mapfile -t wanted < <(awk '{ print $2 }' "$1")
    say "missing for '$level': ${wanted[*]}"
    if ! can_install; then
        do_without "$1"
        return
    fi
    update_lists
    while read -r rank need patterns; do
        # shellcheck disable=SC2086 # several patterns
        options=$(packages_for ${patterns:-"$need"} | paste -sd '|')
        if [ -n "$options" ]; then
            echo "$rank|$need|$options"
        else
            cannot_have "$rank" "$need" "no package for it in this release of the distribution" >&3
        fi
    done 3>&1 <"$1" >"$work/options"
    mapfile -t wanted < <(cut -d '|' -f 3 "$work/options" | xargs -n 1)
    [ ${#wanted[@]} -gt 0 ] || return 0
    say "apt-get install $(foretell "${wanted[@]}"): ${wanted[*]}"
    if [ -n "$simulate" ]; then
        quietly "${apt[@]}" --simulate install "${wanted[@]}"
        return
    fi
    hold_services
    install "${wanted[@]}" || install_in_turn "$work/options"
    release_services
    done_something=yes
}

install() { "${apt[@]}" install "$@" >"$log" 2>&1 </dev/null; }

# Something does not go with the rest, or with what is here, or is named and not there: that is replaced, or left out.
install_in_turn() {
    local row option
    say "not all of it at once: $(why_not)"
    while IFS='|' read -r -a row; do
        for option in "${row[@]:2}"; do
            # shellcheck disable=SC2086 # several packages
            ! install $option || continue 2
        done
        [ "${row[0]}" != hard ] || cat "$log" >&2
        cannot_have "${row[0]}" "${row[1]}" "apt cannot install it here: $(why_not)"
    done <"$1"
}

# Addresses of archives aside.
why_not() { grep -m 1 -E '^E:|Depends:|Conflicts:' "$log" | sed -E 's#[a-z]+://[^ ]*/##g' | xargs; }

can_install() { command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; }

update_lists() {
    [ ! -s "$work/names" ] || return 0
    say "apt-get update"
    quietly "${apt[@]}" update
    apt-cache pkgnames >"$work/names"
}

# The packages that give a need here, each with its companions on its line, the best first.
packages_for() {
    local pattern name companion
    for pattern in "$@"; do
        while IFS= read -r name; do
            for companion in "$name" $(companions "$name"); do
                [[ $(apt-cache policy "$companion" 2>/dev/null) =~ Candidate:\ [0-9] ]] || continue 2
            done
            # shellcheck disable=SC2046 # none, or one
            echo "$name" $(companions "$name")
        done < <(grep -xE -e "$pattern" "$work/names" | sort -Vr)
    done
}

# How much it is, and how long that takes at 10 MB and three packages a second, which is a usual machine.
foretell() {
    "${apt[@]}" --print-uris install "$@" 2>/dev/null </dev/null | awk '
        { packages++; bytes += $3 }
        END { seconds = bytes / 1e7 + packages / 3 + 5
              printf "%d packages, %d MB, about %s", packages, bytes / 1e6 + 1,
                     seconds < 100 ? int(seconds / 10 + 1) * 10 " s" : int(seconds / 60 + 1.5) " min" }'
}

# No root, or not Debian.
do_without() {
    local rank need hard=() soft=()
    while read -r rank need _; do
        if [ "$rank" = hard ]; then hard+=("$need"); else soft+=("$need"); fi
    done <"$1"
    if [ ${#hard[@]} -eq 0 ] && [ "${CI:-}" != true ]; then
        say "their tests will be skipped (as root, scripts/setup.sh $level would install them)"
    elif command -v apt-get >/dev/null; then
        die "run as root: scripts/setup.sh $level "
    else
        die "these are Debian's names, and there is no apt-get here: install them with your package manager"
    fi
}

# Several LLDBs side by side. Debian's python3-lldb-N conflict with each other although no file of theirs is the same:
# apt installed one, the others are unpacked over the file system.
unpack_lldbs() {
    local version folder package
    can_install || return 0
    for version in "${lldbs[@]}"; do
        ! have_lldb "$version" && ! known_absent "lldb-$version" || continue
        update_lists
        if [ -z "$(packages_for "lldb-$version")" ]; then
            cannot_have may "lldb-$version" "no package for it in this release of the distribution"
            continue
        fi
        folder=$work/lldb-$version
        mkdir "$folder"
        say "unpacking lldb-$version beside the other"
        if ! install "liblldb-$version" python3-six ||
            ! (cd "$folder" && "${apt[@]}" download "lldb-$version" "python3-lldb-$version" >"$log" 2>&1); then
            cannot_have may "lldb-$version" "apt cannot get it: $(why_not)"
            continue
        fi
        for package in "$folder"/*.deb; do
            quietly dpkg -x "$package" /
        done
        done_something=yes
    done
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
