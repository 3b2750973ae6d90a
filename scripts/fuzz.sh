#!/usr/bin/env bash
#
# Mutated bytes for every decoder of the engine, for packed backups and for the C API: fuzz/.
#
#   scripts/fuzz.sh [SECONDS [TARGET]]    seconds of a processor for each target (default 60)
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
FROND_FUZZ_SECONDS=${1:-60} cargo test --quiet -p frond-fuzz --test it -- --nocapture "${@:2}" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
read -r passed failed <<<"$(sed -nE 's/^test result: .* ([0-9]+) passed; ([0-9]+) failed;.*/\1 \2/p' "$log" | tail -n 1)"
passed=${passed:-0} failed=${failed:-0}
# A build or a process that ended early printed no counts.
if [[ $status -ne 0 && $failed -eq 0 ]]; then failed=1; fi
printf '%d passed, %d failed\n' "$passed" "$failed"
[[ $failed -eq 0 ]]
