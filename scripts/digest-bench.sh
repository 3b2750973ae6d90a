#!/usr/bin/env bash
#
# frond digest beside Debian's pt-query-digest on one slow log of real statements with new literals:
# rates, ratio, speed-up by a second thread, peak memory (also with very many classes); and whether both
# found the same classes. Ends with a table of the targets, PASS or FAIL; status 1 if one is missed.
#
#   make bench-digest
#
# Environment
#   SIZE       megabytes of the log (default 1024)
#   CLASSES    query classes in it (default 5000)
#   MANY       query classes in a second log, for the memory (default 39000; 0: none); it has 80
#              statements of each, which makes 1.5 GB
#   PEER_SIZE  megabytes that pt-query-digest reads (default: the whole log; 0: none)
#   LIMIT      seconds after which a command is stopped (default 1800)
#   ROUNDS     how often frond is measured (default 3)
#
# pt-query-digest takes some 200 s for the default size, and prints its progress every 30 s; everything
# else takes a few seconds.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$ROOT/scripts/setup.sh" digest
say "building frond and the driver"
cargo build --quiet --release --manifest-path "$ROOT/Cargo.toml" -p frond-cli -p frond-bench-digest
RELEASE=${CARGO_TARGET_DIR:-$TARGET}/release
exec "$RELEASE/frond-bench-digest" --frond "$RELEASE/frond" --out "$TARGET/bench-digest" \
    --size "${SIZE:-1024}" --classes "${CLASSES:-5000}" --many "${MANY:-39000}" \
    --rounds "${ROUNDS:-3}" --limit "${LIMIT:-1800}" \
    ${PEER_SIZE:+--peer-size "$PEER_SIZE"}
