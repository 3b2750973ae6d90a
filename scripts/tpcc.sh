#!/usr/bin/env bash
#
# TPC-C (Percona-Lab's sysbench-tpcc) on Frond beside InnoDB, then on a replica that is killed while it applies it. Options
# are those of tests/sql/tpcc.py.
#
# TPCC   a checkout of sysbench-tpcc (default: cloned into target/samples, which needs the network once)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

scripts/setup.sh bench
scripts=${TPCC:-$(checkout sysbench-tpcc https://github.com/Percona-Lab/sysbench-tpcc TPCC)}
[[ -f $scripts/tpcc.lua ]] || die "$scripts has no tpcc.lua" "TPCC= names a checkout of sysbench-tpcc"
exec /usr/bin/python3 -B tests/sql/tpcc.py --scripts "$scripts" "$@"
