#!/usr/bin/env bash
#
# MariaDB's suites for any storage engine, seven more that name InnoDB, and our SQL tests, with Frond.
#
# Budget: 8 minutes of one core for all of them. What costs most runs in `make soak` only: the tests that the
# suites call big.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec scripts/mtr.sh all
