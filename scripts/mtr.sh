#!/usr/bin/env bash
#
# Runs MariaDB's own test suites against a storage engine, and Frond's SQL tests.
#
#   scripts/mtr.sh [options] [SET...] [-- options of mtr]
#
# A SET is one of
#   frond           our SQL tests (mariadb/mysql-test/frond)
#   storage_engine  the server's suite for any engine: base, trx, parts (121 tests)
#   iuds, funcs     engines/iuds (16 tests), engines/funcs (394 tests)
#   versioning, period, vcol, gcol, json, handler, parts, sql_sequence
#                   suites that name InnoDB or MyISAM, with the engine's name instead
#   named           these eight in one call (about 200 tests run, half a minute)
#   foreign         tests of foreign keys from the suites innodb, main and rpl, with the engine's name instead
#   foreign_few     those of them that say most in little time
#   replication     rpl, binlog, multi_source and main's tests of XA with InnoDB's name replaced (about 1000 tests,
#                   an hour of one core); also one of the three suites, or xa
#   serializable    those of them that expect statements in the log of MIXED: at SERIALIZABLE
#   replication-few some of them, for every run of the tests
#   all             frond, storage_engine, named, foreign_few, replication-few, iuds, funcs (the default)
# or a test: frond.create, storage_engine/trx.xa, engines/funcs.ai_init_insert, vcol.update.
#
#   --engine NAME   the engine under test (default Frond; another one proves the harness itself)
#   --parallel N    servers at a time (default: cores)
#   --record        write the results of frond.* tests back to mariadb/mysql-test/frond
#   --accept        write the differences of failing tests to .rdiff files in
#                   mariadb/mysql-test/storage_engine, or .../differences for the suites that name
#                   engines; each says what Frond does differently on purpose, so read it before
#                   committing it
#   --big           also the tests that the suites call big (make soak)
#   --minutes N     bound of one call of mtr (default 20)
#
# The last line of stdout is "N passed, N failed, N skipped"; the status is 1 if any failed.
#
# Invariants
#  MT1. Nothing under /usr/share is written: mtr writes .reject files beside the results, so it runs
#     in a copy of the test tree under target/mtr/<engine>.
#  MT2. A failure that mariadb/mysql-test/deviations does not list fails the run. A listed failure
#     counts as skipped; a listed test that passes is named, so that the list gets shorter.
#  MT3. A run that mtr ended early (time, crash, too many failures) fails, whatever it counted.
#
# Not run: main and others, which use InnoDB or MyISAM by name in nearly every statement.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

ENGINE=Frond
PARALLEL=$(nproc)
MINUTES=20
RECORD=
ACCEPT=
BIG=
SETS=()
EXTRA=()
SUITE_SOURCE=/usr/share/mysql/mysql-test
OURS=$ROOT/mariadb/mysql-test
DEVIATIONS=$OURS/deviations
DIFFERENCES=$OURS/differences
TREE_RULES=("$ROOT/scripts/mtr.sh" "$ROOT/scripts/modernise-results.pl" "$ROOT/scripts/name-engine.pl")
# Suites that name engines in their text.
NAMING=(versioning period vcol gcol json handler parts sql_sequence)
# All suites whose copies are changed.
CHANGED=("${NAMING[@]}" foreign)
# Tests of other suites that make the suite `foreign`: SQL only, no debug server.
FOREIGN_FROM=(
    innodb/{add_foreign_key,fk_col_alter,fk_drop_alter,foreign_key,foreign_key_not_windows,foreign_null}
    innodb/{foreign_sql_mode,innodb-fk,innodb-fk-virtual,innodb-fk-warnings,innodb-fkcheck,innodb-get-fk,stored_fk}
    main/foreign_key rpl/rpl_foreign_key_innodb
)
FOREIGN_FEW=(add_foreign_key fk_col_alter foreign_key_not_windows foreign_sql_mode innodb-fkcheck main_foreign_key stored_fk)
# Suites about replication: only InnoDB's name is replaced, for a MyISAM table is one that cannot be rolled back.
REPLICATION=(rpl binlog multi_source)
# Those for every run of the tests: parallel apply, XA on a replica, images of rows, positions in tables of an engine.
REPLICATION_FEW='^(rpl_parallel_(retry|optimistic_xa|multi_domain_xa|conflicts)|rpl_mdev33798|rpl_temporary_errors|rpl_mdev12179'
REPLICATION_FEW+='|rpl_row_img_(eng_min|blobs)|rpl_gtid_reconnect|rpl_xa_empty_transaction|parallel_backup_xa|multi_parallel)$'
# The same tests once more, for engines that are not under test.
OTHERS='(^|_)(myisam|maria|aria|heap|memory|archive|blackhole)$'

