# Targets for people and for .ci/run. Tools are run at a fixed version through
# the Go toolchain; nothing is installed outside the repository and Go's caches.

GO           ?= go
PYTHON       ?= python3
FUZZTIME     ?= 20s
SOAK         ?= 10m
HOLD         ?= 10m
TEST_TIMEOUT ?= 20m

STATICCHECK   := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOTESTSUM     := gotest.tools/gotestsum@v1.13.0

PEER := .peer

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## build the command: bin/oenv
	$(GO) build -o bin/oenv ./cmd/oenv

.PHONY: demo
demo: build ## build the command and run its demo
	bin/oenv demo

.PHONY: check
check: ## formatting, vet, staticcheck, linters, go.mod
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		printf 'make check: run gofmt -w on:\n%s\n' "$$unformatted" >&2; exit 1; fi
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	@$(MAKE) --no-print-directory lint

.PHONY: lint
lint: ## the linters of .golangci.yml (part of check)
	$(GO) run $(GOLANGCI_LINT) run

# The peer's tests are left out, not failed, where it cannot be installed;
# with CI=true its absence is an error here and in each test that needs it.
.PHONY: test
test: need-cc ## all tests with the race detector; installs the Python peer
	@$(MAKE) --no-print-directory peer || [ "$$CI" != true ]
	@$(MAKE) --no-print-directory node || [ "$$CI" != true ]
	@$(MAKE) --no-print-directory engine || [ "$$CI" != true ]
	$(GO) test -count=1 -run 'Allocations|Ratios|Tables' ./bench/... ./envserver
	$(GO) run $(GOTESTSUM) --format pkgname -- -race -shuffle=on -timeout $(TEST_TIMEOUT) ./...

.PHONY: bench
bench: peer build ## steps against their floors and the Python package, in a few minutes
	$(GO) run ./bench -oenv bin/oenv -python $(PEER)/bin/python

.PHONY: bench-full
bench-full: peer build ## all sizes and experiments, an hour; writes docs/performance.md
	$(GO) run ./bench -oenv bin/oenv -python $(PEER)/bin/python -full -out docs/performance.md

# Both need 20,000 descriptors (ulimit -n). What is held is old and what is garbage young,
# so that a collector that comes twice as often costs little: docs/scaling.md, Memory.
.PHONY: scale
scale: build ## 16,384 sessions at once, judged
	$(GO) run ./bench scale -oenv bin/oenv

.PHONY: hold
hold: build ## 16,384 sessions held for HOLD (10m), judged
	$(GO) build -o bin/bench ./bench
	GOGC=50 bin/bench hold -oenv bin/oenv -for $(HOLD)

# Bounded: SOAK=30s tries it out.
.PHONY: soak
soak: ## use and abuse a server for SOAK (10m); it must end where it began
	$(GO) run ./bench/soak -for $(SOAK)

.PHONY: cover
cover: ## test coverage: coverage.out and the total
	$(GO) test -coverpkg=./... -coverprofile=coverage.out ./...
	@$(GO) tool cover -func=coverage.out | tail -n 1

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (20s)
	@grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sort | \
	while IFS=: read -r file target; do \
		echo "$${target#func } in $${file%/*}"; \
		$(GO) test -run='^$$' -fuzz="^$${target#func }\$$" -fuzztime=$(FUZZTIME) "$${file%/*}" || exit 1; \
	done

.PHONY: peer
peer: $(PEER)/installed ## install the Python peer into .peer, when its requirements changed
	@:

$(PEER)/installed: interop/peer/requirements.txt
	@command -v $(PYTHON) >/dev/null || \
		{ echo "make peer: no $(PYTHON): install Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make peer: $$($(PYTHON) --version) is too old: install Python 3.11 or newer" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "make peer: $(PYTHON) cannot make virtual environments: install its venv module (Debian: python3-venv)" >&2; exit 1; }
	@rm -rf $(PEER)
	$(PYTHON) -m venv $(PEER)
	@$(PEER)/bin/python -m pip install --quiet --disable-pip-version-check -r $< || \
		{ echo "make peer: pip could not install $<, see above" >&2; exit 1; }
	@touch $@

NODE_MODULES := interop/node/node_modules

.PHONY: node
node: $(NODE_MODULES)/installed ## install the TypeScript client of the tests, when its lock file changed
	@:

$(NODE_MODULES)/installed: interop/node/package-lock.json
	@command -v npm >/dev/null || { echo "make node: no npm: install Node.js 20 or newer" >&2; exit 1; }
	@npm ci --prefix interop/node --prefer-offline --ignore-scripts --no-audit --no-fund --silent || \
		{ echo "make node: npm could not install $<, see above" >&2; exit 1; }
	@touch $@

# The tests start an engine of their own, or use the one that DOCKER_HOST names; here
# its programs are installed, where that needs nobody to be asked. Elsewhere the tests
# that need them say so.
.PHONY: engine
engine: ## install the container engine and registry of the tests (root, Debian)
	@command -v dockerd >/dev/null && command -v docker-registry >/dev/null && exit 0; \
	[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0; \
	echo "make engine: installing docker.io and docker-registry" >&2; \
	export DEBIAN_FRONTEND=noninteractive; \
	{ apt-get update -qq && apt-get install -qq -y --no-install-recommends docker.io docker-registry iproute2 util-linux; } >/dev/null || \
		{ echo "make engine: apt-get could not install them, see above" >&2; exit 1; }

# The race detector is C code.
.PHONY: need-cc
need-cc:
	@cc=$$($(GO) env CC); command -v "$${cc%% *}" >/dev/null || \
		{ echo "make test: no C compiler ($$cc): the race detector needs one, install gcc" >&2; exit 1; }
	@[ "$$($(GO) env CGO_ENABLED)" = 1 ] || \
		{ echo "make test: CGO_ENABLED is 0: the race detector needs cgo, set it to 1" >&2; exit 1; }

.PHONY: clean
clean: ## remove what the other targets made, the peer included
	rm -rf bin $(PEER) $(NODE_MODULES) coverage.out coverage.html
