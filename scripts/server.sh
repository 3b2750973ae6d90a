#!/usr/bin/env bash
#
# Private MariaDB servers for tests, demonstrations and benchmarks. Sourced or run.
#
#   scripts/server.sh start NAME [mariadbd options]    initialise when new, start, wait
#   scripts/server.sh stop NAME | kill NAME            orderly with a time bound | kill -9
#   scripts/server.sh destroy NAME                     stop and remove its directory
#   scripts/server.sh sql NAME [client options]        the mariadb client on its socket
#   scripts/server.sh cnf NAME | socket NAME | pid NAME | log NAME | list
#   scripts/server.sh run NAME [mariadbd options] -- COMMAND...
#       starts a server with an empty data directory, runs COMMAND with FROND_SOCKET and FROND_NAME
#       set, then destroys it however COMMAND ended. Its status is COMMAND's.
#
# Sourced, the functions are server_start, server_stop, ... with the same arguments; a script that
# sources this calls `server_trap` once to have its servers destroyed when it exits or is
# interrupted.
#
# Environment
#   SERVER_PLUGINS        plugins to load: names in target/mariadb or in the system's plugin
#                         directory, or paths (default: ha_frond.so; empty: none)
#   SERVER_START_TIMEOUT  seconds until a started server has to answer (default 60)
#   SERVER_STOP_TIMEOUT   seconds for an orderly stop before kill -9 (default 60)
#
# Invariants
#  SE1. A server listens on a Unix socket only and lives in target/run/NAME: data, socket, cnf, log.
#     Nothing of a system-wide MariaDB is read or written.
#  SE2. A process is signalled by its id, and only after /proc says that it is the mariadbd of this
#     NAME: ids are reused.
#  SE3. Two calls with one NAME cannot start two servers; different NAMEs never meet.
#  SE4. server_start returns 0 only when the server answers; otherwise it shows the end of the log.

# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

RUN_DIR=$TARGET/run
SERVER_STARTED=() # names this process started, for the exit trap

# ---------------------------------------------------------------- names and places

server_dir() { printf '%s/%s\n' "$RUN_DIR" "$1"; }
server_log() { printf '%s/error.log\n' "$(server_dir "$1")"; }
server_cnf_path() { printf '%s/my.cnf\n' "$(server_dir "$1")"; }
server_cnf() { cat "$(server_cnf_path "$1")"; }

