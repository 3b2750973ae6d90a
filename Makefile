# Frond: the commands of the project. `make` alone lists them.
#
# cargo builds the Rust crates and needs nothing from here; this file is for what spans cargo, the
# MariaDB plugin and servers. Each target calls one script, which documents its options at its head.

SHELL := /bin/bash
.DEFAULT_GOAL := help

# Where cargo builds, as cargo itself decides it.
export CARGO_TARGET_DIR ?= $(CURDIR)/target

T      ?= all
ENGINE ?= Frond

.PHONY: help
help: ## this list
	@echo "Frond: a storage engine for MariaDB, and the tools around it"
	@echo
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Only Rust? cargo build, cargo test, cargo clippy work by themselves."

.PHONY: setup
setup: ## install what is missing: compiler, MariaDB with its headers and tests (Debian 12)
	@scripts/setup.sh all

.PHONY: demo
demo: ## the engine at work beside InnoDB and MyRocks, with the figures
	@scripts/setup.sh bench
	@scripts/demo.sh

.PHONY: bench-iibench
bench-iibench: ## 10 million rows beside MyRocks; fails when what Frond must reach is missed
	@scripts/setup.sh bench
	@ROWS=$${ROWS:-10M} CAP=$${CAP:-0} ENGINES=$${ENGINES:-myrocks,frond} LIMITS=1 scripts/demo.sh

.PHONY: bench-oltp
bench-oltp: ## the everyday load with everything cached, beside InnoDB and MyRocks
	@scripts/setup.sh bench
	@scripts/oltp.sh

.PHONY: bench-commit
bench-commit: ## durable commits with the binary log, 1 to 64 connections, beside InnoDB
	@scripts/setup.sh bench
	@scripts/commit.sh

.PHONY: bench-hot
bench-hot: ## hot rows at random places of a table larger than the cache, beside InnoDB and MyRocks
	@scripts/setup.sh bench
	@scripts/hot.sh hot

.PHONY: bench-cold
bench-cold: ## look-ups of any row of a table 50 times as large as the cache, by key and through an index, beside InnoDB and MyRocks
	@scripts/setup.sh bench
	@scripts/hot.sh cold

.PHONY: bench-replica
bench-replica: ## a replica that applies updates of a table larger than its cache: InnoDB, Frond, Frond without reads
	@scripts/setup.sh server
	@scripts/replica.sh

.PHONY: bench-tpch
bench-tpch: ## the 22 queries of TPC-H beside InnoDB, with the plans that differ; SCALE, CACHE
	@scripts/setup.sh server
	@scripts/tpch.sh

.PHONY: bench-scale
bench-scale: ## many partitions, tables, connections, and kills: Frond beside InnoDB, MyRocks and BLACKHOLE
	@scripts/setup.sh bench
	@scripts/scale.sh

.PHONY: bench-backup
bench-backup: ## frond backup beside mariadb-backup, the same rows in Frond and InnoDB; fails when a limit is missed
	@scripts/setup.sh bench
	@scripts/bench-backup.sh

.PHONY: tpcc
tpcc: plugin ## TPC-C on Frond beside InnoDB, then on a replica that is killed 20 times; clones sysbench-tpcc
	@scripts/tpcc.sh

.PHONY: bench-digest
bench-digest: ## frond digest beside pt-query-digest on one slow log; SIZE= megabytes
	@scripts/digest-bench.sh

.PHONY: bench-capture
bench-capture: ## packets per second of frond digest, from a capture to its report
	@cargo test --release -p frond-cli --test capture -- --ignored --nocapture speed

.PHONY: check
check: ## the inner loop: lint, tests of the packages that changed, one SQL test
	@scripts/check.sh

.PHONY: fuzz
fuzz: ## mutated bytes for every on-disk format and the C API; SECONDS= (60) of a processor for each of 20 targets
	@scripts/fuzz.sh $(or $(SECONDS),60)

.PHONY: test
test: ## every test, in stages; S="20 30" runs those stages only
	@scripts/test.sh $(S)

.PHONY: stages
stages: ## the stages of `make test`
	@scripts/test.sh --list

.PHONY: soak
soak: ## long tests with fresh seeds for HOURS= (1); SLT_DIR= sqllogictest files
	@HOURS=$${HOURS:-1} scripts/soak.sh

.PHONY: test-apps
test-apps: plugin ## tests of Django and SQLAlchemy, WordPress and MediaWiki, with Frond as the default engine, beside InnoDB; MINUTES= each (30), SUITES=
	@scripts/setup.sh apps
	@/usr/bin/python3 -B tests/apps/run.py --minutes $(or $(MINUTES),30) $(if $(SUITES),--suites $(SUITES))

.PHONY: backups
backups: plugin ## BACKUPS= (50) backups under sysbench, inserts and DDL, each restored and compared with a replica at its GTID; KILLS= (20)
	@cargo build --quiet --release -p frond-cli
	@/usr/bin/python3 -B tests/sql/backup_soak.py --backups $${BACKUPS:-50} --kills $${KILLS:-20}

.PHONY: pictures
pictures: plugin ## docs/top.svg and docs/dashboard.svg anew: frond top and the dashboard on a server with a load
	@scripts/setup.sh all
	@cargo build --quiet --release -p frond-cli
	@/usr/bin/python3 -B scripts/pictures.py

.PHONY: samples
samples: ## sample files of innotop and percona-toolkit through frond locks and frond indexes; clones both
	@scripts/samples.sh

.PHONY: versions
versions: ## the commands that look at servers on MariaDB 10.5, 11.4 and 11.8, fetched into target/versions; VERSIONS= which
	@scripts/versions.sh

.PHONY: replay
replay: plugin ## 100 000 statements on InnoDB and on Frond: no false difference, a planted one found
	@cargo build --quiet --release -p frond-cli
	@TOOLS=replay REPLAY_STATEMENTS=$${STATEMENTS:-100000} scripts/stages/86-tools.sh

.PHONY: man
man: ## man pages and shell completions, in target/share as a package installs them
	@scripts/man.sh

.PHONY: library
library: ## build target/release/libfrond.a and libfrond.so, which C links against
	+@cargo rustc --release -p frond-capi --lib --crate-type staticlib,cdylib

.PHONY: plugin
plugin: ## build target/mariadb/ha_frond.so and prove that it fits the installed server
	@scripts/setup.sh server
	@$(MAKE) --no-print-directory -j$(shell nproc) library plugin-objects
	@$(MAKE) --no-print-directory -j$(shell nproc) -f mariadb/Makefile

# Beside cargo, which takes its jobs from the same make (the + above) and cannot use all cores at its beginning and end.
.PHONY: plugin-objects
plugin-objects:
	@$(MAKE) --no-print-directory -f mariadb/Makefile objects headers

.PHONY: mtr
mtr: ## MariaDB's test suites: T=frond|storage_engine|named|iuds|funcs|suite.test, ENGINE=, RECORD=1
	@scripts/mtr.sh --engine $(ENGINE) $(if $(RECORD),--record) $(T)

.PHONY: clean
clean: ## remove everything that was built, and stop the servers started from this checkout
	@scripts/clean.sh
