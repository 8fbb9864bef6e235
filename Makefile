# Nothing here needs more than Go, make and a C compiler (for the race detector),
# except that compose wants npx, and polyglot node, npm and a python3 that has cbor2.

.DELETE_ON_ERROR:

ONLY    ?=
REPEATS ?= 5
CORPUS  ?=
RUNS    ?= full

# Packages whose tests take minutes, most of them waiting: they begin first.
LONG    := ./mesh ./integration ./cmd/client ./actor ./internal/link ./cast

# Modules of their own, which are linted too; those of other libraries are not.
NESTED  := bench integration/faults integration/polyglot integration/consumer

# Not in tools/go.mod: its hundreds of modules would choose versions for the others.
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

.DEFAULT_GOAL := help
.PHONY: help build test vetted raced demo bench faults polyglot lint fmt tools compose consumer clean

help: ## print this
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/hostd and bin/client
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/hostd ./cmd/client

test: ## vet, staticcheck, and every test under the race detector
	@$(MAKE) --no-print-directory -j 2 vetted raced

vetted: bin/staticcheck
	go vet ./...
	bin/staticcheck ./...

raced: bin/nats # vetted vets
	go test -race -vet=off -p 4 -parallel 6 -timeout 10m $(LONG) ./...

demo: ## count words on two hosts, kill a proc, see it noticed; CORPUS=dir picks the files
	go build -o bin/ ./cmd/hostd
	go run ./examples/wordcount --hostd bin/hostd $(if $(CORPUS),'$(CORPUS)')

bench: ## ours against raw NATS, a floor and other libraries; ONLY=regexp picks rows, REPEATS=n
	@go run -C bench . -only '$(ONLY)' -repeats '$(REPEATS)'

faults: ## break processes, servers and connections under load, for hours; ONLY=regexp picks, RUNS=n of each
	@FAULTS_RUNS='$(RUNS)' go test -C integration/faults -count 1 -timeout 24h -run '$(ONLY)'

polyglot: build bin/nats ## cast from nats, Node.js and Python, and check spec/ and the page about it
	@for tool in node npm python3; do command -v $$tool >/dev/null || { echo "polyglot: there is no $$tool: install it" >&2; exit 1; }; done
	npm ci --loglevel error --prefix integration/polyglot/node
	go test -C integration/polyglot -count 1 -timeout 4m ./...

lint: bin/golangci-lint bin/staticcheck bin/deadcode ## golangci-lint, and functions that no program and no test reaches
	@for dir in . $(NESTED); do echo "golangci-lint: $$dir"; (cd $$dir && '$(CURDIR)/bin/golangci-lint' run ./...) || exit 1; done
	bin/staticcheck -tests=false -checks U1000 ./...
	@dead=$$(bin/deadcode -test ./... | grep -v 'func: [A-Za-z]*\.effect$$'); if [ -n "$$dead" ]; then echo "$$dead"; exit 1; fi

fmt: ## gofmt every file
	gofmt -l -w .

tools: bin/staticcheck bin/deadcode bin/nats bin/nats-server bin/golangci-lint ## the pinned tools, into bin/

compose: ## lint docker-compose.yml and run its services as processes
	scripts/compose-check.sh

consumer: ## build and run a program that imports castnet as its users do
	go run -C integration/consumer .

clean: ## remove bin/
	rm -rf bin

bin/staticcheck: PKG := honnef.co/go/tools/cmd/staticcheck
bin/deadcode:    PKG := golang.org/x/tools/cmd/deadcode
bin/nats:        PKG := github.com/nats-io/natscli/nats
bin/nats-server: PKG := github.com/nats-io/nats-server/v2
bin/staticcheck bin/deadcode bin/nats bin/nats-server: tools/go.mod tools/go.sum
	go build -C tools -o ../bin/ $(PKG)
	@touch $@

bin/golangci-lint: Makefile
	GOBIN="$(CURDIR)/bin" go install $(GOLANGCI)
	@touch $@
