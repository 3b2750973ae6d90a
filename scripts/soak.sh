#!/usr/bin/env bash
#
# The long tests: fresh seeds, round after round, until the time is over. `make soak` runs this.
#
#   HOURS=8 scripts/soak.sh [PART...]    parts: mtr mtr-replication mtr-small mtr-leaves sqllogic sim history serializable
#                                        fuzz fuzz-toolkit differential isolation xa load kill9 alter kill9-binlog
#                                        foreign backup backups kill9-replica kill
#
# mtr (MariaDB's suites with the tests that they call big), mtr-replication (its suites about replication, an hour),
# mtr-small (the suites with 8 MiB of cache and pages of 4 KiB), mtr-leaves (the suites and our SQL tests with leaves of
# 16 KiB) and sqllogic run once, the others in every round, each for a few minutes. fuzz gives each target of fuzz/
# FUZZ_SECONDS of a processor (default 60), fuzz-toolkit each test of the toolkit's parsers FUZZ_ROUNDS inputs (10000).
# A part that began before the end is finished. Each but backups, which is `make backups`, is a stage of `make test` with
# larger numbers, so a failure is repeated with the line that is printed with it.
#
# SLT_DIR is a directory of sqllogictest files (*.test), for instance the test/ of a checkout of SQLite's
# sqllogictest; without it sqllogic runs the small file in tests/sql/sqllogic. SLT_MINUTES bounds it.
#
# Failures are repeated at the end; the last line is "N passed, N failed", and the status 1 if any failed.
# The output of each part is in target/soak.

set -uo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$ROOT" || exit 1

HOURS=${HOURS:-1}
ROUND=1
LOGS=$TARGET/soak
PASSED=0
FAILED=0
FAILURES=()
PART_PID=

trap '[[ -z $PART_PID ]] || kill -TERM "$PART_PID" 2>/dev/null; wait; exit 143' TERM
trap '[[ -z $PART_PID ]] || kill -TERM "$PART_PID" 2>/dev/null; wait; exit 130' INT

