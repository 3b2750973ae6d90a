#!/usr/bin/env bash
#
# What it costs to have many of something: the same rows in 1, 100 and 1000 partitions, thousands of tables, 4 and 64
# connections, and the first answer after a kill. InnoDB, MyRocks, Frond, and BLACKHOLE as what the server itself costs.
# Fails when Frond misses a limit that is printed at the end.
#
#   make bench-scale
#
# Environment
#   ENGINES     comma-separated (default innodb,myrocks,frond)
#   CACHE       bytes of cache for each engine (default 256M)
#   PARTITIONS  numbers of partitions, comma-separated (default 1,100,1000)
#   ROWS        rows for each number of partitions (default 200k)
#   TABLES      tables of one row each (default 3000)
#   SECONDS_EACH  length of each measurement with 4 and 64 connections (default 5)
#   KILLS       times that each engine's server is killed under load (default 10)
#   LOAD        seconds of load before each kill (default 8; 300 is what a promise is judged by)
#   TARGET_SECONDS  frond_recovery_target of the killed server (default 5)
#
# With the defaults it takes about 16 minutes.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/bench-common.sh
source "$ROOT/scripts/bench-common.sh"

ENGINES=${ENGINES:-innodb,myrocks,frond}

bench_build "$ENGINES"
# exec: a signal for this script is then one for the driver, which stops its server in order.
exec "$FROND_DEMO" scale --engines "$ENGINES" --cache "${CACHE:-256M}" --partitions "${PARTITIONS:-1,100,1000}" \
    --rows "${ROWS:-200k}" --tables "${TABLES:-3000}" --seconds "${SECONDS_EACH:-5}" --kills "${KILLS:-10}" \
    --load "${LOAD:-8}" --recovery-target "${TARGET_SECONDS:-5}" \
    --out "$TARGET/demo" --frond-plugin "$MARIADB_DIR"
