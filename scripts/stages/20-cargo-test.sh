#!/usr/bin/env bash
#
# Every Rust test of the workspace, summed over the test binaries.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# --no-fail-fast: one failing crate must not hide the others.
cargo test --workspace --no-fail-fast 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

# "test result: ok. 12 passed; 0 failed; 1 ignored; ..." once for each test binary
awk -v status="$status" '
    /^test result: / {
        for (i = 1; i < NF; i++) {
            if ($(i + 1) == "passed;") passed += $i
            if ($(i + 1) == "failed;") failed += $i
            if ($(i + 1) == "ignored;") skipped += $i
        }
    }
    END {
        # A crate that does not compile, or a test that aborted its process, prints no result.
        if (status != 0 && failed == 0) failed = 1
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    }' "$log"
exit "$status"
