"""C sources of nfvperf-gen, shipped as data; `nfvperf build` compiles them where they run."""
