#!/usr/bin/env bash
#
# Directories that are not ours, option values out of range, and KILL at any time.
#
# SEED=N repeats the statements that are killed, though not the moments. Input beyond limits of keys, rows and
# locks is in the mtr test frond.limits.
#
# CPU budget: 55 s

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh

output=$(mktemp)
trap 'rm -f "$output"' EXIT
passed=0
failed=0

part() { # part COMMAND...: adds the counts of its last line
    local status=0 p f
    "$@" 2>&1 | tee "$output"
    status=${PIPESTATUS[0]}
    read -r p f <<<"$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$output" | tail -n 1)"
    passed=$((passed + ${p:-0}))
    failed=$((failed + ${f:-1}))
    if [[ $status -ne 0 && ${f:-1} -eq 0 ]]; then failed=$((failed + 1)); fi
}

say "the start of a server"
part /usr/bin/python3 -B tests/sql/startup.py
say "KILL"
part /usr/bin/python3 -B tests/sql/kill.py --seconds "${KILL_SECONDS:-40}" ${SEED:+--seed "$SEED"}
printf '%d passed, %d failed\n' "$passed" "$failed"
[[ $failed -eq 0 ]]
