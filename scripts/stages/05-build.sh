#!/usr/bin/env bash
#
# Builds what the other stages run, by their own commands, so that their cost is that of the tests.
#
# CPU budget: 915 s

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh

check "the plugin" make --no-print-directory plugin
check "the Rust tests, the tool and the simulator, with clippy's warnings as errors" cargo_test --quiet --no-run

printf '%d passed, %d failed\n' "$passed" "$failed"
[[ $failed -eq 0 ]]
