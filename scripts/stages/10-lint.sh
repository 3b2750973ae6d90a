#!/usr/bin/env bash
#
# Formatting, clippy with warnings as errors, the fuzz targets, shellcheck, and tidy: each is one test.
#
# CPU budget: 150 s

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh

check_shell() {
    find scripts mariadb bench .ci -type f \( -name '*.sh' -o -path '.ci/run' \) -print0 |
        xargs -0 shellcheck -x
}

check "cargo fmt" cargo fmt --all --check
check "cargo clippy" cargo clippy --quiet --workspace --all-targets -- -D warnings
# Fuzzing needs a nightly compiler, but checking the code does not; it links nothing, so libFuzzer need not be built.
check "fuzz targets" env CUSTOM_LIBFUZZER_PATH=/none/libfuzzer.a cargo check --quiet --locked --manifest-path fuzz/Cargo.toml \
    --target-dir "${CARGO_TARGET_DIR:-target}" --bins
check "shellcheck" check_shell
check "tidy breaks on what it looks for" /usr/bin/python3 -B scripts/tidy.py --self-test
check "tidy" /usr/bin/python3 -B scripts/tidy.py

printf '%d passed, %d failed\n' "$passed" "$failed"
[[ $failed -eq 0 ]]
