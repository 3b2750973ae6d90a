#!/usr/bin/env bash
#
# The demonstration: iiBench on InnoDB, MyRocks and Frond, one after another in the same server, with
# the same cache and durability. Ends with a table, and a chart in target/demo.
#
#   make demo
#   ROWS=20000 ENGINES=innodb,frond make demo      a smoke run, some 20 seconds
#   ROWS=20M CAP=0 make demo                       every engine to its last row, however long
#
# Environment
#   ROWS     rows to insert (default 5M; 200k, 20M ...)
#   CACHE    bytes of cache for each engine (default 256M)
#   ENGINES  comma-separated, in order: innodb, innodb-cb (InnoDB with its change buffer), myrocks,
#            frond (default innodb,myrocks,frond)
#   CAP      seconds after which an engine is stopped; 0: never (default: per engine, within BUDGET)
#   BUDGET   seconds for all engines together when CAP is not set (default 350)
#   LIMITS   set: hold the results against what Frond must reach, and fail when it is missed
#   BINLOG   set: with the binary log, whole rows, synced as seldom as the engines' logs
#   SEED     of the rows (default 1)
#   OUT      where results go (default target/demo); the servers' data is below it while they run
#
# With the defaults it takes less than 6 minutes, the first build excluded. It asks for root only if
# a package is missing. Interrupted, it stops its server and removes its data.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/bench-common.sh
source "$ROOT/scripts/bench-common.sh"

ENGINES=${ENGINES:-innodb,myrocks,frond}
OUT=${OUT:-$TARGET/demo}

"$ROOT/scripts/setup.sh" bench
bench_picture
bench_build "$ENGINES"
say "building the client"
make --no-print-directory -s -C "$ROOT/bench/iibench" OUT="$TARGET/iibench"

args=(
    --engines "$ENGINES" --rows "${ROWS:-5M}" --cache "${CACHE:-256M}" --seed "${SEED:-1}"
    --budget "${BUDGET:-350}" --out "$OUT"
    --iibench "$TARGET/iibench/iibench" --frond-plugin "$MARIADB_DIR"
)
[[ -z ${LIMITS:-} ]] || args+=(--limits)
[[ -z ${BINLOG:-} ]] || args+=(--binlog)
[[ -z ${CAP:-} ]] || args+=(--cap "$CAP")
# exec: a signal for this script is then one for the driver, which stops its server in order.
exec "$FROND_DEMO" iibench "${args[@]}"