# part NAME COMMAND...: runs it and adds its counts; the command is what repeats a failure.
part() {
    local name=$1 log=$LOGS/$ROUND-$1.log status=0 passed failed
    shift
    [[ ${#WANTED[@]} -eq 0 || " ${WANTED[*]} " == *" $name "* ]] || return 0
    [[ $SECONDS -lt $END ]] || return 0
    say "soak: round $ROUND, $name: $*"
    env "$@" >"$log" 2>&1 </dev/null &
    PART_PID=$!
    wait "$PART_PID" || status=$?
    PART_PID=
    read -r passed failed <<<"$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed.*$/\1 \2/p' "$log" | tail -n 1)"
    passed=${passed:-0} failed=${failed:-0}
    # An uncounted error is one failure.
    if [[ $failed -eq 0 && ($status -ne 0 || $passed -eq 0) ]]; then failed=1; fi
    PASSED=$((PASSED + passed))
    FAILED=$((FAILED + failed))
    say "soak: $name: $passed passed, $failed failed"
    [[ $failed -gt 0 ]] || return 0
    grep -E '^(FAILED|DIFFERENCE)' "$log" | head -n 20
    FAILURES+=("round $ROUND, $name, $failed failed ($log): $*")
}

fresh() { od -An -N4 -tu4 /dev/urandom | tr -d ' '; }

WANTED=("$@")
rm -rf "$LOGS"
mkdir -p "$LOGS"
make --no-print-directory plugin >"$LOGS/build.log" 2>&1 || die "the plugin is not built" "see $LOGS/build.log"
cargo build --quiet --release -p frond-sim -p frond-cli || die "the simulator and the tool are not built"

END=$(awk -v now="$SECONDS" -v hours="$HOURS" 'BEGIN { print int(now + hours * 3600) }')
[[ -n ${SLT_DIR:-} ]] || say "soak: SLT_DIR is not set, so sqllogic runs its own small file only"
part sqllogic /usr/bin/python3 -B tests/sql/sqllogic.py --minutes "${SLT_MINUTES:-30}" \
    "${SLT_DIR:-tests/sql/sqllogic}"
part mtr scripts/mtr.sh --big --minutes 90 named foreign storage_engine iuds funcs
part mtr-replication scripts/mtr.sh --minutes 150 replication
part mtr-small scripts/mtr.sh --minutes 60 storage_engine iuds funcs -- --mysqld=--loose-frond-cache-size=8M \
    --mysqld=--loose-frond-default-page-size=4096
# A scan of such leaves prefetches nothing, which the test that is left out expects.
part mtr-leaves FROND_LEAF_BYTES=16384 scripts/mtr.sh --minutes 60 frond storage_engine iuds funcs -- \
    --skip-test=handler_statistics
while [[ $SECONDS -lt $END ]]; do
    seed=$(fresh)
    part sim target/release/frond-sim --first "$seed" --images "${SIM_IMAGES:-500000}" --jobs 2
    part history target/release/frond-history --seed "$seed" --seconds "${HISTORY_SECONDS:-60}" --transactions 1000000
    part serializable target/release/frond-history --seed "$seed" --seconds "${HISTORY_SECONDS:-60}" \
        --transactions 1000000 --serializable
    part fuzz FROND_FUZZ_SEED="$seed" scripts/fuzz.sh "${FUZZ_SECONDS:-60}"
    part fuzz-toolkit FROND_FUZZ_SEED="$seed" scripts/fuzz.sh toolkit "${FUZZ_ROUNDS:-10000}"
    part differential SEED="$seed" DIFFERENTIAL_STATEMENTS="${DIFFERENTIAL_STATEMENTS:-300000}" \
        DIFFERENTIAL_SECONDS=3600 scripts/stages/70-differential.sh
    part isolation SEED="$seed" ISOLATION_SECONDS="${ISOLATION_SECONDS:-180}" \
        ISOLATION_SERIALIZABLE="${ISOLATION_SERIALIZABLE:-100000}" scripts/stages/75-isolation.sh
    part xa SEED="$seed" XA_EPISODES="${XA_EPISODES:-400}" scripts/stages/78-xa.sh
    part load SEED="$seed" LOAD_ROUNDS="${LOAD_ROUNDS:-300}" LOAD_KILLS="${LOAD_KILLS:-100}" scripts/stages/79-load.sh
    part kill9 SEED="$seed" KILL9_CYCLES="${KILL9_CYCLES:-100}" KILL9_SECONDS="${KILL9_SECONDS:-400}" \
        scripts/stages/80-kill9.sh
    part alter SEED="$seed" ALTER_SECONDS="${ALTER_SECONDS:-300}" ALTER_KILLS="${ALTER_KILLS:-200}" \
        scripts/stages/81-alter.sh
    part kill9-binlog SEED="$seed" KILL9_BINLOG_CYCLES="${KILL9_BINLOG_CYCLES:-500}" \
        KILL9_BINLOG_SECONDS="${KILL9_BINLOG_SECONDS:-2400}" scripts/stages/82-kill9-binlog.sh
    part foreign SEED="$seed" FOREIGN_SECONDS="${FOREIGN_SECONDS:-60}" FOREIGN_KILLS="${FOREIGN_KILLS:-60}" \
        scripts/stages/77-foreign.sh
    part backup SEED="$seed" BACKUPS="${BACKUPS:-60}" scripts/stages/83-backup.sh
    part backups /usr/bin/python3 -B tests/sql/backup_soak.py --backups "${BACKUPS:-60}" --kills "${KILLS:-20}" --seed "$seed"
    part kill9-replica SEED="$seed" KILL9_REPLICA_CYCLES="${KILL9_REPLICA_CYCLES:-60}" KILL9_REPLICA_FRESH=20 KILL9_REPLICA_PRIMARY=10 \
        KILL9_REPLICA_SECONDS="${KILL9_REPLICA_SECONDS:-1800}" scripts/stages/84-kill9-replica.sh
    part kill SEED="$seed" KILL_SECONDS="${KILL_SECONDS:-120}" scripts/stages/76-bad-input.sh
    [[ $((PASSED + FAILED)) -gt 0 ]] || die "no part has one of these names: ${WANTED[*]}"
    ROUND=$((ROUND + 1))
    # Parts that run once are no reason to go on.
    [[ ${#WANTED[@]} -eq 0 || " ${WANTED[*]} " =~ \ (sim|history|serializable|fuzz|fuzz-toolkit|differential|isolation|xa|load|kill9|alter|kill9-binlog|foreign|backup|backups|kill9-replica|kill)\  ]] || break
done

[[ ${#FAILURES[@]} -eq 0 ]] || printf 'FAILED %s\n' "${FAILURES[@]}"
printf '%d passed, %d failed\n' "$PASSED" "$FAILED"
[[ $FAILED -eq 0 && $PASSED -gt 0 ]]
