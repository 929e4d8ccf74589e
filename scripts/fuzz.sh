#!/bin/sh
# Runs each target of fuzz/ under libFuzzer for so many minutes, with what it found before and the committed seeds.
#
#   scripts/fuzz.sh FOLDER [MINUTES]
#
# cargo-fuzz, what is built and what is found go to FOLDER. A target that is broken ends the run and leaves the bytes
# in fuzz/artifacts.
set -eu

folder=${1:?usage: scripts/fuzz.sh FOLDER [MINUTES]}
minutes=${2:-1}
mkdir -p "$folder"
if [ ! -x "$folder/tools/bin/cargo-fuzz" ]; then
    CARGO_TARGET_DIR="$folder/tools/build" cargo install --quiet --locked --version 0.13.2 --root "$folder/tools" cargo-fuzz
fi
# A stable compiler takes the options that libFuzzer and the sanitizer need when it is told that this is known.
export RUSTC_BOOTSTRAP=1
export CARGO_TARGET_DIR="$folder/build"

for target in args names glob record receipt; do
    mkdir -p "fuzz/corpus/$target"
    log="$folder/$target.log"
    if ! "$folder/tools/bin/cargo-fuzz" run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
        -max_total_time=$((minutes * 60)) -max_len=4200 -print_final_stats=1 >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        exit 1
    fi
    executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$target: $executed executions, nothing broken"
done
