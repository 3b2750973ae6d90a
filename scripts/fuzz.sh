#!/usr/bin/env bash
#
# Mutated bytes for every decoder of the engine, for packed backups and for the C API: fuzz/.
#
#   scripts/fuzz.sh [SECONDS [TARGET]]    seconds of a processor for each target (default 60)
#   scripts/fuzz.sh toolkit [ROUNDS]      instead the toolkit's own: captures, logs, statements, filters, monitor output;
#                                         inputs for each test (default 10000)
#
# The targets run one after the other, so 20 targets take 20 minutes of a processor by default, and the build before.
#
# FROND_FUZZ_SEED=N repeats a run. The last line is "N passed, N failed"; what failed is printed with its input.
# This needs no nightly compiler; with one, `cargo fuzz` runs the same checks (fuzz/src/lib.rs).

set -uo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT" || exit 1

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [[ ${1:-} == toolkit ]]; then
    # The modules and tests that take their seeds from toolkit/sqltext/tests/it/fuzzing.rs.
    FROND_FUZZ_ROUNDS=${2:-10000} cargo test --quiet --no-fail-fast --test it \
        -p frond-capture -p frond-querylog -p frond-sqltext -p frond-digest -p frond-locks \
        -- fuzz:: hostile mixtures:: do_no_harm 2>&1 | tee "$log"
else
    FROND_FUZZ_SECONDS=${1:-60} cargo test --quiet -p frond-fuzz --test it -- --nocapture "${@:2}" 2>&1 | tee "$log"
fi
status=${PIPESTATUS[0]}
read -r passed failed <<<"$(sed -nE 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed;.*/\1 \2/p' "$log" |
    awk '{ passed += $1; failed += $2 } END { print passed + 0, failed + 0 }')"
# A build or a process that ended early printed no counts.
if [[ $status -ne 0 && $failed -eq 0 ]]; then failed=1; fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[[ $failed -eq 0 ]]
