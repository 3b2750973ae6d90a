#!/usr/bin/env bash
#
# Random histories of XA transactions on InnoDB and Frond, each on a server of its own: the same answers and tables,
# also after kill -9 and restarts, with the binary log and without.
#
# SEED=N repeats the histories; XA_EPISODES is how many there are with the binary log, and without it (default 20).
#
# CPU budget: 15 s

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh

SEED=${SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
DRIVER=(/usr/bin/python3 -B tests/sql/xa.py)
passed=0
failed=0

count() { # count STATUS LABEL
    if [[ $1 -eq 0 ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s\n' "$2"
    fi
}

# A branch is committed on one side and rolled back on the other: the comparison must notice it.
canary=$("${DRIVER[@]}" --seed 1 --episodes 5 --canary 2>&1)
if [[ $? -eq 1 ]] && grep -q '^DIFFERENCE' <<<"$canary"; then
    count 0 canary
else
    printf '%s\n' "$canary"
    count 1 "the canary was not noticed"
fi
for binlog in on off; do
    "${DRIVER[@]}" --seed "$SEED" --episodes "${XA_EPISODES:-20}" --binlog "$binlog"
    count $? "histories of seed $SEED, binary log $binlog"
done
printf '%d passed, %d failed\n' "$passed" "$failed"
[[ $failed -eq 0 ]]
