#!/usr/bin/env bash
#
# The Rust example, and the C example against libfrond.a and libfrond.so, under valgrind too where that is installed.
#
# CPU budget: 50 s

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh

OUT=$TARGET/examples-c
skipped=0

# memcheck checks pointers that C code gave to the library; memory that the library keeps until the
# process ends (thread locals, the allocator's own) is reachable and not an error.
memcheck() {
    timeout 300 valgrind --quiet --error-exitcode=9 --leak-check=full --show-leak-kinds=definite \
        --errors-for-leak-kinds=definite "$@"
}

export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$TARGET}
check "compile the Rust example" cargo_test --quiet --no-run
check "run it" timeout 60 "$CARGO_TARGET_DIR/debug/examples/ledger"
check "build the library" make --no-print-directory -s library
# Silent under make, whose variables would otherwise be inherited.
check "compile the C example" env -u MAKEFLAGS make --no-print-directory -C bindings/c/example OUT="$OUT"
check "run it, linked statically" timeout 60 "$OUT/bank"
check "run it with the shared library" timeout 60 "$OUT/bank-shared"
if command -v valgrind >/dev/null 2>&1; then
    check "run it under valgrind" memcheck "$OUT/bank"
else
    skipped=$((skipped + 1))
    say "valgrind is not installed: that run is skipped"
fi

printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[[ $failed -eq 0 ]]
