#!/usr/bin/env bash
#
# Hot rows: look-ups of a set of rows that lie at random in a table 17 times as large as the cache, by the size
# of the set. InnoDB, MyRocks and Frond in one server, one after another. Prints look-ups per second, the
# server's CPU time and the bytes it reads per look-up; the last line is uniform access to the whole table.
#
#   make bench-hot
#   ROWS=10M CACHE=128M make bench-hot           the full size, an hour
#   ROWS=20k CACHE=16M SCALE=0.1 make bench-hot  a smoke run
#
# Environment
#   ENGINES  comma-separated (default innodb,myrocks,frond)
#   ROWS     rows of the table, 224 bytes each (default 2M)
#   CACHE    bytes of cache for each engine (default 26M, the share of the full size)
#   THREADS  connections (default 4)
#   SCALE    multiplies the length of each measurement, 10 seconds (default 1)
#   OUT      where the table goes as Markdown (default target/demo)
#
# With the defaults it takes about ten minutes, the first build excluded.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/bench-common.sh
source "$ROOT/scripts/bench-common.sh"

ENGINES=${ENGINES:-innodb,myrocks,frond}

bench_build "$ENGINES"
# exec: a signal for this script is then one for the driver, which stops its server in order.
exec "$FROND_DEMO" hot --engines "$ENGINES" --rows "${ROWS:-2M}" --cache "${CACHE:-26M}" \
    --threads "${THREADS:-4}" --scale "${SCALE:-1}" \
    --scripts "$ROOT/bench/oltp" --out "${OUT:-$TARGET/demo}" --frond-plugin "$MARIADB_DIR"
