# Everything a person needs. Each target installs what it lacks on a Debian-like machine, or says what is missing.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-fast long soak lint mutants coverage hygiene latest bench broker

# What takes part in `make test` and stays out of `make test-fast`; tests carry the name in their kind.
REAL_BROKER := real broker

# Each alone, as part of `make test`; those that need another build of the client library are in `make hygiene`.
OWN_FEATURES := sled kafka cli tower

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 18

demo: ## the whole journey on embedded defaults, with an account at the end; needs no broker (ARGS=--keep stays up, ARGS="--brokers HOST:PORT" plays there)
	tools/install.sh build
	cargo run --release --example demo -- $(ARGS)

test: ## everything: lint, the core alone, and all tests, those on a real Kafka broker included
	tools/install.sh build lint trace deploy watch broker
	$(MAKE) --no-print-directory lint
	tools/features.sh $(OWN_FEATURES)
	cargo test --no-default-features
	cargo test -p receipted-mistakes
	cargo test
	cargo test --features crash-points --test crash_points

long: ## the proofs at length, some hours: says how far it is, and goes on where it was interrupted
	tools/install.sh build broker
	tools/long.sh

soak: ## a service under steady load for two hours: whether memory and store level off (FOR=10m)
	tools/install.sh build broker
	RECEIPTED_SOAK="$(or $(FOR),2h)" cargo test --test soak

test-fast: ## the tests that need no broker
	tools/install.sh build trace deploy watch
	cargo test --no-default-features
	cargo test -p receipted-mistakes
	cargo test -- --skip "$(REAL_BROKER)"

lint: ## format, clippy and documentation, warnings as errors
	tools/install.sh build lint
	cargo fmt --check
	cargo clippy --all-targets -- -D warnings
	cargo clippy --all-targets --no-default-features -- -D warnings
	cargo clippy --features crash-points --test crash_points -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --no-deps

mutants: ## breaks the product rule by rule in a copy, and fails where no test notices; goes on where it was stopped (ONLY=text)
	tools/install.sh build
	RECEIPTED_MUTANTS="$(or $(ONLY),all)" cargo test --test mutants

coverage: ## which lines of the rules no test runs (ALL=yes: the whole library, by file)
	tools/install.sh build
	tools/coverage.sh $(if $(ALL),all,core)

hygiene: ## licences, bans and sources of the dependencies, and each feature alone; builds cargo-deny on its first run
	tools/install.sh build hygiene
	cargo deny check licenses bans sources
	@if cargo deny fetch db; then cargo deny check --disable-fetch advisories; \
	else echo "advisories: NOT run, their database cannot be reached from here" >&2; fi
	tools/features.sh

latest: ## whether the newest dependencies build; needs the registry and some minutes
	tools/install.sh build
	tools/latest.sh

bench: ## how fast, against a bare consumer on the same broker
	tools/install.sh build broker
	cargo bench

broker: ## fetches the Kafka that the tests start, so that they can run without a network later
	tools/install.sh broker
