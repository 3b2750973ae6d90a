#!/usr/bin/env bash
#
# Backups of servers under load, restored and compared with the binary log; damage, full disk, kill -9, wrong requests.
#
# CPU budget: 80 s
#
# BACKUPS=N makes N of them (12: a chain of six for Frond alone, and one with InnoDB); SEED=N repeats the clients' statements.
# `make backups` makes 50, beside a replica.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec /usr/bin/python3 -B tests/sql/backup.py --backups "${BACKUPS:-12}" ${SEED:+--seed "$SEED"}
