#!/usr/bin/env bash
#
# frond backup beside mariadb-backup: the same rows in Frond and in InnoDB. Full and incremental backups, the server's
# throughput meanwhile, and how long commits are blocked. Fails when Frond misses a limit that is printed at the end.
#
#   make bench-backup
#   ROWS=50000 ROUNDS=1 LOAD_ROUNDS=1 SECONDS_EACH=1 make bench-backup     a smoke run, some 30 seconds
#
# Environment
#   ROWS          rows in each engine (default 2000000)
#   ROUNDS        measurements of each kind, in turn (default 3)
#   LOAD_ROUNDS   measurements under load: without a backup, with one, without one (default 9)
#   SECONDS_EACH  length of a measurement under load (default 6)
#
# With the defaults it takes about 9 minutes.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

make --no-print-directory -C "$ROOT" plugin >&2
cargo build --quiet --release --manifest-path "$ROOT/Cargo.toml" -p frond-cli
exec /usr/bin/python3 -B "$ROOT/bench/backup/compare.py" --rows "${ROWS:-2000000}" --rounds "${ROUNDS:-3}" \
    --load-rounds "${LOAD_ROUNDS:-9}" --seconds "${SECONDS_EACH:-6}"
