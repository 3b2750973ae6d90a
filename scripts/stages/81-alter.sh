#!/usr/bin/env bash
#
# ALTER TABLE in place while rows change, beside an InnoDB table that gets the same; then kill -9 during ALTERs.
#
# SEED=N repeats the statements. ALTER_SECONDS and ALTER_KILLS make it longer.
#
# CPU budget: 45 s

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec /usr/bin/python3 -B tests/sql/alter.py --seconds "${ALTER_SECONDS:-20}" \
    --kills "${ALTER_KILLS:-12}" ${SEED:+--seed "$SEED"}
