#!/usr/bin/env bash
#
# MariaDB's suites for any storage engine, eight more that name InnoDB, and our SQL tests, with Frond.
#
# What costs most runs in `make soak` only: the tests that the suites call big.
#
# CPU budget: 325 s

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec scripts/mtr.sh all
