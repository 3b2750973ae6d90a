#!/usr/bin/env bash
#
# Removes what was built, and first stops the private servers of this checkout: a server whose data
# directory disappears under it would go on writing to deleted files.
#
# The downloaded server headers stay: they cost a download and depend on nothing built here.
# `scripts/clean.sh all` removes them too.

set -euo pipefail
# shellcheck source=scripts/server.sh
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

for dir in "$RUN_DIR"/*/; do
    [[ ! -d $dir ]] || server_destroy "$(basename "$dir")"
done
rm -rf "$TARGET/mtr" "$TARGET/test-logs" "$RUN_DIR"
rm -rf "$MARIADB_DIR"/build-* "$MARIADB_DIR"/*.so "$MARIADB_DIR"/datadir*
if [[ ${1:-} == all ]]; then rm -rf "$MARIADB_DIR"; fi
cd "$ROOT"
cargo clean --quiet --profile release 2>/dev/null || true
cargo clean --quiet --profile dev 2>/dev/null || true
