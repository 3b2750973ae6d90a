#!/usr/bin/env bash
#
# A replica, made by mariadb-dump under load, is killed (-9) again and again while it applies with several threads:
# it goes on by itself and has the primary's tables. Then the primary is killed: what it acknowledged is on the replica.
#
# SEED=N repeats the clients' statements and the moments of the kills.
#
# CPU budget: 40 s

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec /usr/bin/python3 -B tests/sql/kill9_replica.py --cycles "${KILL9_REPLICA_CYCLES:-5}" \
    --fresh "${KILL9_REPLICA_FRESH:-1}" --primary "${KILL9_REPLICA_PRIMARY:-1}" \
    --seconds "${KILL9_REPLICA_SECONDS:-300}" ${SEED:+--seed "$SEED"}
