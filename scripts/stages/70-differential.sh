#!/usr/bin/env bash
#
# Random statements on InnoDB and Frond side by side: results, counts, errors and warnings have to agree. Before them
# schedules of two and three sessions: what they see of each other, by rules of its own and against InnoDB.
#
# Each run has a fresh seed, which it prints; SEED=N repeats one, EPISODE=N with the seed of a worker one
# episode only. Two workers, each with a server of its own, have the seeds after it. All workers together have
# to run DIFFERENTIAL_STATEMENTS (default 100000): fewer is a failure; DIFFERENTIAL_SECONDS (default 1200) only
# bounds the run on a machine that is far too slow.
#
# SCHEDULES is how many schedules are run (default 400; they cost about 20 s of one processor); SCHEDULE=N with SEED=N
# repeats one of them.
#
# CPU budget: 115 s

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
# shellcheck source=scripts/common.sh
source scripts/common.sh

SECONDS_MAX=${DIFFERENTIAL_SECONDS:-1200}
STATEMENTS=${DIFFERENTIAL_STATEMENTS:-100000}
SEED=${SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
SEEDS=("$((SEED + 1))" "$((SEED + 2))")
DRIVER=(/usr/bin/python3 -B tests/sql/differential.py)
passed=0
failed=0
logs=$(mktemp -d)
pids=()

# The drivers destroy their servers on SIGTERM.
# shellcheck disable=SC2317  # called by the trap
end() {
    [[ ${#pids[@]} -eq 0 ]] || kill -TERM "${pids[@]}" 2>/dev/null || true
    wait
    rm -rf "$logs"
}
trap end EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

count() { # count STATUS LABEL
    if [[ $1 -eq 0 ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s\n' "$2"
    fi
}

SCHEDULER=(/usr/bin/python3 -B tests/sql/schedules.py)

schedules() {
    # A row is removed from an answer that waited: the rules must notice it.
    "${SCHEDULER[@]}" --seed 1 --canary >"$logs/canary" 2>&1
    if [[ $? -eq 1 ]] && grep -q '^BROKEN' "$logs/canary"; then
        count 0 "canary of the schedules"
        say "the canary of the schedules was noticed"
    else
        cat "$logs/canary"
        count 1 "the canary of the schedules was not noticed"
    fi
    "${SCHEDULER[@]}" --seed "$SEED" --episodes "${SCHEDULES:-400}"
    count $? "schedules of seed $SEED"
}

if [[ -n ${SCHEDULE:-} ]]; then
    "${SCHEDULER[@]}" --seed "$SEED" --episode "$SCHEDULE"
    count $? "schedule $SCHEDULE of seed $SEED"
elif [[ -n ${EPISODE:-} ]]; then
    "${DRIVER[@]}" --seed "$SEED" --episode "$EPISODE"
    count $? "episode $EPISODE of seed $SEED"
else
    schedules
    # A statement is left out on one side: the comparison must notice it.
    "${DRIVER[@]}" --name canary --seed 1 --seconds 60 --canary >"$logs/canary" 2>&1
    if [[ $? -eq 1 ]] && grep -q '^DIFFERENCE' "$logs/canary"; then
        count 0 canary
        say "the canary was noticed"
    else
        cat "$logs/canary"
        count 1 "the canary was not noticed"
    fi
    for worker in $(seq 1 ${#SEEDS[@]}); do
        "${DRIVER[@]}" --name "diff$worker" --seed "${SEEDS[worker - 1]}" --seconds "$SECONDS_MAX" \
            --statements "$(((STATEMENTS + ${#SEEDS[@]} - 1) / ${#SEEDS[@]}))" >"$logs/$worker" 2>&1 &
        pids+=($!)
    done
    for worker in $(seq 1 ${#SEEDS[@]}); do
        status=0
        wait "${pids[worker - 1]}" || status=$?
        cat "$logs/$worker"
        count "$status" "worker $worker"
    done
    pids=()
    total=$(sed -nE 's/^([0-9]+) statements on both engines.*/\1/p' "$logs"/[12] 2>/dev/null | awk '{ n += $1 } END { print n + 0 }')
    printf '%d statements compared, %d wanted\n' "$total" "$STATEMENTS"
    [[ $total -ge $STATEMENTS ]]
    count $? "too few statements"
fi

printf '%d passed, %d failed\n' "$passed" "$failed"
[[ $failed -eq 0 ]]
