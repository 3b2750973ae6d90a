#!/usr/bin/env bash
#
# How fast a replica applies random updates of single rows in a table larger than its cache: InnoDB, Frond, and Frond without
# reading the rows (frond_read_free_replication).
#
#   make bench-replica
#   ROWS=20000 UPDATES=2000 CACHE=16M make bench-replica     a smoke run, half a minute
#
# The primary's updates are in its binary log before a replica begins. Each replica in turn gets the same rows, fetches the
# whole log, and is measured while it applies it: rows a second, processor time of the server, bytes read and written by it.
# Then its table must equal the primary's.
#
# At last a replica that reads no rows follows a primary with the same cache while CONNECTIONS update rows there as fast as they can,
# without waiting for a disk: how far is it behind each second, and how soon is it there when they stop?
#
# Environment
#   REPLICAS  any of innodb,frond,read-free (default all three)
#   ROWS      rows of the table, about 200 bytes each (default 1000000)
#   UPDATES   updates, each a transaction (default 60000)
#   CACHE     bytes of cache of each replica (default 32M)
#   INDEXED   1: the updates change an indexed column, too (default 0)
#   THREADS   slave_parallel_threads, in optimistic mode (default 0)
#   FOLLOW    seconds for which a replica follows a busy primary; 0: not (default 30)
#   CONNECTIONS  of the busy primary (default 4)
#   OUT       where the table goes as Markdown (default target/demo)
#
# With the defaults it takes some minutes.

set -euo pipefail
# shellcheck source=scripts/server.sh
source "$(dirname "${BASH_SOURCE[0]}")/server.sh"

REPLICAS=${REPLICAS:-innodb,frond,read-free}
ROWS=${ROWS:-1000000}
UPDATES=${UPDATES:-60000}
CACHE=${CACHE:-32M}
INDEXED=${INDEXED:-0}
THREADS=${THREADS:-0}
FOLLOW=${FOLLOW:-30}
CONNECTIONS=${CONNECTIONS:-4}
OUT=${OUT:-$TARGET/demo}
[[ $ROWS =~ ^[1-9][0-9]*$ && $UPDATES =~ ^[1-9][0-9]*$ && $FOLLOW =~ ^[0-9]+$ && $CONNECTIONS =~ ^[1-9][0-9]*$ ]] || die "ROWS, UPDATES, FOLLOW and CONNECTIONS are numbers"
PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

sql() { # sql NAME STATEMENT...: the answer without headings
    local name=$1
    shift
    server_sql "$name" --batch --skip-column-names -e "$*"
}

# fill NAME ENGINE: the same rows in each server, and not in its binary log.
fill() {
    sql "$1" "SET SESSION sql_log_bin = 0; CREATE DATABASE bench; CREATE TABLE bench.t (id INT PRIMARY KEY, k INT NOT NULL,
        c CHAR(120) CHARACTER SET latin1 NOT NULL, pad CHAR(60) CHARACTER SET latin1 NOT NULL, KEY (k)) ENGINE=$2"
    local from
    for ((from = 1; from <= ROWS; from += 100000)); do
        sql "$1" "SET SESSION sql_log_bin = 0; INSERT INTO bench.t SELECT seq, CRC32(seq) % 1000000,
            CONCAT(MD5(seq), MD5(seq + 1), MD5(seq + 2)), MD5(seq + 3) FROM bench.seq_${from}_to_$((from + 99999 < ROWS ? from + 99999 : ROWS))"
    done
}

