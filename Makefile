# The front door. `make help` lists what there is.

MODEL ?= smollm2-135m-instruct
PROMPT ?= Why is the sky blue? Answer in two sentences.
QUIRE = build/release/quire
INSTALL = scripts/install-packages.sh
PREFIX ?= /usr/local

.DEFAULT_GOAL := help
.PHONY: help run build install package test test-all bench peers lint format deps deps-test \
  deps-page deps-bench deps-peers deps-clang deps-package clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

run: build ## build, fetch MODEL and let it answer PROMPT
	@$(QUIRE) pull $(MODEL)
	@$(QUIRE) run $(MODEL) -p "$(PROMPT)" --temp 0

build: deps ## the release build of the program: build/release/quire
	@cmake --preset release -DBUILD_TESTING=OFF >/dev/null
	@cmake --build --preset release --target quire

install: build ## the program, its service and manual page, under PREFIX (and DESTDIR)
	@DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)" --strip

package: build deps-package ## a Debian package: build/package/quire_VERSION_ARCHITECTURE.deb
	@scripts/package.sh build/release build/package

test: deps deps-test ## unit tests, SmolLM2, sanitizers: what every change must pass
	@scripts/test.sh

test-all: deps deps-test deps-page deps-clang deps-package .venv ## all models, slow tests, long sanitizer and fuzz runs
	@scripts/test-all.sh

bench: deps deps-bench ## microbenchmarks beside the machine's limits; FILTER chooses: FILTER=attention
	@scripts/bench.sh "$(FILTER)"

peers: deps deps-peers ## other engines to compare with (bench/compare), in build/peers
	@scripts/peers.sh

lint: deps deps-test deps-clang ## format, clang-tidy and the rules of the house
	@scripts/lint.sh

format: deps-clang ## clang-format every C++ file
	@find src tests bench \( -name '*.cc' -o -name '*.h' \) -exec clang-format-19 -i {} +

deps: ## install what the build needs (Debian packages)
	@$(INSTALL) scripts/apt-packages.txt

.venv: scripts/requirements-test.txt scripts/requirements-page.txt
	@$(INSTALL) scripts/apt-venv-packages.txt
	@python3 -m venv .venv
	@.venv/bin/pip install --quiet --requirement scripts/requirements-test.txt \
	  --requirement scripts/requirements-page.txt
	@touch .venv

deps-test:
	@$(INSTALL) scripts/apt-test-packages.txt

deps-page:
	@$(INSTALL) scripts/apt-page-packages.txt

deps-bench:
	@$(INSTALL) scripts/apt-bench-packages.txt

deps-peers:
	@$(INSTALL) scripts/apt-venv-packages.txt

deps-clang:
	@$(INSTALL) scripts/apt-clang-packages.txt

deps-package:
	@$(INSTALL) scripts/apt-package-packages.txt

clean: ## remove everything built
	@rm -rf build
