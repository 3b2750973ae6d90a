#!/usr/bin/env bash
#
# Rows that are loaded into empty tables, beside InnoDB tables that get the same; cases of their own (transactions, XA, foreign
# keys, other sessions); then kill -9 and KILL in the middle.
#
# SEED=N repeats the statements. LOAD_ROUNDS and LOAD_KILLS make it longer.
#
# CPU budget: 45 s

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec /usr/bin/python3 -B tests/sql/load.py --rounds "${LOAD_ROUNDS:-20}" \
    --kills "${LOAD_KILLS:-12}" ${SEED:+--seed "$SEED"}
