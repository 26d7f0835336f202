# `make` alone says what there is. Everything is kept outside the clone: see scripts/env.sh.
.DEFAULT_GOAL := help
.PHONY: help check demo test lint deep deep-tests deep-compat deep-tiers deep-filters deep-crash deep-fuzz deep-peers deep-memory deep-store deep-hdf5 deep-run deep-bench bench bench-loader bench-tiers bench-formats bench-store bench-stage bench-dlio bench-papers bench-frameworks bench-run bench-mount wheel capi release clean

help: ## say what the targets do
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

check: ## the inner loop: format, lints and unit tests of what changed; a minute or two once built
	@scripts/check.sh

demo: ## a short tour: inspects and reads files, checks all values against h5py, trains a small model, stages a checkpoint
	@scripts/demo.sh

test: ## the tests, of the Python package too, and the values of the HDF5 test files against h5py's; make deep-compat has the rest
	@scripts/test.sh

lint: ## format, lints, documentation, licences
	@scripts/lint.sh

deep: ## the long checks, all parts: tests in release, compatibility, tiers, filters, ten minutes of fuzzing, memory, other libraries' test suites
	@scripts/deep.sh

deep-tests: ## all tests, in release, in all variants
	@scripts/deep.sh tests

deep-compat: ## Ray of today and of a year before, dask clusters, Hugging Face, plain parallel HDF5, variants of tests; at most an hour
	@scripts/deep.sh compat

deep-tiers: ## disk tiers: 200 kills, a million files, a disk that loses what it took (needs root), races of threads
	@scripts/deep.sh tiers

deep-filters: ## large filter vectors
	@scripts/deep.sh filters

deep-crash: ## staging: states that a crash can leave of short programs are recovered, each call fails once; at most an hour
	@scripts/deep.sh crash

deep-fuzz: ## ten minutes of fuzzing
	@scripts/deep.sh fuzz

deep-peers: ## h5py, PyTables, netCDF4, xarray, zarr and anndata run their tests; every value they write is compared (ARGS="--short")
	@scripts/deep-peers.sh $(ARGS)

deep-memory: ## four workers and two loaders within 1 GiB, ten epochs; in a memory cgroup too, where one can be made
	@scripts/deep-memory.sh $(ARGS)

deep-store: ## ranks under every MPI, up to 8 of them, killed ones too; on emulated hosts where there is root
	@scripts/deep.sh store

deep-hdf5: ## the HDF5 plug-ins: other libraries' test suites natively and through them, 200 kills, long differential tests, ranks
	@scripts/deep.sh hdf5

deep-run: ## programs of other people under forebay run, next to plain runs; h5py's tests and the package's own inside it
	@scripts/deep.sh run

deep-bench: ## the benchmark's configurations A to H under 1, 2 and 4 ranks, records cut by 64; a file of full size of each
	@scripts/deep-bench.sh $(ARGS)

bench: ## speed of reading, next to h5py
	@scripts/bench.sh

wheel: ## build the Python package into dist/, and try it where there is nothing but NumPy
	@scripts/wheel.sh
	@scripts/check_wheel.sh

capi: ## build the C interface and install it: libforebay.so, forebay.h, forebay.pc (PREFIX=/usr/local)
	@scripts/capi.sh $(PREFIX)

release: ## make and check all that would be published, in dist/: crates, sources, wheels and commands for x86_64 and aarch64
	@scripts/release.sh

bench-loader: ## speed of loading batches, next to the limits of the machine and to other loaders (ARGS="--scale 0.1")
	@scripts/bench-loader.sh $(ARGS)

bench-tiers: ## epochs over an emulated parallel file system, through tiers, against what they must reach
	@scripts/bench-tiers.sh $(ARGS)

bench-formats: ## random samples from each format, next to the limit of the machine and to the format's own interface
	@scripts/bench-formats.sh $(ARGS)

bench-store: ## samples from the memory of other ranks, next to what MPI programs do without a store (ARGS="mpich5")
	@scripts/bench-store.sh $(ARGS)

bench-stage: ## HDF5 checkpoints and reads through the plug-ins, on an emulated parallel file system (ARGS="--only A,C")
	@scripts/bench-stage.sh $(ARGS)

bench-dlio: ## forebay bench next to DLIO itself, on the same workloads, and to a bare loop in C (ARGS="--only A,B")
	@scripts/bench-dlio.sh $(ARGS)

bench-papers: ## the evaluations of Stimulus and MONARCH at the size of one machine, theirs beside ours (ARGS="--only transfer")
	@scripts/bench-papers.sh $(ARGS)

bench-frameworks: ## how fast TensorFlow, JAX and Ray are fed, next to TFRecord, generators and maps over h5py, and NumPy (ARGS="jax --scale 0.1")
	@scripts/bench-frameworks.sh $(ARGS)

bench-run: ## a training script of h5py and PyTorch under forebay run, on an emulated parallel file system, and what calls cost (ARGS="--only cost")
	@scripts/bench-run.sh $(ARGS)

bench-mount: ## random reads of a file on forebay mount, by passthrough and from the page cache, next to the file itself; as root
	@scripts/bench-mount.sh $(ARGS)

clean: ## remove all that was built, made or downloaded, in the cache folder too
	@scripts/clean.sh
