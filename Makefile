# The front door. Each target installs the Debian packages it lacks (tools/setup),
# then does its work; `make help` lists them.
#
#	make fuzz NAME=cur SECONDS=600      one fuzz target, ten minutes
#	make test ARGS="-k oom"             what stands behind goes to tools/test
#	make install DESTDIR=/tmp/x PREFIX=/usr

BUILD  ?= build
PREFIX ?= /usr/local
ARGS   ?=

# What sanitizers build: no fortify (they replace it), every finding fatal.
SANITIZE = -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 \
	-Dc_args=-fno-sanitize-recover=all

.DEFAULT_GOAL := build
.PHONY: build run test test-asan test-crowd check fuzz bench bench-thousand test-fresh test-vm install clean help

build: ## build/belljar
	@tools/setup build
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) --prefix=$(PREFIX)
	@ninja -C $(BUILD)

run: build ## a small Python program in a box, then the run service
	@tools/setup run
	$(BUILD)/belljar run --lang python examples/hello.py
	$(BUILD)/belljar serve

test: build ## unit tests, corpus replay, integration and escape tests
	@tools/setup test
	@tools/npm
	@tools/test --build $(BUILD) $(ARGS)

test-asan: ## the same, built with ASan and UBSan in build-asan
	@tools/setup build test
	@tools/npm
	@test -f build-asan/build.ninja || meson setup build-asan $(SANITIZE)
	@ninja -C build-asan
	@tools/test --build build-asan $(ARGS)

test-crowd: build ## a thousand subscribers of one run, ten of them stuck
	@tools/setup test
	@BELLJAR_TEST_CROWD=1000 tools/test --build $(BUILD) --only integration -k test_crowd

check: build ## format, lint, layers, tests beside modules, spelling
	@tools/setup check
	@tools/check $(BUILD)

fuzz: ## every fuzz target for a minute; NAME= and SECONDS= choose
	@tools/setup build fuzz
	@tools/fuzz "$(NAME)" "$(SECONDS)"

bench: build ## what is claimed about speed, beside the peers
	@tools/setup bench
	@bench/run $(ARGS)

bench-thousand: build ## a thousand boxes that wait: their memory, and how fast others start
	@tools/setup bench
	@bench/thousand.py $(ARGS)

test-fresh: ## clone and `make run test` on a minimal Debian 12 and 13
	@tools/setup fresh
	@tools/fresh $(ARGS)

test-vm: ## what depends on cgroups, on a kernel of its own with v2 only
	@tools/setup vm
	@tools/vm $(if $(ARGS),'$(ARGS)')

install: build ## into PREFIX, below DESTDIR if given
	@meson configure $(BUILD) -Dprefix=$(PREFIX) && ninja -C $(BUILD) --quiet
	@meson install -C $(BUILD) --no-rebuild

clean: ## remove what was built, and the caches
	rm -rf build build-asan build-fuzz build-fresh build-npm

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{ printf "  make %-14s %s\n", $$1, $$2 }' Makefile
