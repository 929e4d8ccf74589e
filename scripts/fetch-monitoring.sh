#!/bin/sh
# Brings Debian's Prometheus and its exporter for Redis into a folder, for the test of monitoring/.
#
#   scripts/fetch-monitoring.sh FOLDER
#
# Nothing is installed and no service is started, and it needs no root: FOLDER/usr/bin has prometheus, promtool and
# prometheus-redis-exporter afterwards. 22 MB are fetched.
set -eu

mkdir -p "$1"
cd "$1"
rm -rf debs usr
mkdir debs
fetch() {
    (cd debs && apt-get -qq download prometheus prometheus-redis-exporter)
}
# The lists of a new machine may be old, or not be there.
fetch || { apt-get -qq update && fetch; }
for package in debs/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x ./usr/bin
done
rm -r debs
