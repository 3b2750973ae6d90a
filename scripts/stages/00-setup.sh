#!/usr/bin/env bash
#
# Installs what is missing; each further stage relies on it.
#
# CPU budget: 10 s

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scripts/setup.sh all
scripts/setup.sh check
echo "1 passed, 0 failed"
