#!/usr/bin/env bash
#
# frond replay: the same answers on InnoDB and Frond, a planted difference found. frond exporter beside Prometheus.
# frond top in a terminal. frond locks --live where waits go through both engines. frond doctor on servers with faults.
# Bad files and servers for all of them.
#
# CPU budget: 40 s
#
# REPLAY_STATEMENTS=N (3000; `make replay`: 100 000); SEED=N repeats them.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh

output=$(mktemp)
trap 'rm -f "$output"' EXIT
failed=0
for tool in ${TOOLS:-replay exporter top locks doctor inputs}; do
    options=()
    if [[ $tool == replay ]]; then
        options=(--statements "${REPLAY_STATEMENTS:-3000}" ${SEED:+--seed "$SEED"})
    fi
    say "frond $tool"
    /usr/bin/python3 -B "tests/sql/$tool.py" "${options[@]}" | tee -a "$output"
    [[ ${PIPESTATUS[0]} -eq 0 ]] || failed=1
done
awk -v broken="$failed" '
    /^[0-9]+ passed, [0-9]+ failed/ { passed += $1; failed += $3; skipped += $5 }
    END {
        if (broken && !failed) failed = 1
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }' "$output"
exit "$failed"
