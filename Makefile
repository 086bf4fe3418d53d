# Every target is safe to repeat, and quiet where there is nothing to do.
.DEFAULT_GOAL := help
.PHONY: help setup build seal test test-node-latest demo bench clean
MAKEFLAGS += --no-print-directory

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' Makefile

setup: ## Install what is missing: system packages and npm's
	@command -v node >/dev/null || { echo "Dev needs Node.js 20.19 or later: https://nodejs.org" >&2; exit 1; }
	@node tools/setup.mjs

build: setup ## Compile and bundle what changed
	@node tools/build.mjs

seal: setup ## Seal the core into wasm, and record what it was made from
	@node tools/seal.mjs --record

test: setup ## Build, then run every check and test; the last line counts them
	@node tools/check.mjs

test-node-latest: setup ## The same on the newest Node.js, fetched from npm
	@node tools/node-latest.mjs tools/check.mjs

demo: build ## Watch Dev work on the sample project
	@node tools/demo.mjs

bench: build ## Run the benchmarks
	@node bench/run.mjs

clean: ## Remove what a build made
	rm -rf .cache packages/*/dist packages/*/*.tsbuildinfo sim/dist sim/*.tsbuildinfo