parse_arguments() {
    while [[ $# -gt 0 ]]; do
        case $1 in
            --engine) ENGINE=$2 && shift ;;
            --parallel) PARALLEL=$2 && shift ;;
            --minutes) MINUTES=$2 && shift ;;
            --record) RECORD=1 ;;
            --accept) ACCEPT=1 ;;
            --big) BIG=1 ;;
            --) shift && EXTRA=("$@") && break ;;
            -*) die "unknown option: $1" "the options are at the head of scripts/mtr.sh" ;;
            *) SETS+=("$1") ;;
        esac
        shift
    done
    [[ ${#SETS[@]} -gt 0 ]] || SETS=(all)
    ENGINE_LOWER=${ENGINE,,}
    HOME_DIR=$TARGET/mtr/$ENGINE_LOWER
    TREE=$HOME_DIR/share/mysql/mysql-test
    LOGS=$HOME_DIR/logs
}

# ---------------------------------------------------------------- the test tree

# mtr derives every path from its own location, so the copy has the layout of an installation.
make_tree() {
    local version stamp dir
    # A change of the steps below makes a new copy, as a change of the suites does.
    version="$(package_version mariadb-test-data) $({
        cat "${TREE_RULES[@]}"
        find "$DIFFERENCES" -name '*.rdiff' | sort | xargs cat
    } | cksum)"
    stamp=$HOME_DIR/version
    if [[ ! -f $stamp || $(<"$stamp") != "$version" ]]; then
        rm -rf "$HOME_DIR"
        mkdir -p "$HOME_DIR/share/mysql" "$HOME_DIR/lib"
        ln -s /usr/bin "$HOME_DIR/bin"
        ln -s /usr/sbin "$HOME_DIR/sbin"
        ln -s /usr/lib/mysql "$HOME_DIR/lib/mysql"
        for dir in /usr/share/mysql/*; do
            [[ $dir == "$SUITE_SOURCE" ]] || ln -s "$dir" "$HOME_DIR/share/mysql/"
        done
        cp -r --reflink=auto "$SUITE_SOURCE" "$HOME_DIR/share/mysql/"
        find "$TREE/suite/storage_engine" -name '*.result' \
            -exec "$ROOT/scripts/modernise-results.pl" {} +
        # The same tests once more, with statements in the binary log.
        sed -i '/^\[stmt\]/,/^$/d' "$TREE"/include/{rpl_init,binlog_combinations}.combinations
        make_foreign_suite
        "$ROOT/scripts/name-engine.pl" "$ENGINE" "${CHANGED[@]/#/$TREE/suite/}"
        "$ROOT/scripts/name-engine.pl" --innodb-only "$ENGINE" "${REPLICATION[@]/#/$TREE/suite/}" \
            "$TREE"/main/xa* "$TREE"/include/{rpl_row_img_general_loop.inc,binlog_parallel_replication_marks.test}
        apply_differences
        # The test expects a position table of the engine from the first change of t2 on: t1 is of another engine.
        sed -i 's/^CREATE TABLE t1 (a INT PRIMARY KEY);$/CREATE TABLE t1 (a INT PRIMARY KEY) ENGINE=MyISAM;/' \
            "$TREE"/suite/rpl/{t/rpl_mdev12179.test,r/rpl_mdev12179.result}
        # A waiting statement has another state in the list of processes.
        sed -i "s/state='Sending data' and info LIKE 'INSERT/state LIKE 'Waiting for a row lock%' and info LIKE 'INSERT/" \
            "$TREE/suite/rpl/t/rpl_parallel_autoinc.test"
        sed -i "s/STATE='Searching rows for update'/STATE LIKE 'Waiting for a row lock%'/" "$TREE/main/xa.test"
        # The suite has this result for MyISAM, and for InnoDB by a combination that is not ours.
        sed -i "s/ENGINE=MyISAM/ENGINE=$ENGINE/" "$TREE/suite/engines/funcs/r/rpl_alter.result"
        # A worker that finds warnings at shutdown reports that and ends; this must not end mtr. And
        # the server's note on Frond's maturity at each start is no such warning.
        # shellcheck disable=SC2016  # Perl's variable
        sed -i -e '0,/^\$SIG{HUP}/s//$SIG{PIPE}= sub {};\n&/' \
            -e 's|^ *@global_suppressions,$|&\n     qr/is of maturity level experimental/,|' \
            "$TREE/mariadb-test-run.pl"
        printf '%s\n' "$version" >"$stamp"
    fi
    # mtr finds overlays and a plugin's own suites in mysql-test/plugin/<name>/ only.
    rm -rf "$TREE/plugin/frond"
    find "$TREE/suite/storage_engine" "${CHANGED[@]/#/$TREE/suite/}" -name '*.reject' -delete
    cp -r "$OURS" "$TREE/plugin/frond"
    if [[ $ENGINE != Frond ]]; then
        # Another engine is measured against the suite's own results.
        find "$TREE/plugin/frond" \( -name '*.rdiff' -o -name disabled.def \) -delete
    fi
    mkdir -p "$LOGS"
}

# The suite `foreign`: copies of FOREIGN_FROM. A test of main gets its suite before its name.
make_foreign_suite() {
    local test name from to=$TREE/suite/foreign file
    mkdir -p "$to/t" "$to/r" "$to/include"
    cp "$TREE/suite/innodb/include/wait_all_purged.inc" "$to/include/"
    # Where InnoDB refuses, a metadata lock on the parent makes a statement wait.
    printf -- '--lock-wait-timeout=1\n--loose-%s-lock-wait-timeout=1\n' "$ENGINE_LOWER" >"$to/suite.opt"
    for test in "${FOREIGN_FROM[@]}"; do
        name=${test#*/}
        from=$TREE/suite/${test%%/*}
        case $test in
            main/*)
                cp "$TREE/$test.test" "$to/t/main_$name.test"
                cp "$TREE/$test.result" "$to/r/main_$name.result"
                ;;
            *)
                for file in "$from/t/$name.test" "$from/t/alter_sql_mode.inc"; do
                    [[ ! -f $file ]] || cp "$file" "$to/t/"
                done
                for file in "$from/r/$name".result "$from/r/$name",*.rdiff; do
                    [[ ! -f $file ]] || cp "$file" "$to/r/"
                done
                ;;
        esac
    done
    # Tables with foreign keys are copied, and InnoDB decides some of this by the SQL mode.
    printf '[COPY]\n' | tee "$to/t/foreign_null.combinations" >"$to/t/foreign_sql_mode.combinations"
    printf '[STRICT]\n--sql_mode=STRICT_TRANS_TABLES\n' >"$to/t/alter_sql_mode.combinations"
    # A waiting statement has another state in the list of processes.
    sed -i "s/state *= *'update' and //; s/state='Updating'/info LIKE 'UPDATE%'/" "$to/t/foreign_key.test"
}

# The suites that name engines are no overlays: what Frond does differently is patched into their results.
apply_differences() {
    local file name
    [[ $ENGINE == Frond ]] || return 0
    for file in "$DIFFERENCES"/*/*.rdiff; do
        name=${file#"$DIFFERENCES/"}
        patch --quiet --no-backup-if-mismatch "$(result_file "${name%.rdiff}")" "$file" ||
            die "$file does not fit the installed suites" "see mariadb/mysql-test/README.md"
    done
}

# versioning/select -> the file of its result in the tree: most suites have a directory r for them.
result_file() {
    local file=$TREE/suite/${1%%/*}/r/${1#*/}.result
    [[ -f $file ]] || file=$TREE/suite/$1.result
    printf '%s\n' "$file"
}

# Frond beside the server's own plugins, because plugin-dir is a single directory.
make_plugin_dir() {
    local dir=$HOME_DIR/plugins file
    rm -rf "$dir"
    mkdir -p "$dir"
    for file in /usr/lib/mysql/plugin/*.so; do ln -s "$file" "$dir/"; done
    [[ $ENGINE == Frond ]] || return 0
    [[ -f $MARIADB_DIR/ha_frond.so ]] || die "ha_frond.so is not built" "run: make plugin"
    # A copy: a rebuild during the run must not change what the next restarted server loads.
    cp "$MARIADB_DIR/ha_frond.so" "$dir/"
}

# ---------------------------------------------------------------- running

# Unix socket paths are limited to 107 bytes, and memory spares two thirds of the time: /dev/shm.
make_vardir() {
    local base=${TMPDIR:-/tmp} free
    free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1 || true)
    if [[ -w /dev/shm && ${free:-0} -gt 1500000 ]]; then base=/dev/shm; fi
    VARDIR=$(mktemp -d "$base/frond-mtr-XXXXXX")
}

MTR_PID=
clean_up() {
    if [[ -n $MTR_PID ]] && kill -0 "$MTR_PID" 2>/dev/null; then
        kill -TERM "$MTR_PID" 2>/dev/null || true
        wait "$MTR_PID" 2>/dev/null || true
        end_workers "$MTR_PID"
    fi
    [[ -z ${VARDIR:-} ]] || remove_tree "$VARDIR"
}

# mtr's workers outlive it when it ends early; timeout made all of them one process group. Servers are
# children of supervisors, which end them when their worker is gone.
end_workers() {
    kill -KILL -- "-$1" 2>/dev/null || true
}

# A server that is being ended may write its last file while its directory is removed.
remove_tree() {
    local try
    for try in 1 2 3 4 5; do
        rm -rf "$1" 2>/dev/null && return 0
        sleep "$try"
    done
    rm -rf "$1"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# run_mtr LABEL ARGUMENT...: one call of mtr; its output goes to LOGS/LABEL.log.
run_mtr() {
    local label=$1 log=$LOGS/$1.log status=0 start=$SECONDS
    shift
    local options=(
        --force --max-test-fail=0 --retry=0 --vardir="$VARDIR/v" --parallel="$PARALLEL"
        --testcase-timeout=5 --suite-timeout="$MINUTES" --skip-test-list="$VARDIR/skip"
        # Side effects of a test on the server are no property of an engine, and looking for them
        # costs as much as the tests.
        --nocheck-testcases
        --mysqld=--plugin-dir="$HOME_DIR/plugins" --mysqld=--plugin-maturity=experimental
        # mtr switches optional features off; engines/funcs has partitioned tables.
        --mysqld=--loose-partition
        # Instrumenting every mutex is mtr's default and only slows a test of an engine down.
        --mysqld=--loose-performance-schema=OFF
    )
    case $ENGINE in
        Frond | RocksDB) options+=(--mysqld=--plugin-load-add="ha_$ENGINE_LOWER.so") ;;
        *) options+=(--mysqld="--loose-$ENGINE_LOWER") ;;
    esac
    [[ -z $RECORD ]] || options+=(--record)
    [[ -z $BIG ]] || options+=(--big-test)
    say "mtr: $label with $ENGINE"
    (
        cd "$TREE"
        export ENGINE MTR_BUILD_THREAD=auto
        exec timeout --kill-after=30 "$((MINUTES * 60 + 60))" \
            perl ./mariadb-test-run.pl "${options[@]}" "$@" "${EXTRA[@]}"
    ) >"$log" 2>&1 </dev/null &
    MTR_PID=$!
    wait "$MTR_PID" || status=$?
    end_workers "$MTR_PID"
    MTR_PID=
    judge "$label" "$log" "$status" "$((SECONDS - start))"
    # Only files that explain a failure are kept.
    if [[ -d $VARDIR/v/log ]]; then
        rm -rf "$LOGS/$label.var"
        mkdir -p "$LOGS/$label.var"
        find "$VARDIR/v" -maxdepth 3 -path '*/log/*.err' -size -20M -exec cp -t "$LOGS/$label.var" \
            --backup=numbered {} + 2>/dev/null || true
    fi
    remove_tree "$VARDIR/v"
}

# ---------------------------------------------------------------- the verdict

PASSED=0
FAILED=0
SKIPPED=0

# Lines are "suite-overlay.test 'combination' w1 [ pass ]  123": prints "pass suite.test".
results_of() {
    awk '/\[ (pass|fail|skipped|disabled|retry-fail|exp-fail|warning) \]/ {
        match($0, /\[ [a-z-]+ \]/)
        result = substr($0, RSTART + 2, RLENGTH - 4)
        name = $1
        sub(/-[a-z]+\./, ".", name)
        print result, name
    }' "$1"
}

is_deviation() { # is_deviation TEST KIND
    [[ -f $DEVIATIONS ]] && [[ $ENGINE == Frond ]] &&
        awk -v t="$1" -v k="$2" '$1 == t && $2 == k { found = 1 } END { exit !found }' "$DEVIATIONS"
}

judge() { # judge LABEL LOG STATUS SECONDS
    local label=$1 log=$2 status=$3 seconds=$4 result name known=0
    local passed=0 failed=0 skipped=0
    while read -r result name; do
        case $result in
            pass | warning)
                passed=$((passed + 1))
                if is_deviation "$name" fail; then
                    warn "$name passes now: take it out of mariadb/mysql-test/deviations"
                fi
                ;;
            skipped | disabled) skipped=$((skipped + 1)) ;;
            *)
                if is_deviation "$name" fail; then
                    known=$((known + 1))
                else
                    failed=$((failed + 1))
                    printf 'FAILED %s\n' "$name" >&2
                    grep -F -m 1 -A 24 "CURRENT_TEST: $name" "$log" >&2 || true
                fi
                ;;
        esac
    done < <(results_of "$log")
    if ! grep -qE '^(Completed|The servers were restarted)' "$log" ||
        grep -qE 'Test suite timeout|Too many tests' "$log"; then
        failed=$((failed + 1))
        tail -n 20 "$log" >&2
        printf 'FAILED %s: mtr ended early with status %s\n' "$label" "$status" >&2
    elif [[ $status -ne 0 && $((failed + known)) -eq 0 ]]; then
        # For instance a server that warned or crashed at shutdown, after the last test passed.
        failed=$((failed + 1))
        tail -n 20 "$log" >&2
        printf 'FAILED %s: mtr status %s without a failed test\n' "$label" "$status" >&2
    fi
    PASSED=$((PASSED + passed))
    FAILED=$((FAILED + failed))
    SKIPPED=$((SKIPPED + skipped + known))
    say "mtr: $label: $passed passed, $failed failed, $skipped skipped, $known known deviations," \
        "$seconds s ($log)"
}

# Deviations of kind "skip" are those that would hang or stop the server. Those of kind "serializable" have a call of their own.
write_skip_lists() {
    local kind
    for kind in skip serializable; do
        : >"$VARDIR/$kind"
        [[ -f $DEVIATIONS && $ENGINE == Frond ]] || continue
        awk -v k="$kind" '/^[^#]/ && $2 == k { t = $1; $1 = $2 = ""; print t " : " $0 }' \
            "$DEVIATIONS" >"$VARDIR/$kind"
    done
}

# The storage_engine suites with the overlay mariadb/mysql-test/storage_engine.
overlay() { printf '%s-frond' "$1"; }

run_named() { # run_named LABEL SUITES [OPTION...]
    run_mtr "$1" --suite="$2" --mysqld=--default-storage-engine="$ENGINE" --skip-test="$OTHERS" "${@:3}"
}

# These wait for threads that they find in the performance schema, and use BACKUP STAGE as a lock.
FOR_REPLICATION=(--mysqld=--loose-performance-schema=ON --mysqld=--loose-frond-allow-incomplete-backup=ON)
SERIALIZABLE=--mysqld=--transaction-isolation=SERIALIZABLE
run_replication() { # run_replication LABEL SUITES [OPTION...]
    run_named "$@" "${FOR_REPLICATION[@]}" --skip-test-list="$VARDIR/serializable"
}

# The tests of these suites that expect text in the log of MIXED.
run_serializable() { # run_serializable LABEL PATTERN
    local tests=()
    mapfile -t tests < <(awk -v p="$2" '$1 ~ p { print $1 }' "$VARDIR/serializable")
    [[ ${#tests[@]} -gt 0 ]] || return 0
    run_mtr "$1-serializable" --mysqld=--default-storage-engine="$ENGINE" "${FOR_REPLICATION[@]}" "$SERIALIZABLE" "${tests[@]}"
}

run_set() {
    local suites level
    # engines/* have combinations that would override the default engine; naming one replaces them.
    local engine_option=--combination=--default-storage-engine=$ENGINE
    case $1 in
        all)
            run_set frond
            run_set storage_engine
            run_set named
            run_set foreign_few
            run_set replication-few
            run_mtr engines "$engine_option" --suite=engines/iuds,engines/funcs
            ;;
        frond)
            if compgen -G "$OURS/frond/t/*.test" >/dev/null; then
                run_mtr frond --suite=frond --mysqld=--default-storage-engine="$ENGINE"
            else
                say "mtr: frond: there are no tests yet"
            fi
            ;;
        storage_engine)
            suites=("$(overlay storage_engine)" "$(overlay storage_engine/trx)"
                "$(overlay storage_engine/parts)")
            run_mtr storage_engine --suite="$(IFS=, && printf '%s' "${suites[*]}")"
            ;;
        named) run_named named "$(IFS=, && printf '%s' "${NAMING[*]}")" ;;
        versioning | period | vcol | gcol | json | handler | parts | sql_sequence | foreign) run_named "$1" "$1" ;;
        foreign_few)
            run_mtr foreign_few --mysqld=--default-storage-engine="$ENGINE" "${FOREIGN_FEW[@]/#/foreign.}"
            ;;
        replication)
            run_replication replication "$(IFS=, && printf '%s' "${REPLICATION[*]}")"
            run_replication xa main --do-test='^xa'
            run_set serializable
            ;;
        replication-few)
            run_replication replication-few "$(IFS=, && printf '%s' "${REPLICATION[*]}")" --do-test="$REPLICATION_FEW"
            ;;
        serializable) run_serializable replication . ;;
        xa)
            run_replication xa main --do-test='^xa'
            run_serializable xa '^main\\.xa'
            ;;
        rpl | binlog | multi_source)
            run_replication "$1" "$1"
            run_serializable "$1" "^$1\\\\."
            ;;
        iuds | funcs) run_mtr "$1" "$engine_option" --suite="engines/$1" ;;
        engines/*) run_mtr "${1/\//-}" "$engine_option" "$1" ;;
        storage_engine*.*) run_mtr "${1/\//-}" "$(overlay "${1%%.*}").${1#*.}" ;;
        rpl.* | binlog.* | multi_source.* | main.xa*)
            level=()
            ! is_deviation "$1" serializable || level=("$SERIALIZABLE")
            run_mtr "$1" --mysqld=--default-storage-engine="$ENGINE" "${FOR_REPLICATION[@]}" "${level[@]}" "$1"
            ;;
        *.*) run_mtr "${1/\//-}" --mysqld=--default-storage-engine="$ENGINE" "$1" ;;
        *)
            die "unknown set of tests: $1" \
                "use frond, storage_engine, named, iuds, funcs, all or suite.test"
            ;;
    esac
}

copy_recorded() {
    local file name
    while read -r file; do
        name=${file#"$TREE/plugin/frond/"}
        cmp -s "$file" "$OURS/$name" && continue
        mkdir -p "$(dirname "$OURS/$name")"
        cp "$file" "$OURS/$name"
        say "recorded $name: read it before committing it"
    done < <(find "$TREE/plugin/frond" -name '*.result')
}

# An .rdiff is a patch from the suite's result to ours; mtr applies it before it compares, or
# apply_differences does. The latter starts from the accepted differences. Names of this machine's
# directories are in no result.
accept_differences() {
    local reject base name plain
    for name in "${CHANGED[@]}" "${REPLICATION[@]}"; do
        while read -r reject; do
            base=${reject%.reject}.result
            [[ -f $base ]] || continue
            ! is_deviation "$name.$(basename "$base" .result)" fail || continue
            ! grep -qF -e "$TARGET" -e "$VARDIR" "$reject" || { warn "$reject has paths in it" && continue; }
            name=$name/$(basename "$base" .result)
            plain=$VARDIR/plain.result
            cp "$base" "$plain"
            [[ ! -f $DIFFERENCES/$name.rdiff ]] ||
                patch --quiet --reverse --no-backup-if-mismatch "$plain" "$DIFFERENCES/$name.rdiff"
            mkdir -p "$DIFFERENCES/${name%/*}"
            diff -U1 --label "$name.result" --label "$name.reject" "$plain" "$reject" \
                >"$DIFFERENCES/$name.rdiff" || true
            say "accepted differences/$name.rdiff: read it before committing it"
            name=${name%/*}
        done < <(find "$TREE/suite/$name" -name '*.reject')
    done
    while read -r reject; do
        name=${reject#"$TREE/suite/storage_engine/"}
        name=${name%.reject}
        base=$TREE/suite/storage_engine/$name
        diff -u --label "storage_engine/$name.result" --label "storage_engine/$name.reject" \
            "$base.result" "$reject" >"$OURS/storage_engine/$name.rdiff" || true
        say "accepted $name.rdiff: read it before committing it"
    done < <(find "$TREE/suite/storage_engine" -name '*.reject')
}

main() {
    local set
    parse_arguments "$@"
    [[ -z $ACCEPT || $ENGINE == Frond ]] || die "--accept records what Frond does differently"
    need_command mariadbd server
    need_command patch base
    [[ -d $SUITE_SOURCE ]] || die "the server's test suite is not installed" \
        "run: scripts/setup.sh server"
    mkdir -p "$TARGET/mtr"
    # Two runs with one engine would share a tree; the second waits.
    exec 9>"$TARGET/mtr/$ENGINE_LOWER.lock"
    flock -n 9 || { say "another mtr run with $ENGINE is under way, waiting" && flock 9; }
    make_tree
    make_plugin_dir
    make_vardir
    write_skip_lists
    for set in "${SETS[@]}"; do run_set "$set"; done
    [[ -z $RECORD ]] || copy_recorded
    [[ -z $ACCEPT ]] || accept_differences
    printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
    [[ $FAILED -eq 0 ]]
}

main "$@"
