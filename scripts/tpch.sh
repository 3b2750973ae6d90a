#!/usr/bin/env bash
#
# TPC-H: eight generated tables and the 22 queries, on InnoDB and Frond in one server, in turn. Prints time and the server's
# CPU time of each query, Frond's over InnoDB's, and the plans that differ; fails when answers differ.
#
#   make bench-tpch
#   SCALE=0.01 ROUNDS=1 QUERIES=5,21 make bench-tpch     a smoke run
#   CACHE=16M make bench-tpch                            a tenth of what the tables need
#
# Environment
#   ENGINES  comma-separated (default innodb,frond)
#   SCALE    1 is 6 million rows in the largest table, 1 GB of text in all (default 0.1)
#   CACHE    bytes of cache for each engine (default 512M)
#   ROUNDS   measurements of each query and engine (default 3)
#   QUERIES  numbers, comma-separated (default all 22)
#   OUT      where the table goes as Markdown (default target/demo)
#
# With the defaults it takes about two minutes, the first build excluded.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/bench-common.sh
source "$ROOT/scripts/bench-common.sh"

ENGINES=${ENGINES:-innodb,frond}

bench_build "$ENGINES"
# exec: a signal for this script is then one for the driver, which stops its server in order.
exec "$FROND_DEMO" tpch --engines "$ENGINES" --scale "${SCALE:-0.1}" --cache "${CACHE:-512M}" --rounds "${ROUNDS:-3}" \
    ${QUERIES:+--queries "$QUERIES"} --out "${OUT:-$TARGET/demo}" --frond-plugin "$MARIADB_DIR"
