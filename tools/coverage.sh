#!/usr/bin/env bash
# How much of the library the tests run, line by line. Usage: coverage.sh core|all. `core` runs the suites that need no broker, and
# lists each line of src/protocol that none of them runs; `all` runs everything and sums it up by file.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo llvm-cov --version >/dev/null 2>&1; then
    echo "cargo-llvm-cov is built once" >&2
    cargo install --locked cargo-llvm-cov
fi
# The tools have to be of the compiler's own LLVM: its component has them, or a distribution.
if [ -z "${LLVM_COV:-}" ]; then
    own=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
    major=$(rustc -vV | sed -nE 's/^LLVM version: ([0-9]+).*/\1/p')
    if [ ! -x "$own/llvm-cov" ] && [ -x "/usr/lib/llvm-$major/bin/llvm-cov" ]; then
        own=/usr/lib/llvm-$major/bin
    fi
    [ -x "$own/llvm-cov" ] || { echo "llvm-cov $major is missing: rustup component add llvm-tools, or install llvm-$major" >&2; exit 1; }
    export LLVM_COV=$own/llvm-cov LLVM_PROFDATA=$own/llvm-profdata
fi

export CARGO_INCREMENTAL=0
case ${1:-core} in
core)
    suites=(protocol machine explorer simulation canonical vectors handler store layers rehearsal telemetry admin)
    cargo llvm-cov --lcov --output-path target/coverage.lcov "${suites[@]/#/--test=}" >&2
    # A line counts as run when any of its copies in the test programs was.
    awk -F'[:,]' '
        /^SF:/ { file = substr($0, 4); sub(/.*\/src\//, "src/", file) }
        /^DA:/ && file ~ /^src\/protocol\// { if (!((file, $2) in runs)) lines++; runs[file, $2] += $3 }
        END {
            for (at in runs) if (runs[at] == 0) { split(at, of, SUBSEP); print of[1] ":" of[2]; missed++ }
            printf "%d of %d lines of src/protocol are run\n", lines - missed, lines > "/dev/stderr"
        }' target/coverage.lcov | sort -t: -k1,1 -k2,2n
    ;;
all)
    cargo llvm-cov --features crash-points --summary-only
    ;;
*) echo "usage: coverage.sh core|all" >&2; exit 2 ;;
esac
