#!/usr/bin/env bash
#
# Concurrent transactions: no anomaly that their isolation level forbids, and known ones where allowed.
#
# SEED=N repeats what the clients send, though not how they meet. Without it each run has another.
#
# ISOLATION_SECONDS (default 9) for each level; at the serializable ones until ISOLATION_SERIALIZABLE transactions
# (default 0) have committed, if that takes longer.
#
# CPU budget: 85 s

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh

say "the checker finds each kind of anomaly"
(cd tests/sql && /usr/bin/python3 -B test_anomalies.py) 2>&1
checker=$?
say "histories"
output=$(mktemp)
trap 'rm -f "$output"' EXIT
/usr/bin/python3 -B tests/sql/isolation.py --seconds "${ISOLATION_SECONDS:-9}" \
    --serializable "${ISOLATION_SERIALIZABLE:-0}" ${SEED:+--seed "$SEED"} \
    | tee "$output"
histories=${PIPESTATUS[0]}
read -r passed failed <<<"$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$output" | tail -n 1)"
passed=${passed:-0}
failed=${failed:-1}
if [[ $checker -eq 0 ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
if [[ $histories -ne 0 && $failed -eq 0 ]]; then failed=1; fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[[ $failed -eq 0 ]]
