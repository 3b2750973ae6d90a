#!/usr/bin/env bash
#
# The inner loop: lint, the messages of new commits, the tests of the packages that changed, one SQL test. `make check`
# runs this.
#
#   scripts/check.sh [PACKAGE...]     these packages instead of those that changed
#
# What changed: commits that the upstream branch lacks (BASE=REVISION: since there; without an upstream: the
# last commit), and the working tree. For each such package its unit tests and its tests/it run, not those of
# packages that depend on it: `make test` does that. With no change the unit tests of all packages run.
#
# At most 5 minutes on two cores when everything unchanged is built. The last line is "N passed, N failed": a
# step is one.

set -uo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT" || exit 1

# Where the change begins.
base=${BASE:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || echo 'HEAD~1')}

# Prints new commits whose message is a title alone (CONTRIBUTING.md).
have_bodies() {
    local commit bare=0
    for commit in $(git rev-list --no-merges "$base..HEAD"); do
        [[ -z $(git log -1 --format=%b "$commit") ]] || continue
        git log -1 --format='%h has no body: %s' "$commit"
        bare=1
    done
    return "$bare"
}

# The names of packages that own a changed file.
changed_packages() {
    local file folder
    { git diff --name-only "$base" -- && git ls-files --others --exclude-standard; } | sort -u |
        while read -r file; do
            folder=$(dirname "$file")
            while [[ $folder != . && ! -f $folder/Cargo.toml ]]; do folder=$(dirname "$folder"); done
            [[ $folder == . ]] ||
                sed -nE 's/^name = "(.*)"$/\1/p' "$folder/Cargo.toml" | head -n 1
        done | sort -u
}

if [[ $# -gt 0 ]]; then packages=("$@"); else mapfile -t packages < <(changed_packages); fi

check "lint" scripts/stages/10-lint.sh
check "clippy" cargo clippy --quiet --workspace --all-targets -- -D warnings
check "messages of commits" have_bodies
export FROND_FUZZ_SECONDS=${FROND_FUZZ_SECONDS:-1}
if [[ ${#packages[@]} -gt 0 ]]; then
    check "tests of ${packages[*]}" cargo test --quiet "${packages[@]/#/--package=}"
else
    check "unit tests of all packages" cargo test --quiet --workspace --lib --bins
fi
check "the plugin" make --no-print-directory plugin
check "one SQL test" scripts/mtr.sh "frond.${SMOKE:-rows}"

printf '%d passed, %d failed\n' "$passed" "$failed"
[[ $failed -eq 0 ]]
