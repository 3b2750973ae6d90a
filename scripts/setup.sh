#!/usr/bin/env bash
#
# Installs what Frond needs on Debian 12. Safe to run again; does nothing when nothing is missing.
#
#   scripts/setup.sh base     compiler and small tools: enough for every `cargo` command
#   scripts/setup.sh server   base + MariaDB, its test suite and its headers: plugin, mtr, demo
#   scripts/setup.sh bench    server + the engines and tools that benchmarks compare with
#   scripts/setup.sh digest   base + what frond digest is compared with
#   scripts/setup.sh apps     server + what the applications of `make test-apps` need
#   scripts/setup.sh all      everything (the default), with the linters and pt-query-digest
#   scripts/setup.sh check    installs nothing; status 1 and a list if something is missing
#
# Why MariaDB is pinned: a storage engine is loaded only by the server version whose headers it was
# compiled with, and those headers (sql/handler.h and below) are in the source package alone. The
# newest server can be ahead of the newest source that a mirror really serves, so the version to
# install is the newest 10.11 whose source package can be downloaded, and all packages get it.
#
# What it changes outside the checkout: installed packages, and nothing else. The source package is
# fetched with a private apt configuration under target/mariadb/apt; no file in /etc/apt is touched.
# No service, of MariaDB or Prometheus, is started or left enabled.
#
# FROND_REPLACE_SERVER=1 allows it to replace a MariaDB or MySQL server that is in use.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

SERIES=10.11
BASE_PACKAGES=(g++ make pkg-config binutils ca-certificates dpkg-dev patch perl xz-utils)
SERVER_PACKAGES=(
    mariadb-server mariadb-server-core mariadb-client mariadb-client-core mariadb-common
    libmariadb3 libmariadb-dev mariadb-test mariadb-test-data
)
# MyRocks and mariadb-backup have the server's version and come in the same transaction.
BENCH_MARIADB_PACKAGES=(mariadb-plugin-rocksdb mariadb-backup)
# The drivers in tests/sql.
DRIVER_PACKAGES=(python3 python3-pymysql)
BENCH_PACKAGES=(sysbench)
# Packages that the tests run: scripts, the C example under valgrind, the manual page.
LINT_PACKAGES=(shellcheck valgrind groff)
# WordPress and MediaWiki.
APPS_PACKAGES=(php-cli php-mysql php-mbstring php-xml php-intl)
# Programs with which `frond digest` is compared, that measure both, that capture its tests'
# traffic, and that open its HTML reports (81 MB to download, and its libraries). Prometheus scrapes
# `frond exporter`, tmux is the terminal of `frond top`, fio measures beside `frond bench device`.
PEER_PACKAGES=(percona-toolkit time tcpdump chromium prometheus tmux fio)

SUDO=()
LEVEL=${1:-all}
APT_DIR=$MARIADB_DIR/apt
POLICY=/usr/sbin/policy-rc.d
POLICY_SAVED=
POLICY_WRITTEN=

# ---------------------------------------------------------------- what is there

missing_packages() { # prints those of "$@" that are not installed
    local p
    for p in "$@"; do
        [[ -n $(package_version "$p") ]] || printf '%s\n' "$p"
    done
}

# True when all of "$@" are installed at one version.
same_version() {
    local p v first=
    for p in "$@"; do
        v=$(package_version "$p")
        [[ -n $v ]] || return 1
        first=${first:-$v}
        [[ $v == "$first" ]] || return 1
    done
}

have_headers() { # have_headers VERSION
    [[ -f $MARIADB_DIR/src-$(upstream_version "$1")/.complete ]]
}

# ---------------------------------------------------------------- apt

require_apt() {
    mkdir -p "$APT_DIR"
    command -v apt-get >/dev/null 2>&1 ||
        die "apt-get is not here: this script installs on Debian 12 only" \
            "elsewhere install by hand: ${BASE_PACKAGES[*]} and MariaDB $SERIES with its source"
}

require_root() {
    [[ $(id -u) -eq 0 ]] && return
    if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
        SUDO=(sudo -n)
    elif command -v sudo >/dev/null 2>&1 && [[ -t 0 ]]; then
        SUDO=(sudo)
    else
        die "packages must be installed, but this is neither root nor a user with sudo" \
            "missing: $*" "run as root: scripts/setup.sh $LEVEL"
    fi
}

