#!/usr/bin/env bash
#
# The everyday load, cached: sysbench's OLTP workloads, a queue table, one hot row, updates under an open
# snapshot, on InnoDB, MyRocks and Frond in one server, measured in turn. Prints the server's CPU time
# per transaction, the rates, and Frond's CPU time over InnoDB's.
#
#   make bench-oltp
#   ROWS=2k SCALE=0.002 ROUNDS=1 ENGINES=innodb,frond make bench-oltp     a smoke run, some 20 seconds
#
# Environment
#   ENGINES  comma-separated (default innodb,myrocks,frond)
#   ROWS     rows of the table (default 1M)
#   CACHE    bytes of cache for each engine; all rows must fit (default 1G)
#   THREADS  connections (default 4)
#   SCALE    multiplies the number of transactions of each measurement (default 1)
#   ROUNDS   measurements of each engine and workload (default 3)
#   OUT      where the table goes as Markdown (default target/demo)
#
# With the defaults it takes less than 15 minutes, the first build excluded.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/bench-common.sh
source "$ROOT/scripts/bench-common.sh"

ENGINES=${ENGINES:-innodb,myrocks,frond}

"$ROOT/scripts/setup.sh" bench
bench_build "$ENGINES"
# exec: a signal for this script is then one for the driver, which stops its server in order.
exec "$FROND_DEMO" oltp --engines "$ENGINES" --rows "${ROWS:-1M}" --cache "${CACHE:-1G}" \
    --threads "${THREADS:-4}" --scale "${SCALE:-1}" --rounds "${ROUNDS:-3}" \
    --scripts "$ROOT/bench/oltp" --out "${OUT:-$TARGET/demo}" --frond-plugin "$MARIADB_DIR"
