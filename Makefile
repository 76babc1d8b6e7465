# Rhumb: what to type. `make help` prints the lines marked with ##.

GO ?= go
BIN := bin/rhumb
TOOL := $(GO) tool -modfile=tools/go.mod
SEEDS ?= 1000
FUZZTIME ?= 10s
COUNT ?= 6
BENCH ?= .
SOAK ?= 1h
TOPICS ?= 50000
MANY_TOPICS ?= $(TOPICS)
LINES ?= all
STORED ?= 20GiB
MEMORY ?= 1m
SOURCES := $(shell $(GO) list -f '{{.Dir}}' ./... 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: consul clients compat-tools compat-record help build check test race lint fmt mutants sim bench bench-matrix bench-lines many-topics soak memory restart fuzz cross tidy clean

help: ## print this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

build: ## build the binary into bin/
	CGO_ENABLED=0 $(GO) build -trimpath -o $(BIN) ./cmd/rhumb

check: lint mutants ## the quick one: lint, unit tests, planted bugs (at most 60 s with warm caches)
	$(GO) test -short $$($(GO) list ./... | grep -v '/e2e/')

test: consul ## all tests that a machine with Go can run, real processes and clients included (at most 15 min)
	$(GO) test -timeout 40m ./...

race: ## unit tests, and the simulation with fewer seeds, under the race detector
	$(GO) test -race -short -timeout 30m ./...

lint: ## gofmt, vet, staticcheck
	@unformatted=$$(gofmt -l $(SOURCES)); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...

compat-tools: ## what Kafka's command-line tools print of a region, compared with what they print of Kafka
	$(GO) test -count=1 -v -run 'TestKafkaTools' ./e2e/clients | grep -v '"level"'

compat-record: ## start a real Kafka from the jars of the tools, and keep its answers as golden files
	$(GO) test -count=1 -v -run 'TestKafkaTools|TestAnswersAreKafkas' ./e2e/clients -kafka

consul: ## build the Consul that tests run, once per machine: minutes at an empty cache
	$(GO) test -timeout 60m -count=1 -run TestConsulIsBuilt ./configstore/consul/consultest

clients: ## get the foreign clients that make test tries, into the cache folder (python3, node, mvn, javac must be there)
	e2e/clients/install.sh

mutants: ## plant each known bug and see that the models find it
	$(GO) test -tags mutants -run 'TestEveryMutantIsFound' ./dedup/... ./replicator/session/... ./replicator/paths/... ./broker/groups/...

sim: ## simulate SEEDS=1000 meshes of three regions, 10 virtual minutes each
	$(GO) test -run 'TestSimulation' -timeout 0 ./e2e/sim -sim.seeds $(SEEDS)

bench: ## benchmarks of the hot paths, against the previous commit, on this machine
	GO="$(GO)" COUNT=$(COUNT) BENCH='$(BENCH)' tools/bench.sh

soak: ## two regions at 70 % of full speed for SOAK=1h, with faults of the link: nothing grows, nothing is lost
	SOAK=$(SOAK) $(GO) test -count=1 -v -timeout 0 -run 'TestSoak$$' ./e2e/process

many-topics: ## TOPICS=50000 topics in two regions: made, written, copied, idle, restarted, a record a second
	MANY_TOPICS=$(MANY_TOPICS) $(GO) test -count=1 -v -timeout 0 -run 'TestManyTopics$$' ./e2e/process | grep -v '"level"'

memory: ## regions with limits.memory of 512 MiB under every load, each for MEMORY=1m: none ever takes more
	MEMORY=$(MEMORY) $(GO) test -count=1 -v -timeout 0 -run 'TestMemoryStaysBounded$$' ./e2e/process | grep -v '"level"'

restart: ## a region with STORED=20GiB is killed and started again, with and without its state database; TMPDIR says where
	STORED=$(STORED) $(GO) test -count=1 -v -timeout 0 -run 'TestRestartWithMuchStored$$' ./e2e/process | grep -v '"level"'

bench-matrix: ## the same work on Rhumb and its peers, which it installs: docs/benchmarks.md
	GO="$(GO)" tools/bench-matrix.sh

bench-lines: ## the same on LINES that delay, lose and break, as root: docs/benchmarks.md
	GO="$(GO)" tools/bench-matrix.sh lines "$(LINES)"

fuzz: ## run each fuzz target for FUZZTIME=10s
	GO="$(GO)" FUZZTIME=$(FUZZTIME) tools/fuzz.sh

cross: ## CGO-free builds for the supported platforms
	@for p in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
		echo "build $$p"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -o /dev/null ./cmd/rhumb || exit 1; \
	done

fmt: ## format the code
	gofmt -w $(SOURCES)

tidy: ## make go.mod and go.sum exact
	$(GO) mod tidy
	cd tools && $(GO) mod tidy
	cd tools/consul && $(GO) mod tidy
	cd tools/bench && $(GO) mod tidy

clean: ## remove what build made
	rm -rf bin
