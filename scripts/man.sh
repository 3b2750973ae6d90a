#!/bin/bash
# Man pages and shell completions of `frond`, laid out below target/share (or DIR) as a package installs them.
#
#   scripts/man.sh [DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
share=${1:-${CARGO_TARGET_DIR:-target}/share}
cargo build --release --quiet -p frond-cli
frond=${CARGO_TARGET_DIR:-target}/release/frond
mkdir -p "$share"/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
"$frond" man --all "$share/man/man1"
"$frond" completions bash > "$share/bash-completion/completions/frond"
"$frond" completions zsh > "$share/zsh/site-functions/_frond"
"$frond" completions fish > "$share/fish/vendor_completions.d/frond.fish"
echo "$share: $(find "$share" -type f | wc -l) files"
