#!/usr/bin/env bash
#
# Durable commits with the binary log, on InnoDB and Frond in one server, measured in turn: single rows inserted with
# autocommit, and sysbench's oltp_write_only. Both logs are synced at each commit, or for a group of commits. Prints
# rates, the server's CPU time per transaction, syncs of the engine per commit, and commits per sync of the binary log.
#
#   make bench-commit
#   ROWS=2k SCALE=0.02 ROUNDS=1 CLIENTS=1,4 make bench-commit     a smoke run, some seconds
#
# Environment
#   ENGINES  comma-separated: innodb, myrocks, frond (default innodb,frond)
#   CLIENTS  numbers of connections, comma-separated (default 1,4,32,64)
#   ROWS     rows of the table (default 100k)
#   CACHE    bytes of cache for each engine; all rows must fit (default 256M)
#   SCALE    multiplies the number of transactions of each measurement (default 1)
#   ROUNDS   measurements of each engine, load and number of connections (default 5)
#   OUT      where the table goes as Markdown (default target/demo)
#
# With the defaults it takes some seven minutes, the first build excluded.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/bench-common.sh
source "$ROOT/scripts/bench-common.sh"

ENGINES=${ENGINES:-innodb,frond}

bench_build "$ENGINES"
# exec: a signal for this script is then one for the driver, which stops its server in order.
exec "$FROND_DEMO" commit --engines "$ENGINES" --clients "${CLIENTS:-1,4,32,64}" --rows "${ROWS:-100k}" \
    --cache "${CACHE:-256M}" --scale "${SCALE:-1}" --rounds "${ROUNDS:-5}" \
    --scripts "$ROOT/bench/oltp" --out "${OUT:-$TARGET/demo}" --frond-plugin "$MARIADB_DIR"
