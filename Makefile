# `make` or `make help` lists the targets: each line with `##` describes the target before it.

SHELL := /bin/bash
LISTEN ?= 127.0.0.1:8080
DATA ?= data

# Every build takes the whole workspace and the release profile: dependencies then have the same features everywhere, and
# RocksDB is compiled once for the program, the tests, the lints and the load test.
ALL := --release --workspace --all-targets
PROGRAM := --release --workspace --bin rowdrive
TARGET := $(or $(CARGO_TARGET_DIR),target)
BIN := $(TARGET)/release
DIST := $(TARGET)/dist

# Tools of `make check` and `make dist`, pinned, in a folder of their own.
TOOLS := $(or $(CARGO_HOME),$(HOME)/.cargo)/rowdrive-tools
DENY := 0.20.2
MACHETE := 0.9.2
SCHEMATHESIS := 4.32.5
DEB := 3.8.0

.PHONY: help run program build test test-api check fmt format clippy doc deny machete loadtest simulate \
	torture dist test-dist needs tools

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r target what; do \
		printf '%-16s%s\n' "$$target" "$$what"; done

run: program ## build the program and serve on 127.0.0.1:8080, data in ./data
	$(BIN)/rowdrive serve --data $(DATA) --listen $(LISTEN)

program: needs ## build the program, target/release/rowdrive
	cargo build $(PROGRAM)

build: needs
	cargo build $(ALL)

test: ## build and run all tests
	@.ci/needs test
	cargo test $(ALL)

# `make test` runs the seeds before these.
simulate: needs ## run the drive in a simulated world: SEEDS=1000000 from FIRST_SEED=10000 on, about two hours
	ROWDRIVE_SEEDS=$(or $(SEEDS),1000000) ROWDRIVE_FIRST_SEED=$(or $(FIRST_SEED),10000) \
		cargo test $(ALL) -- sim::no_seed --nocapture

test-api: program ## send a server all requests that its API description allows, and more, with schemathesis
	@.ci/api $(BIN)/rowdrive $(TOOLS)/schemathesis-$(SCHEMATHESIS) $(SCHEMATHESIS)

loadtest: build ## compare row-key layouts, and the drive with the limits of this machine, in about ten minutes
	@.ci/needs loadtest
	$(BIN)/loadtest --out $(TARGET)/loadtest

# The same test as in `make test`, for longer.
torture: ## run sixteen clients and all faults at once, for MINUTES=60, from a SEED; as root
	@.ci/needs test
	ROWDRIVE_TORTURE_MINUTES=$(or $(MINUTES),60) ROWDRIVE_TORTURE_SEED=$(SEED) cargo test $(ALL) -- \
		--exact --nocapture torture::every_acknowledged_write_outlives_every_fault

# The program carries line tables that an installed one can do without. `dist` is no profile of Cargo's: cargo-deb only
# takes the files from the folder of that name. The configuration is docs/rowdrive.toml with the data folder of the package.
dist: program ## build a stripped binary and a Debian package, in target/dist
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

test-dist: ## install that package in a clean Debian, use it, remove it; as root
	@.ci/needs test-dist
	packaging/test $(wildcard $(DIST)/*.deb)

check: format clippy doc deny machete test ## run every check that must pass before a change lands

fmt: ## format all code
	cargo fmt --all

format: ## check the format of all code
	cargo fmt --all --check

clippy: needs ## run the lints
	cargo clippy $(ALL) -- --deny warnings

# The page of a module is the map of its room, private files too.
doc: needs ## build the documentation of the library, private items too; a missing docstring or link is an error
	RUSTDOCFLAGS='--deny warnings --allow rustdoc::private_intra_doc_links' cargo doc --release --workspace --no-deps --lib --document-private-items

deny: tools ## check licences, duplicates and sources of dependencies
	$(TOOLS)/bin/cargo-deny check licenses bans sources

machete: tools ## look for dependencies that nothing uses
	$(TOOLS)/bin/cargo-machete

tools:
	@if [[ "$$($(TOOLS)/bin/cargo-deny --version 2>/dev/null)" != *" $(DENY)" ]]; then \
		cd / && cargo install --locked --root $(TOOLS) cargo-deny@$(DENY); fi
	@if [[ "$$($(TOOLS)/bin/cargo-machete --version 2>/dev/null)" != *$(MACHETE) ]]; then \
		cd / && cargo install --locked --root $(TOOLS) cargo-machete@$(MACHETE); fi

# What RocksDB's build needs and rustup does not install.
needs:
	@.ci/needs
