# gorun's verbs. `make help` lists them; CONTRIBUTING.md says when to use which.

GO       ?= go
# The file VERSION names a release. A version that ends in -dev and a changed tree have the commit as well.
RELEASE  := $(shell cat VERSION)
COMMIT   := $(shell git describe --always --abbrev=12 --dirty --exclude '*' 2>/dev/null)
VERSION  ?= $(RELEASE)$(if $(findstring -d,$(RELEASE)$(COMMIT)),$(addprefix +,$(COMMIT)))
TAGS     := urfave_cli_no_docs
LDFLAGS  := -s -w -X gorun/internal/version.Version=$(VERSION)
GOBUILD   = CGO_ENABLED=0 $(GO) build -trimpath -tags $(TAGS) -ldflags "$(LDFLAGS)"
# With cgo for NVIDIA's library, which is bound function by function when it is called (-z lazy): the driver's may lack some.
GPUBUILD  = CGO_ENABLED=1 CGO_CFLAGS="-Wno-deprecated-declarations $$cflags" \
	$(GO) build -trimpath -tags $(TAGS) -ldflags "$(LDFLAGS) -extldflags=-Wl,-z,lazy"
# The linker writes a file page by page, and so the page cache keeps it. A file written in large pieces has large folios there, and
# until the cache drops them gorun starts with a third fewer page faults, in a quarter less time.
REWRITE   = dd if=$(1) of=$(1).new bs=4M status=none && chmod +x $(1).new && mv $(1).new $(1)

# Where `make gorun` puts it.
BIN      ?= bin
# What launches spend their time on: compiled by it, one of one rank takes 3 % less. It compiles Go's library, too; PGO=off saves that.
PGO      ?= cmd/gorun/launch.pgo

.DEFAULT_GOAL := help
.PHONY: help build gorun agents profile gorun-gpu static static-gpu wheel release roots demo test test-faults slowest race lint fuzz bench soak docs site site-test report-test man gpu api module clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: gorun gorun-gpu ## bin/gorun for this machine (static, no cgo), its other name bin/torchrun, and bin/gorun-gpu (cgo)

gorun static: private TAGS := $(TAGS),agents

gorun: agents
	$(GOBUILD) -pgo=$(PGO) -o $(BIN)/gorun ./cmd/gorun
	@$(call REWRITE,$(BIN)/gorun)
	@ln -sf gorun $(BIN)/torchrun

# What gorun copies to other hosts: the tag agents makes it a part of gorun.
AGENTS := launcher/internal/reach/bootstrap/agents
agents:
	@mkdir -p $(AGENTS)
	for arch in amd64 arm64; do \
		GOOS=linux GOARCH=$$arch $(GOBUILD) -o $(AGENTS)/agent-$$arch ./launcher/internal/agentprogram || exit; \
	done
	$(GO) run -C .ci/tools ./pack $(addprefix $(CURDIR)/$(AGENTS)/,INDEX agent-amd64 agent-arm64)

profile: ## cmd/gorun/launch.pgo: what `make gorun` compiles by
	CGO_ENABLED=0 $(GO) test -trimpath -tags $(TAGS) -run '^$$' -bench Launch -benchtime 1500x -o build/launch.test \
		-cpuprofile $(CURDIR)/cmd/gorun/launch.pgo ./cmd/gorun

gorun-gpu:
	@rm -f bin/gorun-gpu; cc=$$($(GO) env CC); \
	if ! command -v $${cc%% *} >/dev/null; then \
		echo "bin/gorun-gpu is left out, as there is no C compiler ($$cc): NVLinks, memory, MIG and users of NVIDIA's GPUs will not be known, and there is no gorun bench"; \
	else set -x; $(GPUBUILD) -o bin/gorun-gpu ./cmd/gorun && $(call REWRITE,bin/gorun-gpu); fi

ARCHS    ?= amd64 arm64
DIST     ?= build/dist
static: agents ## build/gorun-linux-amd64 and build/gorun-linux-arm64
	for arch in $(ARCHS); do \
		GOOS=linux GOARCH=$$arch $(GOBUILD) -pgo=$(PGO) -o build/gorun-linux-$$arch ./cmd/gorun || exit; \
	done

# With any glibc since 2012: Zig's C compiler has the symbols of each, for each architecture. Go's build ID would depend on the folder.
static-gpu: private LDFLAGS += -buildid=
static-gpu: ## build/gorun-gpu-linux-amd64 and build/gorun-gpu-linux-arm64, for glibc 2.17 and later
	.ci/setup-venv zig
	@mkdir -p build/zig
	nvml=$$($(GO) list -f '{{.Dir}}/nvml.h' github.com/NVIDIA/go-nvml/pkg/nvml) && \
	weak=$$(grep -oE 'nvml[A-Z]\w* *\(' $$nvml | tr -d ' (' | sort -u | sed 's/.*/__asm__(".weak &");/') && \
	header=nvml-$$(echo "$$weak" | cksum | cut -d ' ' -f 1).h && \
	printf '#ifndef __ASSEMBLER__\n%s\n#endif\n' "$$weak" >build/zig/$$header && \
	for arch in $(ARCHS); do \
		cpu=$$(echo $$arch | sed 's/amd64/x86_64/; s/arm64/aarch64/'); cflags="-O2 -include $$header"; \
		export PATH="$(CURDIR)/packaging:$$PATH" CC="zigcc $$cpu-linux-gnu.2.17" GOOS=linux GOARCH=$$arch; \
		$(GPUBUILD) -o build/gorun-gpu-linux-$$arch ./cmd/gorun || exit; \
	done

