#!/usr/bin/env bash
#
# MariaDB's suites for any storage engine, and our SQL tests, with Frond as the engine.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec scripts/mtr.sh all
