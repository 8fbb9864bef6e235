# All targets need Go and make. In addition race needs a C compiler, compose needs npx, polyglot needs
# node, npm and a python3 with cbor2, and browser needs chromium and npm. All targets compile with Go's default flags, so they share one build
# cache with `go run` and `go test`.

.DELETE_ON_ERROR:

ONLY     ?=
REPEATS  ?= 5
CORPUS   ?=
RUNS     ?= full
PKG      ?= ./...
RUN      ?= .
N        ?= 100
SEEDS    ?= 100000
BUSY     ?= 0
P        ?= 1
PARALLEL ?= 0
RACE     ?=

# The programs that make build compiles beside the command castnet.
PROGRAMS := ./cmd/hostd ./examples/wordcount

# The tests of these packages take longest, so they begin first.
LONG    := ./mesh ./integration ./cmd/client ./actor ./internal/link ./cast

# Tests mostly wait, so more run at once than there are processors.
CPUS    := $(shell getconf _NPROCESSORS_ONLN)
TOGETHER = -p $(shell expr $(CPUS) + 2) -parallel $(shell expr $(CPUS) + 4)

# The race detector finds nothing here: packages without goroutines, tools, and tests of programs that are
# built without it.
ALONE   := internal/wire|shape|internal/supervise|subjects|scripts/.*|integration|cmd/client|cmd/client/.*|cmd/hostd|examples/.*

# Nested modules to lint.
NESTED  := bench otelcastnet integration/faults integration/hostile integration/polyglot integration/browser integration/collector integration/consumer

# Releases are compiled with this profile, and `make bench PGO=$(PROFILE)` measures with it. Other builds have none: with
# one, go compiles the standard library again for each program.
PROFILE  := packaging/castnet.pgo
PROFILED := ^(call-latency|cast-(gather|reduce)-(64|4096)|remote-(ask-p50|tell-(64B|1KiB|1MiB))-nats|gateway-casts-per-second)$$
PGO      ?=

# Not in tools/go.mod: its hundreds of modules would choose versions for the others.
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.DEFAULT_GOAL := help
.PHONY: help ready build listened demo test race locks long stress bench pgo faults polyglot browser staticcheck lint fmt tools compose consumer clean

help: ## print this
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

ready:
	@scripts/preflight.sh $(NEEDS)

build: ready ## bin/hostd, bin/castnet and bin/wordcount
	@scripts/compile.sh build -o bin/ $(PROGRAMS)
	@scripts/compile.sh build -o bin/castnet ./cmd/client

listened: ## the integration tests beside a wildcard subscriber, then beside a stream over everything
	CASTNET_INTEGRATION_LISTENER=wildcard go test -vet=off -count 1 -timeout 5m ./integration
	CASTNET_INTEGRATION_LISTENER=stream go test -vet=off -count 1 -timeout 5m ./integration

demo: build ## count words on two hosts, kill a proc, see it noticed; CORPUS=dir picks the files
	@bin/wordcount --hostd bin/hostd $(if $(CORPUS),'$(CORPUS)')

test: NEEDS := --nats
test: build bin/nats ## vet, and every test without the race detector
	@scripts/compile.sh vet ./...
	go test -vet=off $(TOGETHER) -timeout 10m $(LONG) ./...

race: ## the tests of packages with goroutines, under the race detector
	@scripts/preflight.sh --race
	go test -race -vet=off $(TOGETHER) -timeout 15m $(filter-out $(addprefix ./,$(subst |, ,$(ALONE))),$(LONG)) $$(go list ./... | grep -vE '/castnet$$|/($(ALONE))$$')

stress: ready ## repeat tests: PKG="./bus ./actor" RUN=TestX N=1000 BUSY=4 P=1 RACE=1; GOMAXPROCS applies
	@go run ./scripts/stress -n '$(N)' -busy '$(BUSY)' -p '$(P)' -parallel '$(PARALLEL)' -run '$(RUN)' $(if $(RACE),-race) $(PKG)

locks: ready ## tests with mutexes that report two locks taken in both orders; PKG="./actor ./cast"
	@go run ./scripts/locks $(PKG)

