# make run     build the program and serve on 127.0.0.1:8080, data in ./data
# make test    build and run all tests
# make check   everything that must hold before a change lands
# make test-api  ask a server all that its API's description allows, and more, with schemathesis
# make loadtest  compare row-key layouts, and the drive with what this machine can do, in under ten minutes
# make bench-subtrees  time moving, copying and deleting whole directories, beside a plain RocksDB, in a few minutes
# make torture   sixteen clients and all faults at once, for MINUTES=60, from a SEED; as root
# make dist      a stripped binary and a Debian package, in target/dist
# make simulate  the drive in a simulated world by SEEDS=1000000 seeds from FIRST_SEED=10000 on, in about two hours
# make test-dist install that package in a clean Debian, use it, remove it, in a few minutes; as root

SHELL := /bin/bash
LISTEN ?= 127.0.0.1:8080
DATA ?= data

# The whole workspace in every build: dependencies then have the same features everywhere, and RocksDB is compiled once
# for run, test, clippy and load test.
ALL := --workspace --all-targets
PROGRAM := --workspace --bin rowdrive
TARGET := $(or $(CARGO_TARGET_DIR),target)
BIN := $(TARGET)/debug
DIST := $(TARGET)/dist

# Tools of `make check` and `make dist`, pinned, in a folder of their own.
TOOLS := $(or $(CARGO_HOME),$(HOME)/.cargo)/rowdrive-tools
DENY := 0.20.2
MACHETE := 0.9.2
SCHEMATHESIS := 4.32.5
DEB := 3.8.0

.PHONY: run program build test test-api check format clippy deny machete loadtest bench-subtrees simulate dist test-dist needs tools

run: program
	$(BIN)/rowdrive serve --data $(DATA) --listen $(LISTEN)

program: needs
	cargo build $(PROGRAM)

build: needs
	cargo build $(ALL)

test:
	@.ci/needs test
	cargo test $(ALL)

# The tests run the seeds before these.
simulate: needs
	ROWDRIVE_SEEDS=$(or $(SEEDS),1000000) ROWDRIVE_FIRST_SEED=$(or $(FIRST_SEED),10000) \
		cargo test $(ALL) -- sim::no_seed --nocapture

test-api: program
	@.ci/api $(BIN)/rowdrive $(TOOLS)/schemathesis-$(SCHEMATHESIS) $(SCHEMATHESIS)

loadtest: build
	$(BIN)/loadtest --out $(TARGET)/loadtest

bench-subtrees: build
	$(BIN)/loadtest subtrees

# The test of `make test`, for longer.
.PHONY: torture
torture:
	@.ci/needs test
	ROWDRIVE_TORTURE_MINUTES=$(or $(MINUTES),60) ROWDRIVE_TORTURE_SEED=$(SEED) cargo test $(ALL) -- \
		--exact --nocapture torture::every_acknowledged_write_outlives_every_fault

# The one profile again: it is optimised, and only carries line tables that an installed program can do without.
# To cargo-deb `dist` is a profile, whose folder it takes the files from. The configuration is docs/rowdrive.toml, but
# that names no data folder, and the package has one.
dist: program
	@.ci/needs dist
	@if [[ "$$($(TOOLS)/bin/cargo-deb --version 2>/dev/null)" != *$(DEB) ]]; then \
		cd / && cargo install --locked --root $(TOOLS) cargo-deb@$(DEB); fi
	rm -rf $(DIST) && mkdir -p $(DIST)/man $(DIST)/completions
	strip -o $(DIST)/rowdrive $(BIN)/rowdrive
	$(DIST)/rowdrive man $(DIST)/man && gzip -9n $(DIST)/man/*
	$(DIST)/rowdrive completions bash > $(DIST)/completions/rowdrive.bash
	$(DIST)/rowdrive completions zsh > $(DIST)/completions/_rowdrive
	$(DIST)/rowdrive completions fish > $(DIST)/completions/rowdrive.fish
	env -i $(DIST)/rowdrive serve --data /var/lib/rowdrive --print-config \
		| sed 's|^# From the command line.*|# The unit lets the service write nowhere else.|' > $(DIST)/rowdrive.toml
	grep -q '^data = ' $(DIST)/rowdrive.toml
	$(TOOLS)/bin/cargo-deb --no-build --no-strip --profile dist --output $(DIST)/
	@cd $(DIST) && du -h --apparent-size rowdrive *.deb

test-dist:
	@.ci/needs test-dist
	packaging/test $(wildcard $(DIST)/*.deb)

check: format clippy deny machete test

format:
	cargo fmt --all --check

clippy: needs
	cargo clippy $(ALL) -- --deny warnings

deny: tools
	$(TOOLS)/bin/cargo-deny check licenses bans sources

machete: tools
	$(TOOLS)/bin/cargo-machete

tools:
	@if [[ "$$($(TOOLS)/bin/cargo-deny --version 2>/dev/null)" != *" $(DENY)" ]]; then \
		cd / && cargo install --locked --root $(TOOLS) cargo-deny@$(DENY); fi
	@if [[ "$$($(TOOLS)/bin/cargo-machete --version 2>/dev/null)" != *$(MACHETE) ]]; then \
		cd / && cargo install --locked --root $(TOOLS) cargo-machete@$(MACHETE); fi

# What RocksDB's build needs and rustup does not bring.
needs:
	@.ci/needs
