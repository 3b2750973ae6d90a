#!/usr/bin/env bash
#
# Backups of servers under load, restored and compared with the binary log; damage, full disk, kill -9, wrong requests.
#
# CPU budget: 110 s
#
# BACKUPS=N makes N of them (20: fourteen of Frond alone, in chains of six, and a chain with InnoDB); SEED=N repeats the clients' statements.
# `make backups` makes 50, beside a replica.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec /usr/bin/python3 -B tests/sql/backup.py --backups "${BACKUPS:-20}" ${SEED:+--seed "$SEED"}
