# shellcheck shell=bash
#
# Sourced by every script here: where things are, how progress and failures are printed.
#
# Invariants
#  CM1. ROOT is the checkout; everything a script creates lies under $ROOT/target or in a
#     temporary directory that an exit trap removes; only a socket whose path would be too long
#     is in /tmp.
#  CM2. Messages go to stderr, results to stdout, so that a caller can capture results.
#  CM3. die() says what is wrong and what to do about it, and leaves with status 1.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
TARGET=$ROOT/target
# shellcheck disable=SC2034  # for the scripts that source this
MARIADB_DIR=$TARGET/mariadb
# What the stages of the tests build, once for all of them: the tests, the tool, the simulator and the example, with
# assertions of debug builds, and with the engine's seeded defects, which are not active unless a test asks for them.
TEST_BUILD=(--workspace --features frond-sim/canary)

# cargo may have been installed for this user only; cron, CI and sudo do not read the profile.
if ! command -v cargo >/dev/null 2>&1 && [[ -x ${HOME:-/root}/.cargo/bin/cargo ]]; then
    PATH=${HOME:-/root}/.cargo/bin:$PATH
fi
# Debian keeps mariadbd in /usr/sbin, which is not in an ordinary user's PATH.
PATH=$PATH:/usr/sbin:/sbin
export PATH

# cargo_test ARGUMENT...: cargo test of that build. clippy's driver compiles it, with warnings as errors: the compiler with lints,
# so that clippy need not analyse every crate a second time. What it makes lacks optimisations before LLVM's; nothing
# that is measured is made so.
cargo_test() {
    RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ \
        cargo test "${TEST_BUILD[@]}" "$@"
}

say() { printf '== %s\n' "$*" >&2; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$1" >&2
    shift
    local hint
    for hint in "$@"; do printf '       %s\n' "$hint" >&2; done
    exit 1
}

# Counts of the script that calls check().
passed=0
failed=0

check() { # check LABEL COMMAND...: one test
    local label=$1 from=$SECONDS
    shift
    say "$label"
    if "$@"; then
        passed=$((passed + 1))
        say "$label: $((SECONDS - from)) s"
    else
        failed=$((failed + 1))
        printf 'FAILED %s\n' "$label"
    fi
}

need_command() { # need_command NAME LEVEL: LEVEL is the part of setup.sh that installs it
    command -v "$1" >/dev/null 2>&1 || die "$1 is not installed" "run: scripts/setup.sh $2"
}

# The version of an installed Debian package, or nothing.
package_version() {
    { dpkg-query -W -f='${db:Status-Status} ${Version}\n' "$1" 2>/dev/null || true; } |
        awk '$1 == "installed" { print $2 }'
}

# 1:10.11.18-0+deb12u1 -> 10.11.18
upstream_version() {
    local v=${1#*:}
    printf '%s\n' "${v%%-*}"
}

# checkout NAME REPOSITORY VARIABLE: prints where another project's files are, cloned into target/samples at the first time.
# They are not ours and not in this tree; VARIABLE is what names a checkout on a machine without a network.
checkout() {
    local to=$TARGET/samples/$1
    if [[ ! -d $to ]]; then
        mkdir -p "$TARGET/samples"
        rm -rf "$to.new"
        git clone --quiet --depth 1 "$2" "$to.new" >&2 || die "cannot clone $2" "name a checkout of it: $3=DIRECTORY"
        mv "$to.new" "$to"
    fi
    printf '%s\n' "$to"
}
