# shellcheck shell=bash
#
# Sourced after common.sh by the benchmark scripts (demo.sh, oltp.sh): builds what they run.
#
# Invariants
#  BC1. A Frond that does not build is a warning here: the driver then says that Frond was skipped, the
#     other engines are still measured, and its exit status says that Frond is missing.

# The driver's binary, set by bench_build.
FROND_DEMO=

# The fonts of the chart; without them the run goes on, without its PNG.
bench_fonts() {
    [[ ! -f /usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf ]] || return 0
    local sudo=()
    if [[ $(id -u) -ne 0 ]]; then
        command -v sudo >/dev/null 2>&1 || {
            warn "the package fonts-dejavu-core is missing: there will be no PNG"
            return 0
        }
        sudo=(sudo)
    fi
    say "installing fonts-dejavu-core"
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install \
        fonts-dejavu-core </dev/null >/dev/null 2>&1 ||
        warn "fonts-dejavu-core cannot be installed: there will be no PNG"
}

# bench_build ENGINES: the driver, and the plugin when ENGINES names frond.
bench_build() {
    if [[ ",${1,,}," == *,frond,* ]]; then
        say "building the plugin"
        make --no-print-directory -C "$ROOT" plugin >&2 ||
            warn "the plugin does not build: Frond will be left out"
    fi
    say "building the driver"
    # Unoptimised: optimising its SVG renderer takes longer than a run, and the driver mostly waits.
    CARGO_PROFILE_DEV_OPT_LEVEL=0 CARGO_PROFILE_DEV_DEBUG=0 \
        cargo build --quiet --manifest-path "$ROOT/Cargo.toml" -p frond-demo
    # shellcheck disable=SC2034 # used by the script that sources this
    FROND_DEMO=${CARGO_TARGET_DIR:-$TARGET}/debug/frond-demo
}
