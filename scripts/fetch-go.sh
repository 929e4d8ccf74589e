#!/bin/sh
# Brings Go and go-redis v9, as Debian packages them, into a folder, for the test of examples/go.
#
#   scripts/fetch-go.sh FOLDER
#
# Debian 12's own Go is too old for go-redis v9. So both are taken from newer suites of the mirror that apt is set to,
# with lists of their own: nothing is installed, apt's settings stay as they are, and it needs no root. Then
# FOLDER/root/usr/lib/go-1.23 is a GOROOT, and FOLDER/root/usr/share/gocode a GOPATH.
set -eu

folder=$(mkdir -p "$1" && cd "$1" && pwd)
rm -rf "${folder:?}/apt" "$folder/debs" "$folder/root"
mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial" "$folder/debs"
mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -v security | head -1)
# What is signed with a key that this Debian does not have yet is taken all the same; it is only run in tests.
for suite in bookworm-backports sid; do
    echo "deb [trusted=yes] $mirror $suite main"
done >"$folder/apt/sources.list"

apt() {
    apt-get -qq -oDir::Etc::sourcelist="$folder/apt/sources.list" -oDir::Etc::sourceparts=/dev/null \
        -oDir::State::Lists="$folder/apt/lists" -oDir::Cache="$folder/apt/cache" \
        -oAPT::Sandbox::User=root -oAcquire::Languages=none "$@"
}

apt update
(
    cd "$folder/debs"
    apt download golang-1.23-go/bookworm-backports golang-1.23-src/bookworm-backports \
        golang-github-redis-go-redis-dev/sid golang-github-cespare-xxhash-v2-dev/sid \
        golang-github-dgryski-go-rendezvous-dev/sid
)
for package in "$folder"/debs/*.deb; do
    dpkg-deb -x "$package" "$folder/root"
done
rm -r "$folder/apt" "$folder/debs"
