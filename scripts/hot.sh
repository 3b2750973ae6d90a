#!/usr/bin/env bash
#
# Look-ups in a table larger than the cache. InnoDB, MyRocks and Frond in one server, one after another. Prints look-ups
# per second, the server's CPU time and the bytes it reads per look-up.
#
# hot.sh hot: of a set of rows that lie at random in a table 17 times as large as the cache, by the size of the set; the
# last line is uniform access to the whole table. hot.sh cold: of any row of a table 50 times as large as the cache, by
# primary key and through an index, by the number of connections.
#
#   make bench-hot
#   ROWS=10M CACHE=128M make bench-hot           the full size, 20 minutes
#   ROWS=20k CACHE=16M SCALE=0.1 make bench-hot  a smoke run
#   make bench-cold
#   ROWS=10M CACHE=44M make bench-cold           the full size
#
# Environment
#   ENGINES  comma-separated (default innodb,myrocks,frond)
#   ROWS     rows of the table, 224 bytes each (default 2M, for cold look-ups 5M)
#   CACHE    bytes of cache for each engine (default 26M, for cold look-ups 22M)
#   THREADS  connections that look up hot rows (default 4)
#   CLIENTS  numbers of connections for cold look-ups (default 1,16,64)
#   SCALE    multiplies the length of each measurement, 10 seconds (default 1)
#   OUT      where the table goes as Markdown (default target/demo)
#
# With the defaults each takes about ten minutes, the first build excluded.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/bench-common.sh
source "$ROOT/scripts/bench-common.sh"

ENGINES=${ENGINES:-innodb,myrocks,frond}

bench_build "$ENGINES"
case $1 in
hot) of_kind=(--rows "${ROWS:-2M}" --cache "${CACHE:-26M}" --threads "${THREADS:-4}") ;;
cold) of_kind=(--rows "${ROWS:-5M}" --cache "${CACHE:-22M}" --clients "${CLIENTS:-1,16,64}") ;;
*) die "hot.sh $1: hot or cold" "make bench-hot and make bench-cold call it" ;;
esac
# exec: a signal for this script is then one for the driver, which stops its server in order.
exec "$FROND_DEMO" "$1" --engines "$ENGINES" "${of_kind[@]}" --scale "${SCALE:-1}" \
    --scripts "$ROOT/bench/oltp" --out "${OUT:-$TARGET/demo}" --frond-plugin "$MARIADB_DIR"
