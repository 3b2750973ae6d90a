#!/usr/bin/env bash
#
# Backups of servers under load, restored and compared with the binary log; damage, full disk, kill -9, wrong requests.
#
# CPU budget: 90 s
#
# BACKUPS=N makes N of them; SEED=N repeats the clients' statements.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec /usr/bin/python3 -B tests/sql/backup.py --backups "${BACKUPS:-5}" ${SEED:+--seed "$SEED"}
