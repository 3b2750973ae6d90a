#!/usr/bin/env bash
#
# The simulator: crash images, seeded defects, and isolation histories; each run is one test.
#
# SIM_IMAGES (default 80000) is the number of crash images recovered, SIM_FIRST the first seed, HISTORY_SEED that of the
# histories: without them the day decides, so that runs add up.
#
# CPU budget: 205 s

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh

images=${SIM_IMAGES:-80000}
passed=0
failed=0

run() { # run LABEL COMMAND...
    local label=$1 line log
    shift
    say "$label"
    log=$(mktemp)
    "$@" 2>&1 | tee "$log"
    line=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$log" | tail -n 1)
    rm -f "$log"
    if [[ -z $line ]]; then
        failed=$((failed + 1))
        printf 'FAILED %s: no count\n' "$label"
        return
    fi
    passed=$((passed + ${line% *}))
    failed=$((failed + ${line#* }))
}

# One build for all: the seeded defects are compiled in and, unless --canaries asks, not active.
cargo_test --quiet --no-run || {
    printf '0 passed, 1 failed\n'
    exit 1
}
bin=${CARGO_TARGET_DIR:-target}/debug

# A run takes some 500 seeds.
day=$(($(date +%s) / 86400))
first=${SIM_FIRST:-$((day * 1000))}
run "$images crash images" "$bin/frond-sim" --first "$first" --images "$images" --jobs 2
run "seeded defects are found" "$bin/frond-sim" --canaries
histories=${HISTORY_SEED:-$day}
run "isolation, 4 threads, seed $histories" "$bin/frond-history" --seed "$histories" --seconds 6
run "serializable, 4 threads, seed $histories" "$bin/frond-history" --seed "$histories" --serializable --seconds 4

printf '%d passed, %d failed\n' "$passed" "$failed"
[[ $failed -eq 0 ]]
