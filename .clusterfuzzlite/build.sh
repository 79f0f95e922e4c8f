#!/bin/bash -eu
# Builds all fuzz targets into $OUT, each with its seeds and limits. ClusterFuzzLite calls it in the image of `Dockerfile`, in the
# root of the repository; `.clusterfuzzlite/check` calls it with another `cargo`.

# A target with `required-features` is left out, without an error, if its feature is off.
cargo fuzz build -O --all-features
built=fuzz/target/x86_64-unknown-linux-gnu/release
for file in fuzz/fuzz_targets/*.rs; do
    target=$(basename "$file" .rs)
    cp "$built/$target" "$OUT/"
    zip -jqr "$OUT/${target}_seed_corpus.zip" "fuzz/seeds/$target"
    # As in `fuzz/run`; the sanitizer has a limit of resident memory of its own.
    printf '[libfuzzer]\nmax_len = 2048\ntimeout = 10\nmalloc_limit_mb = 64\n' >"$OUT/$target.options"
done