# primary CACHE: with its table filled, and the procedures that update it.
primary() {
    server_start bench-primary --skip-networking=0 --bind-address=127.0.0.1 --port="$PORT" --server-id=1 --log-bin=bin \
        --binlog-format=ROW --sync-binlog=0 --frond-flush-log-at-commit=0 --frond-cache-size="$1" \
        --innodb-buffer-pool-size=16M
    fill bench-primary Frond
    local also=
    [[ $INDEXED == 0 ]] || also=", k = RAND() * 1000000"
    server_sql bench-primary <<SQL
DELIMITER //
CREATE PROCEDURE bench.updates(n INT)
BEGIN
    DECLARE row INT;
    WHILE n > 0 DO
        SET row = 1 + FLOOR(RAND() * $ROWS), n = n - 1;
        UPDATE bench.t SET c = MD5(RAND())$also WHERE id = row;
    END WHILE;
END //
CREATE PROCEDURE bench.updates_for(seconds INT)
BEGIN
    DECLARE end DATETIME(6) DEFAULT SYSDATE(6) + INTERVAL seconds SECOND;
    WHILE SYSDATE(6) < end DO
        CALL bench.updates(100);
    END WHILE;
END //
SQL
}

make_log() {
    primary 256M
    say "the primary updates $UPDATES rows"
    sql bench-primary "RESET MASTER; SET rand_seed1 = 17, rand_seed2 = 42; CALL bench.updates($UPDATES)"
    POSITION=$(sql bench-primary "SELECT @@gtid_binlog_pos")
    CHECKSUM=$(sql bench-primary "CHECKSUM TABLE bench.t EXTENDED")
}

# Processor time in milliseconds; bytes that the server had read from and written to disks.
usage() { # usage PID
    awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print int(($12 + $13) * 1000 / hz) }' "/proc/$1/stat"
    awk '/^read_bytes|^write_bytes/ { print $2 }' "/proc/$1/io"
}

# replica KIND: a server with the same table that knows its primary.
replica() {
    local kind=$1 engine=Frond options=()
    [[ $kind != innodb ]] || engine=InnoDB
    case $kind in
        innodb) options=(--innodb-buffer-pool-size="$CACHE" --innodb-log-file-size=256M --innodb-io-capacity=2000) ;;
        frond) options=(--frond-cache-size="$CACHE" --gtid-pos-auto-engines=Frond) ;;
        read-free)
            options=(--frond-cache-size="$CACHE" --gtid-pos-auto-engines=Frond --frond-read-free-replication=PK)
            ;;
        *) die "REPLICAS: innodb, frond or read-free, not $kind" ;;
    esac
    [[ $kind == innodb ]] || options+=(--innodb-buffer-pool-size=16M)
    say "$kind: filling the table"
    server_start "bench-$kind" --server-id=2 --skip-slave-start --innodb-flush-log-at-trx-commit=2 \
        --frond-flush-log-at-commit=2 --slave-parallel-threads="$THREADS" --slave-parallel-mode=optimistic "${options[@]}"
    fill "bench-$kind" "$engine"
    sql "bench-$kind" "CHANGE MASTER TO master_host = '127.0.0.1', master_port = $PORT, master_user = 'root',
        master_use_gtid = slave_pos"
}

# apply KIND: one replica, measured; adds a line to RESULTS.
apply() {
    local kind=$1 pid before after begin end
    replica "$kind"
    sql "bench-$kind" "START SLAVE IO_THREAD"
    until server_sql "bench-$kind" -e 'SHOW SLAVE STATUS\G' | grep -c "Gtid_IO_Pos: $POSITION$" >/dev/null; do sleep 0.2; done
    pid=$(server_pid "bench-$kind")
    mapfile -t before < <(usage "$pid")
    begin=$(date +%s%N)
    sql "bench-$kind" "START SLAVE SQL_THREAD"
    [[ $(sql "bench-$kind" "SELECT MASTER_GTID_WAIT('$POSITION', 3600)") == 0 ]] ||
        die "$kind does not come to the primary's position" "its log: $(server_log "bench-$kind")"
    end=$(date +%s%N)
    mapfile -t after < <(usage "$pid")
    [[ $(sql "bench-$kind" "CHECKSUM TABLE bench.t EXTENDED") == "$CHECKSUM" ]] || die "$kind has other rows than the primary"
    if [[ $kind == read-free ]]; then
        say "read-free: $(sql "bench-$kind" "SHOW GLOBAL STATUS LIKE 'Frond_read_free%'" | tr '\t\n' ' ;')"
    fi
    server_destroy "bench-$kind"
    RESULTS+=("$kind $(((end - begin) / 1000)) $((after[0] - before[0])) $((after[1] - before[1])) $((after[2] - before[2]))")
}

