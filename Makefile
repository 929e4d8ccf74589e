# Everything there is to do with this repository; `make help` lists it.

# Where `make run` listens. Not 6379: Debian's own Redis may be there.
PORT ?= 6380
REDIS_SERVER ?= redis-server

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
MODULE := $(TARGET)/release/libdq.so
RUN := $(TARGET)/run

# What `make test-matrix` runs the tests on.
SERVERS ?= redis-7.0 redis-8.0 redis-8.2 valkey-8.0 valkey-8.1 valkey-9.1

export REDIS_SERVER

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# Debian's units for Redis and Valkey let them run code from below /usr/lib only.
PREFIX ?= /usr
MODULES := $(PREFIX)/lib/redis/modules
DIST := dq-$(VERSION)-$(shell uname -s | tr A-Z a-z)-$(shell uname -m)
CARGO_DEB := $(TARGET)/tools/bin/cargo-deb

.PHONY: help build run dashboard install deb dist docs test test-dashboard dashboard-screenshots test-packages test-matrix torture fuzz memcheck soak bench bench-instructions bench-waking bench-holds bench-peers check lint clean
.DEFAULT_GOAL := help

help: ## List the targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' $(MAKEFILE_LIST) | expand -t 26

build: ## Build the module: target/release/libdq.so.
	@scripts/needs.sh build
	cargo build --release --locked

run: build ## Start a server with the module by redis.conf.example on PORT (6380); its data go to target/run/data.
	@scripts/needs.sh run
	@mkdir -p $(RUN)/data
	@sed 's|^loadmodule .*|loadmodule "$(MODULE)"|' redis.conf.example >$(RUN)/redis.conf
	exec $(REDIS_SERVER) $(RUN)/redis.conf --port $(PORT) --dir $(RUN)/data

dashboard: ## Build dq-dashboard, the page in the browser: target/release/dq-dashboard; dashboard/README.md tells of it.
	@scripts/needs.sh build
	cargo build --release --locked -p dq-dashboard
	@echo 'This shows the server of `make run` at http://127.0.0.1:8380/:'
	@echo '$(TARGET)/release/dq-dashboard redis://127.0.0.1:$(PORT) --allow-actions'
	@echo 'Without --allow-actions it only shows.'

install: build ## Install the module below PREFIX (/usr), and say the line that loads it.
	install -d $(DESTDIR)$(MODULES)
	install -m 755 $(MODULE) $(DESTDIR)$(MODULES)/libdq.so
	@echo 'This line of redis.conf loads it: loadmodule $(MODULES)/libdq.so'

deb: ## Make a Debian package: target/debian/redis-dq_*.deb.
	@scripts/needs.sh build
	test -x $(CARGO_DEB) || cargo install cargo-deb --locked --root $(TARGET)/tools
	$(CARGO_DEB) deb --locked

dist: build ## Make an archive of the module for this platform, with its checksum: target/dist/.
	rm -rf $(TARGET)/dist/$(DIST)
	mkdir -p $(TARGET)/dist/$(DIST)
	install -m 755 $(MODULE) $(TARGET)/dist/$(DIST)/
	install -m 644 README.md README.zh-CN.md CHANGELOG.md LICENSE redis.conf.example $(TARGET)/dist/$(DIST)/
	cp -r docs $(TARGET)/dist/$(DIST)/
	cd $(TARGET)/dist && tar -czf $(DIST).tar.gz --owner=0 --group=0 $(DIST) && sha256sum $(DIST).tar.gz >$(DIST).tar.gz.sha256
	@cat $(TARGET)/dist/$(DIST).tar.gz.sha256

test-packages: ## Try the package and the archive as a user would, the package in a Debian of its own (root, 5 minutes).
	@scripts/needs.sh packages
	scripts/try-packages.sh

docs: ## Write the pages of the commands, docs/commands/, from their sources.
	@scripts/needs.sh test
	mkdir -p docs/commands
	DQ_WRITE_DOCS=1 cargo test --locked --test docs commands::

test: ## Run every test, in servers of its own on free ports.
	@scripts/needs.sh test
	cargo test --locked
	@$(MAKE) --no-print-directory test-dashboard

test-dashboard: ## Run the tests of dq-dashboard, in a Chromium without a window.
	@scripts/needs.sh test-dashboard
	cargo test --locked -p dq-dashboard -- --test-threads 4

dashboard-screenshots: ## Take pictures of each page of dq-dashboard in both themes and both sizes: target/screenshots/ (4 minutes).
	@scripts/needs.sh test-dashboard
	DQ_SCREENSHOTS=$(TARGET)/screenshots cargo test --locked -p dq-dashboard --test page screenshots -- --ignored

test-matrix: ## Run the tests on every supported server, or on SERVERS=valkey-9.1, and write the README's table of them.
	@scripts/needs.sh matrix
	python3 scripts/matrix.py $(SERVERS)

torture: ## Hurt servers by the dice, each part for MINUTES (10), and account for every job; SEED draws a run again.
	@scripts/needs.sh test
	DQ_TORTURE_MINUTES=$(or $(MINUTES),10) $(if $(SEED),DQ_TEST_SEED=$(SEED)) cargo test --locked --test torture --test model --test argv -- --nocapture

fuzz: ## Run what reads foreign bytes under libFuzzer, each of five targets for MINUTES (1).
	@scripts/needs.sh fuzz
	scripts/fuzz.sh $(TARGET)/fuzz $(or $(MINUTES),1)

memcheck: ## Run every command in a server under valgrind: no invalid access, nothing lost.
	@scripts/needs.sh memcheck
	scripts/memcheck.sh $(TARGET)/memcheck

soak: ## Have JOBS (5000000) go through one server, whose memory must stay as it is.
	@scripts/needs.sh test
	DQ_TEST_JOBS=$(or $(JOBS),5000000) cargo test --release --locked --test soak -- --nocapture

bench: ## Measure what a job costs, how late it comes and how long others wait (10 minutes); docs/benchmarks.md explains.
	@scripts/needs.sh test
	cargo bench --locked --bench life
	@for bench in waking holds; do if [ -f benches/$$bench.rs ]; then cargo bench --locked --bench $$bench || exit 1; fi; done

bench-instructions: build ## Count the processor's instructions of a job, which other programs do not disturb (1 minute).
	@scripts/needs.sh instructions
	python3 benches/instructions.py $(MODULE)
	python3 benches/instructions.py $(MODULE) --aof

bench-waking: ## Measure how late blocked workers get their jobs, and what waiting costs the server.
	@scripts/needs.sh test
	cargo bench --locked --bench waking

bench-holds: ## Measure how long other clients wait while the module has very much to do; p99 of PING must stay under 5 ms.
	@scripts/needs.sh test
	cargo bench --locked --bench holds

bench-peers: ## Measure DQ against other queues, which are installed to target/peers (10 minutes); docs/benchmarks.md explains.
	@scripts/needs.sh test
	@scripts/needs.sh peers || echo 'Going on without what is missing.' >&2
	cargo bench --locked --bench peers

check: ## The inner loop: lint, unit tests and the it suite (3 minutes when built).
	@$(MAKE) --no-print-directory lint
	@scripts/needs.sh test
	cargo test --locked --lib --test it

lint: ## Check format, clippy and documentation; each warning is an error.
	@scripts/needs.sh lint
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --document-private-items

clean: ## Remove all that was built, and the data of `make run`.
	cargo clean
