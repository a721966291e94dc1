# dwell's common commands; `make` lists them.
#
# One cargo profile, release, everywhere: llama.cpp is compiled once per target folder.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# A cargo from rustup is found even where the shell has not read its settings.
export PATH := $(PATH):$(HOME)/.cargo/bin
export CARGO_TARGET_DIR ?= $(CURDIR)/target
BIN := $(CARGO_TARGET_DIR)/release

.PHONY: help run test test-quick test-vllm soak bench bench-python lint setup clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## build dwell and trace a model: make run ARGS='--help'
	@scripts/setup.sh run
	@cargo build --release -p dwell-cli -p dwell-preload -p dwell-alloc
	@$(BIN)/dwell run $(ARGS)

test: ## all checks and all tests; ends with how many passed, failed and were skipped
	@scripts/setup.sh test
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --locked -- -D warnings
	scripts/deny.sh --locked
	scripts/test.sh --locked

test-quick: ## format, clippy and the tests that take seconds
	@scripts/setup.sh run
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings
	DWELL_QUICK=1 scripts/test.sh

test-vllm: ## the tests with a real vLLM, which is installed first (1.5 GB beside PyTorch)
	@scripts/setup.sh test
	@scripts/fetch-vllm.sh
	cargo build --release --workspace --all-targets
	cargo test --release --workspace --test servers vllm::

soak: ## kill and starve dwell at random for MINUTES minutes and check what is left; SEED=N repeats the choices
	@scripts/setup.sh run
	@cargo build --release --workspace --bin dwell --bin dwell-soak
	@$(BIN)/dwell-soak --minutes $(or $(MINUTES),20) $(if $(SEED),--seed $(SEED)) $(ARGS)

bench: ## measure what dwell costs: make bench ARGS='--help'
	@scripts/setup.sh run
	@scripts/bench.sh $(ARGS)

bench-python: ## measure a captured PyTorch model beside llm-instrumentation
	@scripts/setup.sh test
	@scripts/bench-python.sh $(ARGS)

lint: ## format and clippy
	@scripts/setup.sh run
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets -- -D warnings

setup: ## install what building and testing need and is missing
	@scripts/setup.sh test

clean: ## remove what was built; caches outside the target folder stay
	cargo clean
