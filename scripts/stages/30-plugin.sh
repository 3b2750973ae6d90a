#!/usr/bin/env bash
#
# Builds the plugin, runs the layout check, and loads the plugin into a private server.
#
# CPU budget: 20 s

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/server.sh
source scripts/server.sh

make plugin
echo "ok: built and accepted by the layout check"

server_trap
name=stage-plugin-$$
server_start "$name"
support=$(server_sql "$name" -BNe \
    "SELECT support FROM information_schema.engines WHERE engine = 'Frond'")
[[ $support == YES || $support == DEFAULT ]] ||
    die "the server started but does not offer the engine" "its log: $(server_log "$name")"
echo "ok: loaded"
server_stop "$name"
echo "ok: stopped in order"
echo "3 passed, 0 failed"
