#!/usr/bin/env bash
#
# kill -9 of a server with the binary log on, also between the steps of a commit: afterwards the binary log, replayed
# elsewhere, gives the same tables.
#
# CPU budget: 45 s
#
# SEED=N repeats the clients' statements and the moments of the kills.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec /usr/bin/python3 -B tests/sql/kill9_binlog.py --cycles "${KILL9_BINLOG_CYCLES:-24}" \
    --seconds "${KILL9_BINLOG_SECONDS:-100}" ${SEED:+--seed "$SEED"}