# The kernel limits a socket's path to 107 bytes; deep checkouts get a short one in /tmp.
server_socket() {
    local path
    path=$(server_dir "$1")/mysqld.sock
    if [[ ${#path} -gt 100 ]]; then
        path=/tmp/frond-$(id -u)-$(printf '%s' "$path" | cksum | cut -d ' ' -f 1).sock
    fi
    printf '%s\n' "$path"
}

# The process id of the running server of this name; status 1 when there is none (SE2).
server_pid() {
    local pid file
    file=$(server_dir "$1")/pid
    [[ -s $file ]] || return 1
    pid=$(<"$file")
    server_is_process "$pid" "$1" || return 1
    printf '%s\n' "$pid"
}

server_is_process() { # server_is_process PID NAME
    # Without other programs: starting and stopping ask this twenty times a second.
    local state words word file
    file=$(server_cnf_path "$2")
    # The process may end between these lines: so the redirections are inside the silenced blocks.
    { read -r state <"/proc/$1/stat"; } 2>/dev/null || return 1
    state=${state##*) }
    # A zombie keeps its directory in /proc but has ended.
    [[ ${state%% *} != Z ]] || return 1
    { mapfile -d '' -t words <"/proc/$1/cmdline"; } 2>/dev/null || return 1
    for word in "${words[@]}"; do
        [[ $word != "--defaults-file=$file" ]] || return 0
    done
    return 1
}

server_check_name() {
    [[ $1 =~ ^[A-Za-z0-9][A-Za-z0-9._-]*$ ]] || die "not a name for a server: $1"
}

# ---------------------------------------------------------------- initialising

# mariadb-install-db takes seconds; its result is the same each time and is copied from a template.
server_template() {
    local version dir
    version=$("$ROOT/scripts/server-version.sh")
    [[ -n $version ]] || die "no MariaDB server is installed" "run: scripts/setup.sh server"
    dir=$MARIADB_DIR/datadir-$version
    if [[ ! -f $dir/.complete ]]; then
        mkdir -p "$MARIADB_DIR"
        (
            flock 8
            [[ ! -f $dir/.complete ]] || exit 0
            rm -rf "$dir"
            # A small redo log: the template is copied often. --innodb-log-file-size resizes it. A temporary
            # directory of its own: a server deletes what it finds there, even of another one that runs.
            TMPDIR="$MARIADB_DIR" mariadb-install-db --no-defaults --datadir="$dir" --skip-test-db \
                --auth-root-authentication-method=normal --innodb-log-file-size=8M \
                --innodb-buffer-pool-size=16M ${SERVER_USER:+--user=$SERVER_USER} \
                >"$MARIADB_DIR/install-db.log" 2>&1 8>&- || exit 1
            touch "$dir/.complete"
        ) 8>"$MARIADB_DIR/datadir.lock" || {
            tail -n 20 "$MARIADB_DIR/install-db.log" >&2
            die "mariadb-install-db failed" "the whole log: $MARIADB_DIR/install-db.log"
        }
    fi
    printf '%s\n' "$dir"
}

# Links the wanted plugins into one directory, because plugin-dir is a single one, and prints their
# file names separated by ";". The system's own are all there, for INSTALL SONAME.
server_plugins() {
    local dir=$1/plugins plugin file names=()
    rm -rf "$dir"
    mkdir -p "$dir"
    ! compgen -G '/usr/lib/mysql/plugin/*.so' >/dev/null || ln -s /usr/lib/mysql/plugin/*.so "$dir/"
    for plugin in ${SERVER_PLUGINS-ha_frond.so}; do
        file=$plugin
        if [[ $plugin != */* ]]; then
            file=$MARIADB_DIR/$plugin
            [[ -e $file ]] || file=/usr/lib/mysql/plugin/$plugin
        fi
        [[ -e $file ]] ||
            die "the plugin $plugin is neither built nor installed" "run: make plugin"
        ln -sf "$(realpath "$file")" "$dir/$(basename "$plugin")"
        names+=("$(basename "$plugin")")
    done
    (IFS=';' && printf '%s\n' "${names[*]-}")
}

server_write_cnf() { # server_write_cnf NAME
    local dir plugins
    dir=$(server_dir "$1")
    plugins=$(server_plugins "$dir")
    {
        printf '# Written by scripts/server.sh; options of the command line come after these.\n'
        printf '[mariadbd]\n'
        printf '%s\n' "datadir=$dir/data" "socket=$(server_socket "$1")" \
            "pid-file=$dir/mysqld.pid" "log-error=$dir/error.log" "tmpdir=$dir/tmp" skip-networking skip-name-resolve \
            "plugin-dir=$dir/plugins" plugin-maturity=experimental \
            character-set-server=utf8mb4 max-connections=500
        # plugin-load-add, never INSTALL SONAME: an engine with two-phase commit has to be there
        # when the server chooses its transaction coordinator.
        [[ -z $plugins ]] || printf 'plugin-load-add=%s\n' "$plugins"
        [[ -z $SERVER_USER ]] || printf 'user=%s\n' "$SERVER_USER"
        printf '\n[client]\nuser=root\nsocket=%s\n' "$(server_socket "$1")"
    } >"$(server_cnf_path "$1")"
}

# ---------------------------------------------------------------- starting

server_start() {
    local name=$1 dir pid lock
    shift
    server_check_name "$name"
    need_command mariadbd server
    need_command mariadb-install-db server
    dir=$(server_dir "$name")
    mkdir -p "$dir/tmp"
    exec {lock}>"$dir/lock"
    flock "$lock"
    if pid=$(server_pid "$name"); then
        exec {lock}>&-
        die "the server $name already runs with process id $pid" \
            "stop it with: scripts/server.sh stop $name"
    fi
    if [[ ! -d $dir/data ]]; then
        local template
        template=$(server_template)
        rm -rf "$dir/data.new"
        cp -r --reflink=auto "$template" "$dir/data.new"
        rm -f "$dir/data.new/.complete"
        mv "$dir/data.new" "$dir/data"
    fi
    server_write_cnf "$name"
    SERVER_STARTED+=("$name")
    # The lock's descriptor is closed in the server: it would hold the lock for its whole life.
    mariadbd --defaults-file="$(server_cnf_path "$name")" "$@" \
        </dev/null >>"$dir/error.log" 2>&1 {lock}>&- &
    pid=$!
    printf '%s\n' "$pid" >"$dir/pid"
    disown "$pid" 2>/dev/null || true
    exec {lock}>&-
    server_wait "$name" "$pid"
}

# Waits until the server answers. A server that has ended is noticed at once.
server_wait() { # server_wait NAME PID
    local deadline=$((SECONDS + ${SERVER_START_TIMEOUT:-60})) problem
    # The first check of /proc must not come before exec has replaced this shell's copy.
    local settled=$((SECONDS + 2))
    local socket
    socket=$(server_socket "$1")
    until [[ -S $socket ]] && mariadb-admin --defaults-file="$(server_cnf_path "$1")" --connect-timeout=2 ping \
        >/dev/null 2>&1; do
        problem=
        if ! server_is_process "$2" "$1"; then
            if [[ ! -d /proc/$2 || $SECONDS -gt $settled ]]; then problem="ended while starting"; fi
        elif [[ $SECONDS -ge $deadline ]]; then
            problem="does not answer after ${SERVER_START_TIMEOUT:-60} s"
        fi
        if [[ -n $problem ]]; then
            tail -n 25 "$(server_log "$1")" >&2
            warn "the server $1 $problem; the whole log: $(server_log "$1")"
            server_kill "$1"
            return 1
        fi
        sleep 0.05
    done
}

# ---------------------------------------------------------------- stopping

server_gone() { # server_gone NAME PID SECONDS: true when the process has ended in time
    local deadline=$((SECONDS + $3))
    while server_is_process "$2" "$1"; do
        [[ $SECONDS -lt $deadline ]] || return 1
        sleep 0.05
    done
}

server_stop() {
    local pid name=$1
    pid=$(server_pid "$name") || {
        rm -f "$(server_dir "$name")/pid"
        return 0
    }
    kill -TERM "$pid" 2>/dev/null || true
    if ! server_gone "$name" "$pid" "${SERVER_STOP_TIMEOUT:-60}"; then
        tail -n 10 "$(server_log "$name")" >&2
        warn "the server $name did not stop in ${SERVER_STOP_TIMEOUT:-60} s and was killed"
        server_kill "$name"
        return 1
    fi
    rm -f "$(server_dir "$name")/pid" "$(server_socket "$name")"
}

# kill -9, like a crash of the process: the crash tests call it, too.
server_kill() {
    local pid name=$1
    if pid=$(server_pid "$name"); then
        kill -KILL "$pid" 2>/dev/null || true
        server_gone "$name" "$pid" 30 || die "process $pid survives kill -9"
    fi
    rm -f "$(server_dir "$name")/pid" "$(server_socket "$name")"
}

server_destroy() {
    server_check_name "$1"
    server_kill "$1"
    rm -rf "$(server_dir "$1")"
}

server_sql() {
    local name=$1
    shift
    mariadb --defaults-file="$(server_cnf_path "$name")" "$@"
}

server_list() {
    local dir name pid
    for dir in "$RUN_DIR"/*/; do
        [[ -d $dir ]] || continue
        name=$(basename "$dir")
        if pid=$(server_pid "$name"); then
            printf '%s\trunning\t%s\n' "$name" "$pid"
        else
            printf '%s\tstopped\n' "$name"
        fi
    done
}

# ---------------------------------------------------------------- traps

SERVER_COMMAND= # process id of what server_run runs

server_end_command() {
    [[ -z $SERVER_COMMAND ]] || kill -TERM "$SERVER_COMMAND" 2>/dev/null || true
    SERVER_COMMAND=
}

server_destroy_started() {
    local name
    for name in "${SERVER_STARTED[@]-}"; do
        [[ -z $name ]] || server_destroy "$name"
    done
    SERVER_STARTED=()
}

# For scripts: an exit, an error or a signal leaves no server behind. KEEP_SERVERS=1 keeps them.
server_trap() {
    trap 'server_end_command; [[ -n ${KEEP_SERVERS:-} ]] || server_destroy_started' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
}

# mariadbd refuses to run as root unless told to.
SERVER_USER=
[[ $(id -u) -ne 0 ]] || SERVER_USER=root

# ---------------------------------------------------------------- the command

server_run() {
    local name=$1 options=()
    shift
    while [[ $# -gt 0 && $1 != -- ]]; do
        options+=("$1")
        shift
    done
    [[ $# -gt 1 ]] || die "run NAME [options] -- COMMAND..."
    shift
    server_trap
    server_destroy "$name"
    server_start "$name" "${options[@]}" || return 1
    local status=0
    # In the background and waited for, so that a signal reaches the trap while COMMAND runs.
    FROND_SOCKET=$(server_socket "$name") FROND_NAME=$name "$@" <&0 &
    SERVER_COMMAND=$!
    wait "$SERVER_COMMAND" || status=$?
    SERVER_COMMAND=
    return "$status"
}

server_main() {
    local command=${1:-}
    [[ $# -ge 1 ]] || die "no command" "the commands are at the head of scripts/server.sh"
    shift
    [[ $command == list || $# -ge 1 ]] || die "$command: which server?"
    case $command in
        start | stop | kill | destroy | sql | cnf | socket | pid | log | list | run)
            "server_$command" "$@"
            ;;
        *) die "unknown command: $command" "the commands are at the head of scripts/server.sh" ;;
    esac
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    set -euo pipefail
    server_main "$@"
fi
