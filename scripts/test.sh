#!/usr/bin/env bash
#
# The whole test suite, in numbered stages. `make test` and CI run this.
#
#   scripts/test.sh              every stage
#   scripts/test.sh 20 30        only the stages whose number begins so
#   scripts/test.sh --list       names the stages
#
# A stage is an executable file scripts/stages/NN-name.sh. It runs from the root of the checkout,
# says what it does on stderr or stdout, and prints as its last line of stdout
#
#     N passed, N failed            optionally: , N skipped
#
# and its head has its budget in CPU seconds (user + system, all its processes):
#
#     # CPU budget: 60 s
#
# To add a stage, add a file; the number gives the order. A stage that ends with a status other than
# 0, or without that line, or with nothing executed, has failed, whatever it counted.
#
# The cost of each stage is printed: elapsed and CPU seconds, and the latter's share and budget. Stages
# before 10 build; what follows them has to stay below 30 minutes of a processor, with them below 45
# (CONTRIBUTING.md). A stage above its budget is named but does not fail: processors differ.
#
# A failing stage does not stop those after it, except that 00 (setup) must succeed. The totals are
# the last line. STAGE_MINUTES bounds one stage (default 45): a hanging test must end as a failure
# with a name, before CI ends everything without one.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

STAGES=$ROOT/scripts/stages
# The tool that stages run: that of the tests' build.
export FROND=${FROND:-${CARGO_TARGET_DIR:-$TARGET}/debug/frond}
LOGS=$TARGET/test-logs
STAGE_MINUTES=${STAGE_MINUTES:-45}

PASSED=0
FAILED=0
SKIPPED=0
SUMMARY=()
VERDICTS=()
# CPU seconds by stage, in the order of SUMMARY.
COSTS=()
BUDGETS=()
BUILD_MINUTES=45
TEST_MINUTES=30
STAGE_PID=
TEE_PID=

# A process that a stage left behind would keep the pipe open for ever: wait at most five seconds.
end_tee() {
    local i
    for ((i = 0; i < 50; i++)); do
        kill -0 "$TEE_PID" 2>/dev/null || break
        sleep 0.1
    done
    if kill "$TEE_PID" 2>/dev/null; then
        warn "the stage left a process behind that holds its output"
    fi
    wait "$TEE_PID" 2>/dev/null || true
}

# Signals go to the stage, whose own traps stop what it started.
forward() {
    if [[ -n $STAGE_PID ]]; then
        kill -TERM "$STAGE_PID" 2>/dev/null || true
        wait "$STAGE_PID" 2>/dev/null || true
    fi
    exit "$1"
}
trap 'forward 130' INT
trap 'forward 143' TERM

# The stage's last counting line, as "passed failed skipped"; nothing when there is none.
counts_of() {
    sed -nE 's/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 0\4/p' "$1" | tail -n 1
}

# A stage's budget in CPU seconds; nothing when it has none.
budget_of() {
    sed -nE '2,20s/^# CPU budget: ([0-9]+) s.*$/\1/p' "$1" | head -n 1
}