UPDATED=
apt_update() {
    [[ -z $UPDATED ]] || return 0
    say "updating the package lists"
    "${SUDO[@]}" apt-get -q -o Acquire::Retries=3 update >"$APT_DIR/update.log" 2>&1 || {
        tail -n 5 "$APT_DIR/update.log" >&2
        die "apt-get update failed: is there a network?" "the whole log: $APT_DIR/update.log"
    }
    UPDATED=1
}

# Packages' maintainer scripts ask policy-rc.d whether they may start a service; 101 means no.
forbid_services() {
    [[ -z $POLICY_WRITTEN ]] || return 0
    if [[ -e $POLICY ]]; then
        POLICY_SAVED=$POLICY.frond-saved
        "${SUDO[@]}" mv "$POLICY" "$POLICY_SAVED"
    fi
    POLICY_WRITTEN=1
    printf '#!/bin/sh\nexit 101\n' | "${SUDO[@]}" tee "$POLICY" >/dev/null
    "${SUDO[@]}" chmod 755 "$POLICY"
}

restore_services() {
    [[ -n $POLICY_WRITTEN ]] || return 0
    "${SUDO[@]}" rm -f "$POLICY"
    [[ -z $POLICY_SAVED ]] || "${SUDO[@]}" mv "$POLICY_SAVED" "$POLICY"
    POLICY_WRITTEN=
}
trap restore_services EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

apt_install() {
    say "installing: $*"
    forbid_services
    "${SUDO[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
        --allow-downgrades -o Acquire::Retries=3 -o Dpkg::Options::=--force-confdef \
        -o Dpkg::Options::=--force-confold install "$@" \
        </dev/null >"$APT_DIR/install.log" 2>&1 || {
        tail -n 15 "$APT_DIR/install.log" >&2
        die "apt-get install failed" "the whole log: $APT_DIR/install.log"
    }
    restore_services
}

