#!/usr/bin/env bash
#
# The layout check: proves that a plugin fits the installed server before a server loads it.
#
#   mariadb/layout/check.sh headers VERSION      1 and 4 (CXX and FLAGS as the plugin is compiled): 6 s, so only after changes
#   mariadb/layout/check.sh plugin PLUGIN.so     2 and 3, after every link
#
# MariaDB compares one number, MYSQL_VERSION_ID, when it loads an engine. Everything else that can
# differ (a virtual function added in a distribution's patch, a missing symbol) ends in a crash. So:
#
#  1. MYSQL_VERSION_ID of the headers is that of the installed mariadbd.
#  2. Every symbol that the plugin leaves undefined is defined by mariadbd or by a library that one
#     of the two links.
#  3. The plugin exports the plugin descriptors and the pointers of the services it uses, which the server
#     looks up by name to fill them in; nothing else.
#  4. The virtual tables of `handler` and `Field` in mariadbd have the size, the number of slots and
#     in each slot the function that the headers say.
#
# Not covered: offsets of data members. The release binary does not hold them; equal versions and
# equal configuration headers (1) stand in for them.

set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
SERVER=$(command -v mariadbd) || die "mariadbd is not installed" "run: scripts/setup.sh server"

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

check_version() {
    local major minor patch id
    CXX=${CXX:-g++}
    # A list of words on purpose: it is a compiler's command line.
    read -ra FLAGS <<<"${FLAGS:?the compiler flags of the plugin}"
    IFS=. read -r major minor patch <<<"$VERSION"
    id=$((10#$major * 10000 + 10#$minor * 100 + 10#$patch))
    # -fdump-lang-class writes its dump beside the object file; check 4 reads it.
    if ! "$CXX" "${FLAGS[@]}" -DEXPECTED_VERSION_ID=$id -fdump-lang-class -c \
        -o "$WORK/layout.o" "$HERE/layout.cc" 2>"$WORK/layout.err"; then
        grep -E 'error' "$WORK/layout.err" | head -n 5 >&2
        die "the server's headers do not fit MariaDB $VERSION" "run: scripts/setup.sh server"
    fi
}

# Symbol names defined by a shared object, without their @VERSION.
defined_in() {
    nm -D --defined-only "$1" 2>/dev/null | awk '{ sub(/@.*/, "", $NF); print $NF }'
}

check_symbols() {
    local lib
    nm -D --undefined-only "$PLUGIN" |
        awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | sort -u >"$WORK/wanted"
    {
        defined_in "$SERVER"
        { ldd "$SERVER"; ldd "$PLUGIN"; } |
            awk '$(NF - 1) ~ /^\// { print $(NF - 1) }' | sort -u |
            while read -r lib; do defined_in "$lib"; done
    } | sort -u >"$WORK/offered"
    comm -23 "$WORK/wanted" "$WORK/offered" >"$WORK/missing"
    [[ ! -s $WORK/missing ]] || {
        c++filt <"$WORK/missing" | sed 's/^/       /' >&2
        die "$(wc -l <"$WORK/missing") symbols are not in mariadbd that $PLUGIN needs" \
            "the server would refuse to load it"
    }
}

check_exports() {
    local extra
    extra=$(defined_in "$PLUGIN" |
        grep -v '^_maria_plugin_\|^_maria_sizeof_struct_st_plugin_$\|_service$' || true)
    [[ -z $extra ]] || die "the plugin exports more than its descriptors:" "$extra"
    [[ $(defined_in "$PLUGIN" | grep -c '^_maria_') -eq 3 ]] ||
        die "the plugin does not export its three descriptors" \
            "does a source file hold maria_declare_plugin?"
}

check_vtables() {
    local dump
    dump=$(find "$WORK" . -maxdepth 1 -name 'layout*.class' | head -n 1)
    [[ -n $dump ]] || die "$CXX wrote no class dump: is it g++?"
    readelf -W --dyn-syms "$SERVER" >"$WORK/symbols"
    readelf -W --relocs "$SERVER" >"$WORK/relocations"
    perl "$HERE/vtable.pl" "$dump" "$WORK/symbols" "$WORK/relocations" handler Field
}

case ${1:-} in
    headers)
        VERSION=$2
        cd "$WORK"
        check_version
        vtables=$(check_vtables)
        say "layout check: the headers fit MariaDB $VERSION ($vtables)"
        ;;
    plugin)
        PLUGIN=$2
        check_symbols
        check_exports
        say "layout check: $(basename "$PLUGIN") fits mariadbd ($(wc -l <"$WORK/wanted") symbols found)"
        ;;
    *) die "what is to be checked?" "layout/check.sh headers VERSION, or layout/check.sh plugin PLUGIN.so" ;;
esac
