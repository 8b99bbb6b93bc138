# The build needs Go, git and make; everything else is a Go module.

GO      ?= go
BIN     := bin/flagship
COMMANDS := flagship flagship-server flagship-agent
PACKAGES = ./...
# Without cgo the binary is static; -s -w drops 60 MB of symbols.
export CGO_ENABLED ?= 0
# The version that the API server serves is that of the Kubernetes it is built from.
K8S_VERSION := $(shell $(GO) list -m -f '{{.Version}}' k8s.io/kubernetes)
K8S_NUMBERS := $(subst ., ,$(K8S_VERSION:v%=%))
K8S_STAMP   := k8s.io/component-base/version
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)
STAMP   := github.com/flagship-k8s/flagship/internal/knowledge/version
# Without its tracing pages, which call methods by name, gRPC lets the linker leave out what the agent never calls: 20 MB of 72. The other
# commands link more that calls methods by name. Releases have the tag; `make build` has not, since it compiles most of Kubernetes once more.
AGENT_TAGS := grpcnotrace
LDFLAGS := -s -w \
	-X $(STAMP).release=$(VERSION) \
	-X $(STAMP).commit=$(COMMIT) \
	-X $(K8S_STAMP).gitVersion=$(K8S_VERSION) \
	-X $(K8S_STAMP).gitMajor=$(word 1,$(K8S_NUMBERS)) \
	-X $(K8S_STAMP).gitMinor=$(word 2,$(K8S_NUMBERS)) \
	-X $(K8S_STAMP).gitTreeState=clean

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  \033[1m%-16s\033[0m %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/flagship, bin/flagship-server and bin/flagship-agent (the first build compiles Kubernetes: about four minutes on two cores).
	@mkdir -p bin
	$(GO) build -ldflags "$(LDFLAGS)" -o bin/ $(COMMANDS:%=./cmd/%)

.PHONY: demo
demo: build ## Start a control plane with two members, propagate nginx, show its status come back.
	@$(BIN) demo

# What runs tests says what they cost: the slowest, and what was skipped and why.
SUITE = $(GO) run ./internal/tools/suite
# The commit that a change is compared with: BASE=COMMIT, or see hack/base.sh.
CHANGED_SINCE = $(shell ./hack/base.sh)

.PHONY: check
check: verify-format verify-generated ## Check a change before its commit: format, generated files, layout, vet, linters, unit tests that it reaches, a dozen tests of the pipeline.
	$(GO) test ./internal/
	@$(MAKE) --no-print-directory lint-change test-change smoke

.PHONY: test-change
test-change: ## Run the unit tests of the packages that the change reaches.
	$(SUITE) unit --reached $(CHANGED_SINCE) $(PACKAGES)

.PHONY: smoke
# One control plane with two members: an object arrives, changes, scales, is suspended, drifts, is deleted, and its status comes back.
smoke: build ## Run a dozen tests of the pipeline on one fleet.
	FLAGSHIP_BINARY=$(abspath $(BIN)) $(GO) test -vet=off -count=1 -timeout 10m -run '$(SMOKE)' ./test/pipeline/

SMOKE := ^(TestDeploymentReaches|TestScaling|TestDeletionRemoves|TestASuspendedWork|TestDrift|TestReplicasGoWhere|TestACustomResourceBrings|TestAFieldOf)

.PHONY: test
# FLAGSHIP_FAULT_KILLS=20 kills the control plane of test/faults more often than 8 times, at random points; FLAGSHIP_FAULT_SEED=N repeats
# the points of a run.
test: build ## Run the tests that guard a change; needs nothing but Go. What takes long and guards little is in test-nightly.
	FLAGSHIP_BINARY=$(abspath $(BIN)) $(SUITE) all $(PACKAGES)

.PHONY: test-nightly
test-nightly: build ## Run every test, also those that take long: upgrades, migration, versions side by side (builds the previous version).
	FLAGSHIP_BINARY=$(abspath $(BIN)) FLAGSHIP_NIGHTLY=1 $(SUITE) all $(PACKAGES)

.PHONY: test-pull-mode
# test/placement has no members: its Clusters are in Pull mode, without agents, and both modes are the same there. Tests that cannot
# apply in Pull mode call fleettest.NeedsPushMode with the reason: grep -r NeedsPushMode test
test-pull-mode: build ## Run the tests of the pipeline with members in Pull mode; TESTS=Deletion takes only those whose name matches.
	FLAGSHIP_BINARY=$(abspath $(BIN)) FLAGSHIP_TEST_SYNC_MODE=Pull $(GO) test -vet=off -count=1 -timeout 25m -run '$(TESTS)' ./test/pipeline/

.PHONY: soak
# With FAULTS=1000 it ends after as many faults, in about 36 minutes; with both FOR and FAULTS, after the first of both.
soak: build ## Do what users do and what fails, by a seed, for as long as told: make soak FOR=10m, or FAULTS=1000, and SEED=1 to repeat a run.
	FLAGSHIP_BINARY=$(abspath $(BIN)) FLAGSHIP_SOAK=$(or $(FOR),$(if $(FAULTS),,10m)) FLAGSHIP_SOAK_FAULTS=$(FAULTS) FLAGSHIP_SOAK_SEED=$(SEED) \
		$(GO) test -vet=off -v -count=1 -timeout 24h ./test/soak

.PHONY: hostile
hostile: build ## Have the API servers of two members do harm, by a seed, for as long as told: make hostile FOR=1h, and SEED=1 to repeat a run.
	FLAGSHIP_BINARY=$(abspath $(BIN)) FLAGSHIP_HOSTILE=$(or $(FOR),1h) FLAGSHIP_HOSTILE_SEED=$(SEED) \
		$(GO) test -vet=off -v -count=1 -timeout 24h -run TestAHostileMember ./test/attacks

.PHONY: test-unit
test-unit: ## Run the tests that start no server.
	$(SUITE) unit $(PACKAGES)

.PHONY: test-dra
test-dra: build ## Run a resource driver built on the libraries of Kubernetes 1.30 against the hub (its own module).
	cd test/dra-driver && FLAGSHIP_BINARY=$(abspath $(BIN)) $(GO) test -count=1 -timeout 10m ./...

.PHONY: test-observability
test-observability: ## Run the alerts and check the dashboard of deploy/observability with Prometheus' engine (its own module).
	cd test/observability && $(GO) test -count=1 ./...

.PHONY: test-conformance
test-conformance: build ## Run Kubernetes' own end-to-end tests of API machinery against the hub (its own module; about half an hour).
	cd test/conformance && FLAGSHIP_BINARY=$(abspath $(BIN)) $(GO) test -vet=off -count=1 -parallel 8 -timeout 90m ./...

.PHONY: test-clients
test-clients: build ## Run Helm 3 and 4, kstatus, controller-runtime and kubectl's rollout against a hub with two members (its own module).
	cd test/clients && FLAGSHIP_BINARY=$(abspath $(BIN)) $(GO) test -vet=off -count=1 -timeout 30m ./...

.PHONY: test-chart
test-chart: build ## Lint charts/flagship, check its objects with kubeconform, run its containers, install it in a member (its own module); TESTS=Lint takes only those that match.
	cd test/chart && FLAGSHIP_BINARY=$(abspath $(BIN)) $(GO) test -vet=off -count=1 -timeout 15m -run '$(TESTS)' ./...

.PHONY: test-skew
# providerless leaves out the clients of cloud providers, which 1.30 has.
test-skew: build ## Run the real API server of an older Kubernetes as a member: make test-skew KUBERNETES=1.30, or 1.34, or 1.36 (the first build of each takes minutes).
	@mkdir -p $(OLDER)
	cd test/skew/v$(KUBERNETES) && $(GO) build -tags providerless -ldflags "-s -w $(OLDER_STAMP)" -o $(OLDER) tool
	FLAGSHIP_BINARY=$(abspath $(BIN)) FLAGSHIP_SKEW_VERSION=$(KUBERNETES) FLAGSHIP_SKEW_PROGRAMS=$(OLDER) $(GO) test -count=1 -timeout 20m ./test/skew

KUBERNETES ?= 1.30
OLDER = $(abspath bin)/kubernetes-$(KUBERNETES)
OLDER_STAMP = -X $(K8S_STAMP).gitVersion=$(shell cd test/skew/v$(KUBERNETES) && $(GO) list -m -f '{{.Version}}' k8s.io/kubernetes) \
	-X $(K8S_STAMP).gitMajor=1 -X $(K8S_STAMP).gitMinor=$(KUBERNETES:1.%=%) -X $(K8S_STAMP).gitTreeState=clean

.PHONY: test-clocks
test-clocks: build ## Run servers whose clocks are an hour off (compiles a server with another clock, for some minutes).
	FLAGSHIP_BINARY=$(abspath $(BIN)) FLAGSHIP_TEST_CLOCKS=1 $(GO) test -vet=off -count=1 -timeout 20m -run TestClocksOfServersAreOff ./test/servers

.PHONY: test-crds
test-crds: build ## Carry definitions in wide use (cert-manager, Gateway API, Cluster API, Prometheus, Karpenter) to members; downloads them.
	FLAGSHIP_BINARY=$(abspath $(BIN)) FLAGSHIP_REAL_DEFINITIONS=1 $(GO) test -count=1 -timeout 20m ./test/crds/

.PHONY: test-race
# A compiler with the race detector compiles every dependency anew: the gate runs it on the packages that changed, a nightly run on all.
test-race: ## Run the race detector on the packages that do not link the API server (needs a C compiler).
	$(RACE) $(PACKAGES)

.PHONY: test-race-change
test-race-change: ## Run the race detector on those of them that changed.
	$(RACE) --changed $(CHANGED_SINCE) $(PACKAGES)

RACE = @command -v $${CC:-cc} >/dev/null || { echo "the race detector needs a C compiler: install gcc, or set CC"; exit 1; }; \
	CGO_ENABLED=1 $(SUITE) race --timeout 20m

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (20s); FUZZ=Override takes only those whose name or package matches.
	./hack/fuzz.sh $(FUZZTIME) $(FUZZ)

FUZZTIME ?= 20s

.PHONY: fuzz-short
fuzz-short: ## Fuzz overrides, interpreter scripts, policies and Works only, each target for FUZZTIME.
	./hack/fuzz.sh $(FUZZTIME) '(override|interpret/declarative|policy|propagate|apply)/'

.PHONY: fuzz-change
fuzz-change: ## Fuzz the targets of the packages that changed, each for FUZZTIME.
	./hack/fuzz.sh $(FUZZTIME) '$(FUZZ_CHANGED)'

# A pattern of the directories, or of none.
FUZZ_CHANGED = ^($(shell $(SUITE) list all --changed $(CHANGED_SINCE) $(PACKAGES) | sed 's|^github.com/flagship-k8s/flagship/||' | paste -sd '|'))/[^/]*:

.PHONY: bench
bench: build ## Measure the pipeline end to end and print a table and JSON; BENCH="--only f" measures ten thousand Works.
	@$(BIN) bench $(BENCH) --json bin/bench.json && cat bin/bench.json

.PHONY: bench-schedule
bench-schedule: build ## Measure the scheduler: pure decisions, then 10,000 bindings on 1,000 clusters and 10,000 objects under one policy.
	$(GO) test -run '^$$' -bench 'Schedule|First' -benchmem ./internal/pipeline/schedule/decision/profile
	@$(BIN) bench schedule
	@$(BIN) bench crowd

.PHONY: bench-service
bench-service: build ## Measure how long endpoints take from the member that provides them to those that consume them.
	@$(BIN) bench services

.PHONY: bench-fleet
bench-fleet: build ## Measure a control plane with 200 members that are light stand-ins; BENCH="--members 1000 --gone 200" measures more.
	@$(BIN) bench fleet $(BENCH) --json bin/bench-fleet.json

.PHONY: release
release: bin/goreleaser bin/syft ## Publish what .goreleaser.yaml describes, from a tagged commit (needs the rights to publish).
	PATH="$(abspath bin):$$PATH" LDFLAGS="$(LDFLAGS)" bin/goreleaser release --clean --timeout 3h

.PHONY: release-check
# Not in the gate: goreleaser links the clients of all clouds, which takes three minutes of processor time to build.
release-check: bin/goreleaser ## Check .goreleaser.yaml.
	LDFLAGS="$(LDFLAGS)" bin/goreleaser check

.PHONY: release-snapshot
# The first time compiles Kubernetes for four platforms: the better part of an hour on two cores.
release-snapshot: bin/goreleaser bin/syft ## Build the archives, packages, their SBOMs and the plugin's manifest in dist/, without images and publishing.
	PATH="$(abspath bin):$$PATH" LDFLAGS="$(LDFLAGS)" bin/goreleaser release --snapshot --clean --skip=ko --timeout 3h

.PHONY: test-images
# With --snapshot, goreleaser gives images to a Docker daemon, which a machine may lack.
test-images: bin/goreleaser ## Make the images of .goreleaser.yaml for this platform, in a registry inside the test (its own module).
	cd hack/goreleaser && LDFLAGS="$(LDFLAGS)" $(GO) test -vet=off -count=1 -timeout 40m ./...

.PHONY: test-reproducible
test-reproducible: ## Build flagship-agent twice as a release does, the second time without a build cache, and compare the bytes (minutes).
	TAGS="$(AGENT_TAGS)" LDFLAGS="$(LDFLAGS)" LARGEST=60000000 ./hack/reproducible.sh flagship-agent

.PHONY: release-files
# The date of manual pages is that of the commit, so that two builds have the same bytes.
release-files:
	rm -rf bin/release
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(GO) run ./internal/tools/reference manual bin/release/manual
	$(GO) run ./internal/tools/reference completions bin/release/completions

bin/goreleaser: hack/goreleaser/go.mod
	@mkdir -p bin
	cd hack/goreleaser && $(GO) build -o ../../bin/goreleaser github.com/goreleaser/goreleaser/v2

bin/syft: hack/syft/go.mod
	@mkdir -p bin
	cd hack/syft && $(GO) build -trimpath -ldflags "-s -w" -o ../../bin/syft github.com/anchore/syft/cmd/syft

.PHONY: generate
# A chart cannot read files outside its directory.
generate: ## Regenerate deepcopy functions, CRDs, OpenAPI definitions, docs/reference, the dependency lists and the files of the chart.
	$(GO) generate ./api/...
	rm -rf docs/reference && $(GO) run ./internal/tools/reference pages docs/reference
	@for command in $(COMMANDS); do ./hack/dependencies.sh $$command > hack/dependencies-$$command.txt; done
	cp deploy/observability/rules.yaml deploy/observability/dashboard.json charts/flagship/files/

.PHONY: fmt
fmt: ## Format the code.
	gofmt -w api cmd examples hack internal test

.PHONY: verify
verify: verify-format verify-generated verify-dependencies ## Check formatting, generated code, go vet, the layout of the code and the dependency lists.
	$(GO) vet $(PACKAGES)
	$(GO) test ./internal/

.PHONY: lint-change
lint-change: bin/golangci-lint ## Run the linters on the packages that changed; they include go vet.
	@packages=$$($(SUITE) list any --changed $(CHANGED_SINCE) $(PACKAGES) | sed 's|^github.com/flagship-k8s/flagship|.|'); \
		if [ -n "$$packages" ]; then bin/golangci-lint run $$packages; else echo "no package changed"; fi

.PHONY: lint
lint: bin/golangci-lint ## Run the linters of .golangci.yml (about ten minutes without their cache, since they also read the dependencies).
	bin/golangci-lint run $(PACKAGES)

bin/golangci-lint: hack/tools/go.mod hack/tools/golangci-lint/main.go
	@mkdir -p bin
	cd hack/tools && $(GO) build -o ../../bin/golangci-lint ./golangci-lint

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities in what is linked (needs the network).
	$(GO) tool -modfile=hack/tools/go.mod govulncheck $(COMMANDS:%=./cmd/%)

.PHONY: verify-format
verify-format:
	@out=$$(gofmt -l api cmd examples hack internal test); if [ -n "$$out" ]; then \
		echo "not formatted:"; echo "$$out"; echo "run: make fmt"; exit 1; fi

.PHONY: verify-generated
verify-generated:
	@./hack/verify-generated.sh

.PHONY: verify-dependencies
verify-dependencies:
	@for command in $(COMMANDS); do ./hack/dependencies.sh $$command | diff -u hack/dependencies-$$command.txt - || \
		{ echo "the modules linked into $$command changed: give the reason in the commit, then run make generate"; exit 1; }; done

.PHONY: clean
clean: ## Remove what was built.
	rm -rf bin
