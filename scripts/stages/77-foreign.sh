#!/usr/bin/env bash
#
# Foreign keys under concurrent changes, ADD FOREIGN KEY and kill -9; the binary log gives a second server the same tables.
#
# SEED=N repeats the statements. FOREIGN_SECONDS and FOREIGN_KILLS make it longer.
#
# CPU budget: 10 s

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec /usr/bin/python3 -B tests/sql/foreign.py --seconds "${FOREIGN_SECONDS:-4}" \
    --kills "${FOREIGN_KILLS:-4}" ${SEED:+--seed "$SEED"}
