# shellcheck shell=bash
# Installs packages on Debian and Ubuntu. Sourced by scripts/setup.sh.

# nothing of somebody's own machine goes for the sake of a test
apt=(apt-get -y -qq --no-install-recommends --no-remove -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300)
policy=

# Reads lines "RANK NEED [PACKAGES]" of what is missing.
install_packages() {
    local rank need patterns packages wanted=()
    mapfile -t wanted < <(awk '{ print $2 }' "$1")
    say "missing for '$level': ${wanted[*]}"
    if ! can_install; then
        do_without "$1"
        return
    fi
    update_lists
    while read -r rank need patterns; do
        # shellcheck disable=SC2086 # several patterns
        packages=$(package_for ${patterns:-"$need"})
        if [ -n "$packages" ]; then
            echo "$rank $need $packages"
        else
            cannot_have "$rank" "$need" "no package for it in this release of the distribution" >&3
        fi
    done 3>&1 <"$1" >"$work/choice"
    choose "$work/choice"
    [ ${#chosen[@]} -gt 0 ] || return 0
    say "apt-get install $(foretell "${chosen[@]}"): ${chosen[*]}"
    hold_services
    quietly "${apt[@]}" install "${chosen[@]}"
    release_services
    done_something=yes
}

can_install() { command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; }

update_lists() {
    [ ! -s "$work/names" ] || return 0
    say "apt-get update"
    quietly "${apt[@]}" update
    apt-cache pkgnames >"$work/names"
}

# The package that gives a need here, and its companions; nothing where none can be had.
package_for() {
    local pattern name companion
    for pattern in "$@"; do
        while IFS= read -r name; do
            for companion in "$name" $(companions "$name"); do
                [[ $(apt-cache policy "$companion" 2>/dev/null) =~ Candidate:\ [0-9] ]] || continue 2
            done
            echo "$name" "$(companions "$name")"
            return
        done < <(grep -xE -e "$pattern" "$work/names" | sort -Vr)
    done
}

# Sets `chosen` to what can be installed together: all of it, or, where something does not go with the rest or with what
# is here, what is left without that.
choose() {
    local rank need packages
    mapfile -t chosen < <(cut -d ' ' -f 3- "$1" | xargs -n 1)
    ! installable "${chosen[@]}" || return 0
    chosen=()
    while read -r rank need packages; do
        # shellcheck disable=SC2086,SC2206 # several packages
        if installable "${chosen[@]}" $packages; then
            chosen+=($packages)
        else
            cannot_have "$rank" "$need" "apt cannot install it here: $(grep -m 1 -E '^E:|Depends:|Conflicts:' "$log" | xargs)"
        fi
    done <"$1"
}

installable() { "${apt[@]}" -s install "$@" >"$log" 2>&1 </dev/null; }

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
        if [ -z "$(package_for "lldb-$version")" ]; then
            cannot_have may "lldb-$version" "no package for it in this release of the distribution"
            continue
        fi
        folder=$work/lldb-$version
        mkdir "$folder"
        say "unpacking lldb-$version beside the other"
        quietly "${apt[@]}" install "liblldb-$version" python3-six
        (cd "$folder" && quietly "${apt[@]}" download "lldb-$version" "python3-lldb-$version")
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
