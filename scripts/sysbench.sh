#!/usr/bin/env bash
#
# Cached reads: sysbench oltp_point_select and oltp_read_only on InnoDB and Frond, loaded in one
# server and measured in turn. Prints queries per second and the ratio to InnoDB.
#
#   make bench-sysbench
#
# Environment
#   ENGINES  comma-separated (default innodb,frond)
#   TABLES   number of tables per engine (default 4)
#   ROWS     rows per table (default 100k)
#   CACHE    bytes of cache for each engine; all rows must fit (default 1G)
#   THREADS  connections (default 2)
#   SECONDS_EACH, ROUNDS  length and number of the measurements (default 10 and 3)
#
# With the defaults it takes about 3 minutes.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/bench-common.sh
source "$ROOT/scripts/bench-common.sh"

ENGINES=${ENGINES:-innodb,frond}

"$ROOT/scripts/setup.sh" bench
bench_build "$ENGINES"
# exec: a signal for this script is then one for the driver, which stops its server in order.
exec "$FROND_DEMO" sysbench --engines "$ENGINES" --tables "${TABLES:-4}" --rows "${ROWS:-100k}" \
    --cache "${CACHE:-1G}" --threads "${THREADS:-2}" --seconds "${SECONDS_EACH:-10}" \
    --rounds "${ROUNDS:-3}" --out "$TARGET/demo" --frond-plugin "$MARIADB_DIR"
