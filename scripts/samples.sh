#!/usr/bin/env bash
#
# The sample files of innotop and percona-toolkit, and what their own tests say of them: `frond locks` and `frond indexes` have the
# same answers, or better ones that toolkit/*/tests/it/samples.rs names. The files are theirs and not in this tree.
#
# INNOTOP, PERCONA_TOOLKIT   checkouts (default: cloned into target/samples, which needs the network once)

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

files=$TARGET/samples/files
mkdir -p "$files"

innotop=${INNOTOP:-$(checkout innotop https://github.com/innotop/innotop INNOTOP)}
toolkit=${PERCONA_TOOLKIT:-$(checkout percona-toolkit https://github.com/percona/percona-toolkit PERCONA_TOOLKIT)}
cp "$innotop"/t/innodb-status-0* "$toolkit"/t/pt-deadlock-logger/samples/bug_*.txt "$toolkit"/t/pt-duplicate-key-checker/samples/*.sql \
    "$toolkit"/t/lib/samples/dupekeys/* "$files"
FROND_MONITOR_SAMPLES=$files FROND_INDEX_SAMPLES=$files cargo test --quiet -p frond-locks -p frond-indexes --test it samples
