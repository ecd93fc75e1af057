# make run     build and serve on 127.0.0.1:8080, data in ./data
# make test    build and run all tests
# make check   everything that must hold before a change lands
# make test-api  ask a server all that its API's description allows, and more, with schemathesis
# make loadtest  compare row-key layouts on the same data, in under a minute
# make bench-subtrees  time moving, copying and deleting whole directories, beside a plain RocksDB, in a few minutes

SHELL := /bin/bash
LISTEN ?= 127.0.0.1:8080
DATA ?= data

# All targets and the whole workspace at once, in every build: dependencies then have the same features
# everywhere, and RocksDB is compiled once for run, test, clippy and load test.
ALL := --workspace --all-targets
BIN := $(or $(CARGO_TARGET_DIR),target)/debug

# Tools of `make check`, pinned, in a folder of their own.
TOOLS := $(or $(CARGO_HOME),$(HOME)/.cargo)/rowdrive-tools
DENY := 0.20.2
MACHETE := 0.9.2
SCHEMATHESIS := 4.32.5

.PHONY: run build test test-api check format clippy deny machete loadtest bench-subtrees needs tools

run: build
	$(BIN)/rowdrive serve --data $(DATA) --listen $(LISTEN)

build: needs
	cargo build $(ALL)

test:
	@.ci/needs test
	cargo test $(ALL)

test-api: build
	@.ci/api $(BIN)/rowdrive $(TOOLS)/schemathesis-$(SCHEMATHESIS) $(SCHEMATHESIS)

loadtest: build
	$(BIN)/loadtest

bench-subtrees: build
	$(BIN)/loadtest subtrees

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
