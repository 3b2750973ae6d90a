# shellcheck shell=bash
#
# Sourced after common.sh by the benchmark scripts (demo.sh, oltp.sh): builds what they run.
#
# Invariants
#  BC1. A Frond that does not build is a warning here: the driver then says that Frond was skipped, the
#     other engines are still measured, and its exit status says that Frond is missing.

# The driver's binary, set by bench_build.
FROND_DEMO=

# What renders the chart, and its fonts; without them the run goes on, without its PNG.
bench_picture() {
    local packages=(librsvg2-bin fonts-dejavu-core) sudo=()
    dpkg-query -W -f '${Status}\n' "${packages[@]}" 2>/dev/null | grep -c "ok installed" | grep -qx 2 && return 0
    if [[ $(id -u) -ne 0 ]]; then
        command -v sudo >/dev/null 2>&1 || {
            warn "the packages ${packages[*]} are missing: there will be no PNG"
            return 0
        }
        sudo=(sudo)
    fi
    say "installing ${packages[*]}"
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install \
        "${packages[@]}" </dev/null >/dev/null 2>&1 ||
        warn "${packages[*]} cannot be installed: there will be no PNG"
}

# bench_build ENGINES: the driver, and the plugin when ENGINES names frond.
bench_build() {
    if [[ ",${1,,}," == *,frond,* ]]; then
        say "building the plugin"
        make --no-print-directory -C "$ROOT" plugin >&2 ||
            warn "the plugin does not build: Frond will be left out"
    fi
    say "building the driver"
    cargo build --quiet --manifest-path "$ROOT/Cargo.toml" -p frond-demo
    # shellcheck disable=SC2034 # used by the script that sources this
    FROND_DEMO=${CARGO_TARGET_DIR:-$TARGET}/debug/frond-demo
}
