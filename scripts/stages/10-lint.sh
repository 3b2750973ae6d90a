#!/usr/bin/env bash
#
# Formatting, shellcheck, and tidy: each is one test. Clippy builds the tests, with warnings as errors (stage 05).
#
# CPU budget: 25 s

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh

check_shell() {
    find scripts mariadb bench .ci -type f \( -name '*.sh' -o -path '.ci/run' \) -print0 |
        xargs -0 shellcheck -x
}

check "cargo fmt" cargo fmt --all --check
check "shellcheck" check_shell
check "tidy breaks on what it looks for" /usr/bin/python3 -B scripts/tidy.py --self-test
check "tidy" /usr/bin/python3 -B scripts/tidy.py

printf '%d passed, %d failed\n' "$passed" "$failed"
[[ $failed -eq 0 ]]
