#!/usr/bin/env bash
# Tries what `make dist`, `make deb` and `make install` give, each in a clean place: the archive unpacked in an empty
# folder, the package in a Debian of its own beside Debian's redis-server. Needs root, for chroot.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(mktemp -d)
root=$work/debian
server=

end() {
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
    umount "$root/proc" 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

say() { echo "== $*"; }
fail() { echo "FAILED: $*" >&2 && exit 1; }

port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

# serve COMMAND...: starts a server and waits until it answers.
serve() {
    "$@" >"$work/log" 2>&1 &
    server=$!
    for _ in $(seq 200); do
        if redis-cli -p "$port" ping 2>/dev/null | grep -q PONG; then return; fi
        kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; fail "the server ended: $*"; }
        sleep 0.05
    done
    cat "$work/log" >&2
    fail "no answer: $*"
}

stop() {
    redis-cli -p "$port" shutdown nosave || true
    wait "$server" || true
    server=
}

# A job goes through.
try_a_job() {
    redis-cli -p "$port" dq.push mail hello >/dev/null
    redis-cli -p "$port" dq.claim mail | grep -qx hello || fail 'the job does not come'
}

say 'make dist: unpacked in an empty folder'
make dist
archive=$(ls "$target"/dist/*.tar.gz)
(cd "$target/dist" && sha256sum -c "$(basename "$archive").sha256")
tar -xzf "$archive" -C "$work"
unpacked=$(echo "$work"/dq-*)
ls "$unpacked"
sed "s|^loadmodule .*|loadmodule $unpacked/libdq.so|; s|^dir .*|dir $work|" "$unpacked/redis.conf.example" >"$work/redis.conf"
serve redis-server "$work/redis.conf" --port "$port"
try_a_job
stop

say 'make install: into a folder, and the line that it says'
line=$(make -s install DESTDIR="$work/installed" | sed -n 's/.*: \(loadmodule .*\)/\1/p')
[ "$line" = 'loadmodule /usr/lib/redis/modules/libdq.so' ] || fail "it says: $line"
[ -x "$work/installed/usr/lib/redis/modules/libdq.so" ] || fail 'the module is not there, or is no program'

say 'make deb: in a Debian of its own, beside its redis-server'
make deb
package=$(ls -t "$target"/debian/redis-dq_*.deb | head -1)
dpkg-deb -c "$package"
debootstrap --variant=minbase --include=redis-server bookworm "$root" >"$work/debootstrap.log" 2>&1 || {
    tail -5 "$work/debootstrap.log" >&2
    fail 'debootstrap'
}
mount -t proc proc "$root/proc"
cp "$package" "$root/redis-dq.deb"
conf=$root/etc/redis/redis.conf
chroot "$root" dpkg -i /redis-dq.deb
[ "$(grep -c '^loadmodule' "$conf")" = 1 ] || fail 'the line is not in redis.conf'
inside() { chroot --userspec=redis:redis "$root" /usr/bin/redis-server /etc/redis/redis.conf --port "$port" --daemonize no --supervised no --logfile '' --dir /var/lib/redis "$@"; }
serve inside
try_a_job
redis-cli -p "$port" config set dq.lease 7s >/dev/null
redis-cli -p "$port" config rewrite
stop
say 'after CONFIG REWRITE, as Sentinel sends it, and a package of the same name over it'
chroot "$root" dpkg -i /redis-dq.deb
[ "$(grep -c '^loadmodule' "$conf")" = 1 ] || fail 'the line is there more than once'
serve inside
redis-cli -p "$port" config get dq.lease | grep -qx 7s || redis-cli -p "$port" config get dq.lease | grep -q 7 || fail 'the setting is lost'
try_a_job
stop
say 'removed: the server starts without it'
chroot "$root" dpkg -r redis-dq
if grep -Eq '^(loadmodule|dq\.)' "$conf"; then fail 'lines of the module stay in redis.conf'; fi
serve inside
redis-cli -p "$port" dq.queues | grep -q 'unknown command' || fail 'the module is still there'
stop
say 'all packages work'