long: ## series of minutes: SEEDS=100000 of simulated links, a cast to 100,000 ranks, 1,000 meshes, a million actors
	@CASTNET_TEST_LONG=1 go test -count 1 -timeout 20m -v -run 'HundredThousandRanks|MillionActors|thatComeAndGo|thatLeave|TestModel_actors|TestBurst|TestModel_histories|TestUnmarshal_largeBody|TestLaunch_storm' ./cast ./actor ./agent/host ./gateway ./integration ./internal/wire ./internal/launch ./mesh
	@go test -count 1 -timeout 20m -v -run TestSimulation ./internal/link -link.seeds '$(SEEDS)'

bench: ## castnet beside raw NATS and other actor libraries; ONLY=regexp picks rows, REPEATS=n
	@go run -C bench $(if $(PGO),-pgo '$(CURDIR)/$(PGO)') . -only '$(ONLY)' -repeats '$(REPEATS)'

pgo: ## profile the benchmarks into $(PROFILE), which releases are compiled with
	rm -rf bin/profiles && mkdir -p bin/profiles
	go run -C bench -trimpath . -profiles '$(CURDIR)/bin/profiles' -repeats 2 -only '$(PROFILED)'
	go tool pprof -proto -output $(PROFILE) bin/profiles/*.pprof

faults: ## break processes, servers and connections under load, for hours; ONLY=regexp picks, RUNS=n of each
	@FAULTS_RUNS='$(RUNS)' go test -C integration/faults -count 1 -timeout 24h -run '$(ONLY)'

polyglot: build bin/nats ## cast from nats, Node.js and Python, and check spec/ and the page about it
	@for tool in node npm python3; do command -v $$tool >/dev/null || { echo "polyglot: there is no $$tool: install it" >&2; exit 1; }; done
	npm ci --loglevel error --prefix integration/polyglot/node
	go test -C integration/polyglot -count 1 -timeout 4m ./...

browser: build ## drive the live page in Chromium, check it with axe-core, and measure it
	@for tool in chromium npm; do command -v $$tool >/dev/null || { echo "browser: there is no $$tool: install it" >&2; exit 1; }; done
	npm ci --loglevel error --prefix integration/browser/axe
	go test -C integration/browser -count 1 -parallel 3 -timeout 6m -v ./...

staticcheck: bin/staticcheck
	bin/staticcheck ./...

lint: staticcheck bin/golangci-lint bin/deadcode ## staticcheck, golangci-lint, and dead code
	@for dir in . $(NESTED); do echo "golangci-lint: $$dir"; (cd $$dir && '$(CURDIR)/bin/golangci-lint' run ./...) || exit 1; done
	bin/staticcheck -tests=false -checks U1000 ./...
	@dead=$$(bin/deadcode -test ./... | grep -v 'func: [A-Za-z]*\.effect$$'); if [ -n "$$dead" ]; then echo "$$dead"; exit 1; fi

fmt: ## gofmt every file
	gofmt -l -w .

tools: bin/staticcheck bin/deadcode bin/nats bin/nats-server bin/golangci-lint ## the pinned tools, into bin/

compose: ## lint docker-compose.yml and run its services as processes
	scripts/compose-check.sh

consumer: ## build and run a program that imports castnet
	go run -C integration/consumer .

clean: ## remove bin/
	rm -rf bin

bin/staticcheck: TOOL := honnef.co/go/tools/cmd/staticcheck
bin/deadcode:    TOOL := golang.org/x/tools/cmd/deadcode
bin/nats:        TOOL := github.com/nats-io/natscli/nats
bin/nats-server: TOOL := github.com/nats-io/nats-server/v2
bin/staticcheck bin/deadcode bin/nats bin/nats-server: tools/go.mod tools/go.sum
	GOGC=$${GOGC:-400} go build -C tools -o ../bin/ $(TOOL)
	@touch $@

bin/golangci-lint: Makefile
	GOBIN="$(CURDIR)/bin" go install $(GOLANGCI)
	@touch $@
