#!/usr/bin/env bash
# Prints the version of the installed MariaDB server (10.11.18), or nothing.
# It asks the binary, not dpkg: the binary is what will load the plugin.
set -euo pipefail
PATH=$PATH:/usr/sbin
command -v mariadbd >/dev/null || exit 0
mariadbd --no-defaults --version | sed -nE 's/.* Ver ([0-9]+\.[0-9]+\.[0-9]+).*/\1/p'