# One line for each stage, then the sums. An unknown cost (the stage was killed) counts as 0.
print_costs() {
    local i
    for ((i = 0; i < ${#SUMMARY[@]}; i++)); do
        printf '%s|%s|%s|%s\n' "${SUMMARY[i]}" "${COSTS[i]:-0}" "${BUDGETS[i]:-0}" "${VERDICTS[i]}"
    done | awk -F '|' -v most_build="$BUILD_MINUTES" -v most_test="$TEST_MINUTES" '
        { line[NR] = $1; cpu[NR] = $2; budget[NR] = $3; verdict[NR] = $4; total += $2 }
        $1 !~ /^0/ { tests += $2 }
        END {
            for (i = 1; i <= NR; i++) {
                printf "%s %7.1f s CPU %3.0f %%, budget %4d s  %s\n", line[i], cpu[i],
                    total ? 100 * cpu[i] / total : 0, budget[i], verdict[i]
            }
            printf "\nCPU: %.1f minutes (at most %d), %.1f of them behind the build (at most %d)\n",
                total / 60, most_build, tests / 60, most_test
            for (i = 1; i <= NR; i++) {
                split(line[i], name, " ")
                if (!budget[i]) printf "over budget: %s states none\n", name[1]
                else if (cpu[i] > budget[i]) printf "over budget: %s, %.0f s of %d\n", name[1], cpu[i], budget[i]
            }
            if (tests > 60 * most_test) print "over budget: all stages behind the build together"
            if (total > 60 * most_build) print "over budget: all stages together"
        }'
}

# What a failed stage said of its failures, again behind all stages: CI may keep the end of the output alone.
print_failures() {
    local i name
    for ((i = 0; i < ${#SUMMARY[@]}; i++)); do
        [[ ${VERDICTS[i]} != ok ]] || continue
        name=${SUMMARY[i]%% *}
        printf '\n'
        say "failed: $name, ${VERDICTS[i]}"
        [[ -f $LOGS/$name.log ]] || continue
        {
            grep -E -A 12 '^(FAILED|BROKEN|DIFFERENCE|not ok|FAIL[: ]|error(\[|:)|thread .* panicked|---- )' "$LOGS/$name.log" ||
                tail -n 30 "$LOGS/$name.log"
        } | head -n 60 | cut -c 1-300
    done
}

run_stage() {
    local file=$1 name log status=0 start=$SECONDS counts passed failed skipped verdict
    name=$(basename "$file" .sh)
    log=$LOGS/$name.log
    say "stage $name"
    # tee shows the output while it is made and keeps it. A named pipe, because both the stage's
    # status and the end of tee are needed: the log has to be complete before it is read.
    rm -f "$LOGS/pipe" "$LOGS/$name.cpu"
    mkfifo "$LOGS/pipe"
    tee "$log" <"$LOGS/pipe" &
    TEE_PID=$!
    timeout --kill-after=60 "$((STAGE_MINUTES * 60))" "$ROOT/scripts/cpu.py" "$LOGS/$name.cpu" "$file" </dev/null >"$LOGS/pipe" 2>&1 &
    STAGE_PID=$!
    wait "$STAGE_PID" || status=$?
    STAGE_PID=
    end_tee
    counts=$(counts_of "$log")
    read -r passed failed skipped <<<"${counts:-0 0 0}"
    passed=$((10#$passed)) failed=$((10#$failed)) skipped=$((10#$skipped))
    verdict=ok
    if [[ $status -eq 124 ]]; then
        verdict="ended after $STAGE_MINUTES minutes"
    elif [[ -z $counts ]]; then
        verdict="status $status, printed no 'N passed, N failed'"
    elif [[ $failed -gt 0 ]]; then
        verdict="$failed failed"
    elif [[ $status -ne 0 ]]; then
        verdict="status $status"
    elif [[ $((passed + skipped)) -eq 0 ]]; then
        verdict="executed nothing"
    fi
    # An uncounted error is one failure.
    if [[ $verdict != ok && $failed -eq 0 ]]; then failed=1; fi
    PASSED=$((PASSED + passed))
    FAILED=$((FAILED + failed))
    SKIPPED=$((SKIPPED + skipped))
    SUMMARY+=("$(printf '%-16s %6d passed %3d failed %3d skipped %5d s clock' \
        "$name" "$passed" "$failed" "$skipped" "$((SECONDS - start))")")
    VERDICTS+=("$verdict")
    COSTS+=("$(awk '{ print $3 }' "$LOGS/$name.cpu" 2>/dev/null || true)")
    BUDGETS+=("$(budget_of "$file")")
    [[ $verdict == ok ]]
}

wanted() { # wanted NAME PREFIX...: true when there is no prefix, or one fits
    local name=$1 prefix
    shift
    [[ $# -gt 0 ]] || return 0
    for prefix in "$@"; do
        [[ $name == "$prefix"* ]] && return 0
    done
    return 1
}

main() {
    local file name
    mkdir -p "$LOGS"
    for file in "$STAGES"/[0-9][0-9]-*.sh; do
        name=$(basename "$file" .sh)
        if [[ ${1:-} == --list ]]; then
            printf '%-24s %s\n' "$name" "$(sed -n '3s/^# //p' "$file")"
            continue
        fi
        wanted "$name" "$@" || continue
        if [[ ! -x $file ]]; then
            FAILED=$((FAILED + 1))
            SUMMARY+=("$(printf '%-16s' "$name")")
            COSTS+=(0) BUDGETS+=(1) VERDICTS+=("is not executable")
            continue
        fi
        if ! run_stage "$file" && [[ $name == 00-* ]]; then
            warn "the stages after $name cannot run"
            break
        fi
    done
    [[ ${1:-} != --list ]] || return 0
    [[ ${#SUMMARY[@]} -gt 0 ]] || die "no stage fits: $*" "scripts/test.sh --list names them"
    print_failures
    printf '\n'
    print_costs
    printf '\n%d seconds; the output of each stage is in target/test-logs\n' "$SECONDS"
    printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
    [[ $FAILED -eq 0 ]]
}

cd "$ROOT"
main "$@"
