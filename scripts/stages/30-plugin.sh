#!/usr/bin/env bash
#
# Builds the plugin, runs the layout check, loads the plugin into a private server, and runs each workload of
# `make bench-oltp`, `make bench-commit`, `make bench-hot`, `make bench-cold` and `make bench-tpch` for a
# moment.
#
# CPU budget: 33 s

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
"$ROOT/scripts/setup.sh" bench
# As the tests of the whole workspace are built: those of one crate alone would be compiled again, with other features.
tests=$(cargo_test --no-run 2>&1 | sed -n 's#.*(\(.*/frond_demo-[0-9a-f]*\))#\1#p')
"$tests" --quiet --ignored every_workload_runs_on_both_engines look_ups_run durable_commits_run_on_both_engines \
    all_queries_of_tpch_answer_alike_on_both_engines
echo "ok: every workload of make bench-oltp, bench-commit, bench-hot, bench-cold and bench-tpch runs"
echo "6 passed, 0 failed"
