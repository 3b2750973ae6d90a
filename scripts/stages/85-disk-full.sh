#!/usr/bin/env bash
#
# A full disk: clear errors, a living server, nothing acknowledged lost; and kill -9 while it is full.
#
# Needs root for mounting a small file system; without it the stage is skipped.
#
# CPU budget: 8 s

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec /usr/bin/python3 -B tests/sql/disk_full.py ${SEED:+--seed "$SEED"}