install_missing() {
    local missing
    mapfile -t missing < <(missing_packages "$@")
    [[ ${#missing[@]} -gt 0 ]] || return 0
    require_apt
    require_root "${missing[@]}"
    apt_update
    apt_install "${missing[@]}"
}

# ---------------------------------------------------------------- the source package

# apt with lists, cache and sources of its own: needs no root and leaves the system's alone.
private_apt() {
    local tool=$1
    shift
    "$tool" -q -o Dir::Etc::SourceList="$APT_DIR/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State::Lists="$APT_DIR/lists" -o Dir::Cache="$APT_DIR/cache" \
        -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3 "$@"
}

# The archives that offer the server, for binaries and sources, which are kept side by side.
write_private_sources() {
    local keyring=/usr/share/keyrings/debian-archive-keyring.gpg signed=
    [[ ! -f $keyring ]] || signed="[signed-by=$keyring] "
    mkdir -p "$APT_DIR/lists/partial" "$APT_DIR/cache/archives/partial"
    if [[ -z $(apt-cache madison mariadb-server) ]]; then
        # A fresh image comes without package lists.
        require_root "the package lists"
        apt_update
    fi
    apt-cache madison mariadb-server |
        awk -F' *\\| *' '{ split($3, w, " "); split(w[2], s, "/"); print w[1], s[1], s[2] }' |
        sort -u | sed -n "h; s|^|deb $signed|p; g; s|^|deb-src $signed|p" >"$APT_DIR/sources.list"
    [[ -s $APT_DIR/sources.list ]] ||
        die "no configured archive offers mariadb-server" \
            "add Debian 12's main archive to /etc/apt/sources.list and run this again"
    # apt-get update succeeds when nothing could be fetched; what counts is that an index is there.
    private_apt apt-get update >"$APT_DIR/source-update.log" 2>&1 || true
    if [[ -z $(private_apt apt-cache showsrc mariadb 2>/dev/null) ]]; then
        grep -E '^(E|W|Err)' "$APT_DIR/source-update.log" | head -n 5 >&2 || true
        die "the index of the source packages cannot be downloaded: is there a network?" \
            "the whole log: $APT_DIR/source-update.log"
    fi
}

# fetch_source VERSION: downloads the source package, and the package that holds the headers which
# are generated while the server is built (my_config.h, mysqld_error.h; 6 MB, only unpacked: it
# would drag in the embedded server). False when the mirror does not serve either.
fetch_source() {
    mkdir -p "$APT_DIR/source"
    (cd "$APT_DIR/source" &&
        private_apt apt-get source --download-only "mariadb=$1" &&
        private_apt apt-get download "libmariadbd-dev=$1") >"$APT_DIR/source.log" 2>&1
}

# Versions of the series that can be installed, newest first.
offered_versions() {
    apt-cache madison mariadb-server | awk -F' *\\| *' '{ print $2 }' |
        grep -E "^[0-9]+:$SERIES\." | sort -u -rV
}

# Sets VERSION to the newest version whose source package was really downloaded.
choose_version() {
    local v offered
    mapfile -t offered < <(offered_versions)
    [[ ${#offered[@]} -gt 0 ]] || die "no MariaDB $SERIES in the configured archives"
    for v in "${offered[@]}"; do
        if fetch_source "$v"; then
            VERSION=$v
            return
        fi
        say "MariaDB $v: its source package cannot be downloaded, trying the next older one"
    done
    tail -n 5 "$APT_DIR/source.log" >&2
    die "no MariaDB $SERIES source package can be downloaded" \
        "the whole log: $APT_DIR/source.log"
}

# Unpacks the headers: the source tree's, and under generated/ what /usr/include would hold. The
# whole tree is 1 GB and Debian's patches change no header that a plugin sees, which is checked here
# rather than assumed.
unpack_headers() {
    local version=$1 up dir tarball patches deb
    up=$(upstream_version "$version")
    dir=$MARIADB_DIR/src-$up
    tarball=$(find "$APT_DIR/source" -name "mariadb_$up.orig.tar.*" ! -name '*.asc' | head -n 1)
    [[ -n $tarball ]] || die "the source package of $version has no upstream archive"
    say "unpacking the headers of MariaDB $up"
    rm -rf "$dir" "$dir.partial"
    mkdir -p "$dir.partial"
    tar -xf "$tarball" -C "$dir.partial" --strip-components=1 --wildcards \
        '*/VERSION' '*.h' '*.h.in' '*.inl' '*.hpp'
    tarball=$(find "$APT_DIR/source" -name "mariadb_${version#*:}.debian.tar.*" | head -n 1)
    patches=$(tar -xOf "$tarball" --wildcards 'debian/patches/*.patch' |
        grep -E '^\+\+\+ [^ ]*/(include|sql|wsrep-lib)/[^ ]*\.(h|inl|hpp)([[:space:]]|$)' || true)
    [[ -z $patches ]] || die "Debian patches headers of MariaDB $up that are unpacked unpatched:" \
        "$patches" "unpack with dpkg-source -x instead"
    mkdir "$dir.partial/generated"
    cp "$dir.partial/include/probes_mysql_nodtrace.h.in" \
        "$dir.partial/generated/probes_mysql_nodtrace.h"
    # dpkg writes the epoch's colon as %3a in file names.
    deb=$(find "$APT_DIR/source" -name "libmariadbd-dev_*${version#*:}_*.deb" | head -n 1)
    [[ -n $deb ]] || die "the package libmariadbd-dev of $version was not downloaded"
    dpkg-deb --fsys-tarfile "$deb" |
        tar -x -C "$dir.partial/generated" --strip-components=4 ./usr/include/mariadb/server
    touch "$dir.partial/.complete"
    mv "$dir.partial" "$dir"
}

# ---------------------------------------------------------------- levels

check_cargo() {
    command -v cargo >/dev/null 2>&1 ||
        die "cargo is not installed, and Debian 12's is too old" \
            "install a current stable Rust toolchain (https://rustup.rs) and run this again"
    local least have
    least=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml")
    have=$(cargo --version | awk '{ print $2 }')
    [[ $(printf '%s\n' "$least" "$have" | sort -V | head -n 1) == "$least" ]] ||
        die "cargo is of Rust $have, and $least or newer is needed" \
            "update it (rustup update stable) and run this again"
}

setup_base() {
    check_cargo
    install_missing "${BASE_PACKAGES[@]}"
}

# A server in use must not be replaced by another version without notice.
refuse_to_replace_a_used_server() {
    [[ -n ${FROND_REPLACE_SERVER:-} ]] && return
    local unit
    for unit in mariadb mysql; do
        if command -v systemctl >/dev/null 2>&1 && systemctl -q is-active $unit 2>/dev/null; then
            die "$unit.service runs on this machine and would be replaced by MariaDB $VERSION" \
                "stop it first, use another machine, or set FROND_REPLACE_SERVER=1"
        fi
    done
}

# setup_mariadb PACKAGE...: all of them at one version, and the headers of that version.
setup_mariadb() {
    local installed='' was_there spec=() p
    if same_version "$@"; then
        installed=$(package_version "$1")
        if have_headers "$installed"; then
            return
        fi
    fi
    require_apt
    if [[ -n $installed ]]; then
        # A fresh checkout beside an installed server: its own headers are the ones to have.
        write_private_sources
        if fetch_source "$installed"; then
            unpack_headers "$installed"
            return
        fi
        say "the source package of the installed $installed cannot be had: choosing a version"
    fi
    require_root "$@"
    apt_update
    write_private_sources
    VERSION=
    choose_version
    say "MariaDB $VERSION is the newest that can be installed with its source"
    refuse_to_replace_a_used_server
    was_there=$(package_version mariadb-server)
    for p in "$@"; do spec+=("$p=$VERSION"); done
    # Packages that came along earlier at another version would make the solver give up.
    while read -r p; do
        [[ " $* " == *" $p "* ]] || spec+=("$p=$VERSION")
    done < <(installed_siblings)
    apt_install "${spec[@]}"
    if [[ -z $was_there ]] && command -v systemctl >/dev/null 2>&1; then
        # The server must not start at boot.
        "${SUDO[@]}" systemctl -q disable mariadb.service mariadb.socket >/dev/null 2>&1 || true
    fi
    have_headers "$VERSION" || unpack_headers "$VERSION"
}

# Installed binary packages of the source package mariadb.
installed_siblings() {
    dpkg-query -W -f='${db:Status-Status} ${source:Package} ${Architecture} ${binary:Package}\n' |
        awk '$1 == "installed" && $2 == "mariadb" { sub(/:.*/, "", $4); print $4 }' |
        grep -v -x -e mysql-common || true
}

setup_server() {
    setup_base
    setup_mariadb "${SERVER_PACKAGES[@]}"
    install_missing "${DRIVER_PACKAGES[@]}"
}

setup_bench() {
    setup_base
    setup_mariadb "${SERVER_PACKAGES[@]}" "${BENCH_MARIADB_PACKAGES[@]}"
    install_missing "${DRIVER_PACKAGES[@]}" "${BENCH_PACKAGES[@]}"
}

setup_apps() {
    setup_server
    install_missing "${APPS_PACKAGES[@]}"
}

# The package's server would run from the next boot on, for every user of the machine.
setup_peers() {
    local was_there
    was_there=$(package_version prometheus)
    install_missing "${PEER_PACKAGES[@]}"
    if [[ -z $was_there ]] && command -v systemctl >/dev/null 2>&1; then
        "${SUDO[@]}" systemctl -q disable prometheus.service >/dev/null 2>&1 || true
    fi
}

setup_digest() {
    setup_base
    setup_peers
}

setup_all() {
    setup_bench
    # They are run: rustup has a proxy of each also where the component is missing.
    local tool
    for tool in clippy-driver rustfmt; do
        "$tool" --version >/dev/null 2>&1 || rustup component add clippy rustfmt >&2 ||
            die "$tool is not installed" "clippy and rustfmt are parts of Rust's toolchain: rustup component add clippy rustfmt"
    done
    install_missing "${LINT_PACKAGES[@]}"
    setup_peers
}

check_installed() {
    local missing
    check_cargo
    mapfile -t missing < <(missing_packages "${BASE_PACKAGES[@]}" "${SERVER_PACKAGES[@]}" \
        "${DRIVER_PACKAGES[@]}" "${BENCH_MARIADB_PACKAGES[@]}" "${BENCH_PACKAGES[@]}" \
        "${LINT_PACKAGES[@]}" "${PEER_PACKAGES[@]}")
    if [[ ${#missing[@]} -gt 0 ]]; then
        die "not installed: ${missing[*]}" "run: scripts/setup.sh"
    fi
    same_version "${SERVER_PACKAGES[@]}" "${BENCH_MARIADB_PACKAGES[@]}" ||
        die "the MariaDB packages have different versions" "run: scripts/setup.sh server"
    have_headers "$(package_version mariadb-server)" ||
        die "the server's headers are not unpacked" "run: scripts/setup.sh server"
}

main() {
    mkdir -p "$APT_DIR"
    case $LEVEL in
        base | server | bench | digest | apps | all) "setup_$LEVEL" ;;
        check) check_installed ;;
        *) die "unknown level: $LEVEL" "use base, server, bench, digest, apps, all or check" ;;
    esac
    if [[ $LEVEL == base || $LEVEL == digest ]]; then
        say "$LEVEL: ready"
    else
        say "$LEVEL: ready, MariaDB $(package_version mariadb-server)"
    fi
}

main