# WHEEL_GPU= leaves gorun-gpu out, and so Zig.
WHEEL_GPU ?= static-gpu
wheel: private TAGS := $(TAGS),agents
wheel: static $(WHEEL_GPU) man ## gorun-launcher for pip and uv, in build/dist
	@mkdir -p build/completions
	for shell in bash zsh fish; do \
		CGO_ENABLED=0 $(GO) run -trimpath -tags $(TAGS) -pgo=$(PGO) ./cmd/gorun completion $$shell >build/completions/$$shell || exit; \
	done
	packaging/notices $(TAGS) >build/THIRD-PARTY-NOTICES
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) python3 packaging/wheel/build.py $(if $(WHEEL_GPU),--gpu build) \
		"$(VERSION)" "$(DIST)" $(ARCHS)

roots: ## install a release on clean systems (Debian 11 to 13, arm64, musl), use it, remove it: nothing may be left
	rm -rf build/roots/dist
	DIST=build/roots/dist packaging/release/build
	packaging/roots build/roots/dist

release: ## tarballs, deb, rpm, an OCI image, wheels, SBOMs and checksums of the last commit, in build/dist
	packaging/release/build

# A rank for each CPU, but two at least and four at most: more have too little to do.
DEMO_RANKS = $(shell n=$$(nproc); echo $$((n < 2 ? 2 : n > 4 ? 4 : n)))

demo: build ## Go ranks learn to read handwritten digits together, then one alone (needs a C compiler, for package comm)
	bin/gorun -n $(DEMO_RANKS) ./examples/trainer -hidden 1024 -batch 256

test: ## install what the tests need into .venv, then run them all; our own packages with the race detector
	.ci/test

test-faults: ## kill jobs in every way and look for leftovers (part of make test)
	.ci/test faults

slowest: ## the packages and tests that took longest in the last make test, in seconds
	@awk -F '\t' '{ print $$1, $$3, $$4 }' build/test-times | sort -rn | head -n 60

race: export GOFLAGS ?= -trimpath
race: ## the tests of our own packages, with the race detector where goroutines are, without real peers and what lint tests
	.ci/test race

lint: ## formatting, vet, staticcheck, gosec, govulncheck, architecture, words, help, arm64
	.ci/lint

fuzz: ## every Fuzz function for FUZZTIME (1m) each
	.ci/fuzz

gpu: build ## every check that needs NVIDIA's GPUs, and one report, build/gpu.md; without a GPU it says "not run"
	@mkdir -p build/gpu
	CGO_ENABLED=1 $(GO) test -c -trimpath -o build/gpu/nccl.test ./comm/internal/nccl || echo "gpu: comm's own tests are left out"
	$(GO) build -trimpath -o build/gpu/check ./internal/gpucheck
	build/gpu/check

bench: build ## gorun against its peers on this machine, interleaved, in 25 minutes; prints the targets that it misses
	.ci/setup
	XDG_STATE_HOME=$(CURDIR)/build/bench $(GO) run ./internal/bench -gorun bin/gorun -json build/bench -quick -page -within 22m

soak: ## the tests with full counts, then fuzzing: hours
	GORUN_SOAK=1 .ci/test
	$(MAKE) site-test report-test
	packaging/release/test
	.ci/fuzz

docs: ## write the generated tables of docs/ again from the code's own tables
	$(GO) generate ./...
	python3 packaging/wheel/reference.py

site: ## build/site: README, docs and examples as pages with search
	.ci/setup-venv site
	.venv-site/bin/python docs/site/build.py build/site

site-test: site ## test the site in Debian's chromium: links, search, a telephone's width, light and dark
	.venv-site/bin/python -m pip install --quiet --disable-pip-version-check 'playwright~=1.65'
	.venv-site/bin/python docs/site/test.py build/site

report-test: gorun ## test gorun report's page in Debian's chromium, and its trace in Perfetto's trace processor
	.ci/setup-venv report
	.venv-report/bin/python cmd/gorun/testdata/report.py $(BIN)/gorun

# Of what `make gorun` has compiled.
man: private TAGS := $(TAGS),agents
man: agents ## build/man: gorun(1), and a page for each command and topic
	SOURCE_DATE=$$(git log -1 --format=%cs) CGO_ENABLED=0 $(GO) test -trimpath -tags $(TAGS) -pgo=$(PGO) -vet=off -count=1 ./cmd/gorun -run '^TestManualPages$$' -man "$(CURDIR)/build/man"

api: ## record in .ci/api.zip what other modules may import; lint refuses what breaks it
	@mkdir -p build
	$(GO) tool -modfile=.ci/tools/go.mod apidiff -m -w build/api.zip "$$($(GO) list -m)"
	python3 .ci/api.py build/api.zip .ci/api.zip

module: ## gives the module another path, in all files: MODULE=example.org/you/gorun
	@$(GO) run -C .ci/tools ./module $(CURDIR) "$(MODULE)"
	@$(MAKE) --silent api 2>/dev/null

clean: ## remove what was built (.venv* stay)
	rm -rf bin build
