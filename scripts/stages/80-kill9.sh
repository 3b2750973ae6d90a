#!/usr/bin/env bash
#
# kill -9 of the server under load, again and again: everything acknowledged is there afterwards.
#
# SEED=N repeats the clients' statements and the moments of the kills. KILL9_LOG_MIB bounds how much log
# the last recovery has to replay (0: leave it out).
#
# CPU budget: 70 s

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec /usr/bin/python3 -B tests/sql/kill9.py --cycles "${KILL9_CYCLES:-30}" \
    --seconds "${KILL9_SECONDS:-150}" --log-mib "${KILL9_LOG_MIB:-512}" ${SEED:+--seed "$SEED"}
