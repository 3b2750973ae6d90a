#!/usr/bin/env bash
#
# Every Rust test of the workspace, summed over the test binaries; and what each package's tests cost.
#
# CPU budget: 440 s
#
# At most 240 s of it are those of `frond digest` (the packages in DIGEST). FROND_FUZZ_SECONDS=1 is each target of
# fuzz/; the day is its seed.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh

DIGEST='^frond-(cli|bench-digest|event|sqltext|capture|querylog|digest)$'
DIGEST_BUDGET=240

log=$(mktemp)
costs=$(mktemp)
trap 'rm -f "$log" "$costs"' EXIT

# cargo runs each test binary through this; the build does not depend on it.
runner=CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')_RUNNER
export "$runner=$ROOT/scripts/cpu.py $costs"
export FROND_FUZZ_SECONDS=${FROND_FUZZ_SECONDS:-1}

# --no-fail-fast: one failing crate must not hide the others.
cargo_test --no-fail-fast 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

awk -v digest="$DIGEST" -v most="$DIGEST_BUDGET" '
    { clock[$1] += $2; cpu[$1] += $3; if ($1 ~ digest) sum += $3 }
    END {
        for (name in cpu) printf "%-20s %7.1f s CPU %7.1f s clock\n", name, cpu[name], clock[name] | "sort -k2,2nr"
        close("sort -k2,2nr")
        printf "the digest: %.1f s CPU of at most %d%s\n", sum, most, (sum > most ? ": over budget" : "")
    }' "$costs"

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
