# Everything here runs as root on Debian 12 with Go; `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
BED := test/bed/bed
IN_HUB := -exec '$(CURDIR)/$(BED) exec hub'
# One way to compile for all but the race detector: what is compiled for the image serves the
# tests and the linters too.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -buildvcs=false
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
SEEDS ?= 10000
FOR ?= 30m

.PHONY: help quickstart quickstart-down packages build manifests generate verify lint check test simulate integration e2e bench soak

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

quickstart: packages ## a Kubernetes cluster on this machine, the operator in it, a Valkey cluster that serves
	@test/quickstart/quickstart up

quickstart-down: ## remove all that quickstart made
	@test/quickstart/quickstart down

packages: ## install the Debian packages that all of this needs and the machine lacks
	@hack/packages.sh

build: ## the operator, static, in bin/
	go build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ ./cmd/...

manifests: ## release files in dist/: crds.json and operator.yaml (IMAGE=name:tag)
	@hack/release.sh "$(VERSION)" "$(IMAGE)"

generate: ## CRDs, clients and the API reference from pkg/apis
	hack/generate.sh

verify: ## fail where generated files, modules or known vulnerabilities are not in order
	hack/verify.sh
	go mod tidy -diff
	hack/vulncheck.sh

lint: ## gofmt, vet, staticcheck, shellcheck and the project's own bans
	hack/lint.sh

check: ## unit tests, scripts and a short simulation, with the race detector
	CGO_ENABLED=1 go test -race ./pkg/... ./cmd/... ./docs/... ./hack/...

test: packages lint verify check simulate integration e2e ## everything but the soak and the benchmarks; what CI runs

integration: ## the API's validation on a real API server, our client on real Valkey servers
	go test -count=1 ./test/integration/... ./test/monitor ./test/valkeyproc

simulate: ## SEEDS random worlds and every single fault
	go test -count=1 -timeout 40m ./pkg/valkey/plan -run 'TestSimulation$$|TestEverySingleFault' -seeds=$(SEEDS) -exhaustive
	go test -count=1 ./pkg/controller/valkeycluster -run TestDying -exhaustive

soak: ## random worlds for FOR=30m, then a real shard lost 20 times
	go test -count=1 -timeout 0 ./pkg/valkey/plan -run 'TestSimulation$$' -first=$$(date +%s)0000 -for=$(FOR) -v
	$(BED) up
	$(BED) images
	go test -count=1 -timeout 60m -v $(IN_HUB) ./test/e2e -run 'TestAWholeShardIsLostAgainAndAgain$$' -rounds=20

e2e: ## end to end on a real three-node cluster
	$(BED) up
	$(BED) images
	go test -count=1 -timeout 45m -parallel 3 -v $(IN_HUB) ./test/e2e

bench: ## beside valkey-cli: forming, scaling, rolling, failing over
	$(BED) up
	$(BED) images
	go test -count=1 -timeout 60m -v $(IN_HUB) ./test/bench
	go test -count=1 -run xxx -bench . -benchmem ./pkg/valkey/plan
	go test -count=1 -run xxx -bench . -benchtime 3x -v ./pkg/controller/valkeycluster
