#!/bin/bash -eu
# Builds the fuzz targets for ClusterFuzzLite, which a fork runs in its own continuous integration. `fuzz/run` needs no container.
cd "$SRC/mcp-proto"
# The bodies check the sums of the engines, which exist with debug assertions.
cargo fuzz build --release --debug-assertions --features front_matter,jwt,schema,webhook
for file in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$file" .rs)
    cp "fuzz/target/x86_64-unknown-linux-gnu/release/$target" "$OUT/"
    # Inputs of more than this find no more than shorter ones: see fuzz/run.
    printf '[libfuzzer]\nmax_len = 2048\ntimeout = 10\n' >"$OUT/$target.options"
    zip --quiet --junk-paths "$OUT/${target}_seed_corpus.zip" "fuzz/seeds/$target"/*
done