# How many of the primary's transactions the replica has not committed.
behind() {
    local primary replica
    replica=$(sql bench-read-free "SELECT @@gtid_slave_pos")
    primary=$(sql bench-primary "SELECT @@gtid_binlog_pos")
    primary=${primary##*-}
    replica=${replica##*-}
    echo "$((primary - ${replica:-0}))"
}

# follow: a replica that reads no rows behind a busy primary; sets FOLLOWED.
follow() {
    local pids=() samples=$RUN_DIR/bench-behind most sampler begin end position i
    primary "$CACHE"
    sql bench-primary "RESET MASTER"
    replica read-free
    sql bench-read-free "START SLAVE"
    say "$CONNECTIONS connections update the primary for $FOLLOW s"
    for ((i = 1; i <= CONNECTIONS; i++)); do
        sql bench-primary "SET rand_seed1 = $((i * 7919)), rand_seed2 = $((i * 104729)); CALL bench.updates_for($FOLLOW)" &
        pids+=($!)
    done
    # Beside the wait, so that the time until the replica has all begins with the last update. It ends with the servers.
    while sleep 1 && behind; do :; done >"$samples" 2>/dev/null &
    sampler=$!
    wait "${pids[@]}"
    begin=$(date +%s%N)
    position=$(sql bench-primary "SELECT @@gtid_binlog_pos")
    [[ $(sql bench-read-free "SELECT MASTER_GTID_WAIT('$position', 600)") == 0 ]] || die "the replica does not follow"
    end=$(date +%s%N)
    kill "$sampler" 2>/dev/null || true
    most=$(sort -n "$samples" | tail -n 1)
    [[ $(sql bench-read-free "CHECKSUM TABLE bench.t EXTENDED") == "$(sql bench-primary "CHECKSUM TABLE bench.t EXTENDED")" ]] ||
        die "the replica has other rows than the primary"
    server_destroy bench-read-free
    server_destroy bench-primary
    FOLLOWED="A replica that reads no rows behind a primary with $CONNECTIONS busy connections: $((${position##*-} / FOLLOW)) updates a second, \
at most $most updates behind, and there $(((end - begin) / 1000000)) ms after the last."
}

# Prints RESULTS, with rates over those of the first line.
report() {
    printf '%s\n' "${RESULTS[@]}" | awk -v n="$UPDATES" '
        BEGIN { print "| replica | rows/s | | CPU per row | | read per row | written per row |"
                print "| --- | ---: | ---: | ---: | ---: | ---: | ---: |" }
        NR == 1 { rate = n / $2; cpu = $3 }
        { printf "| %s | %.0f | %.1f x | %.0f us | %.2f x | %.0f B | %.0f B |\n", $1, n / $2 * 1e6, n / $2 / rate,
                 $3 * 1000 / n, $3 / cpu, $4 / n, $5 / n }'
}

server_trap
make --no-print-directory -C "$ROOT" plugin >&2
for name in primary innodb frond read-free; do server_destroy "bench-$name"; done
RESULTS=()
make_log
for kind in ${REPLICAS//,/ }; do apply "$kind"; done
server_destroy bench-primary
FOLLOWED=
((FOLLOW == 0)) || follow
mkdir -p "$OUT"
{
    printf '%s rows, %s updates, cache %s, indexed %s, threads %s\n\n' "$ROWS" "$UPDATES" "$CACHE" "$INDEXED" "$THREADS"
    report
    [[ -z $FOLLOWED ]] || printf '\n%s\n' "$FOLLOWED"
} | tee "$OUT/replica.md"
