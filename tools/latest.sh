#!/usr/bin/env bash
# Checks that the newest dependencies that Cargo.toml admits build too, in a copy: this tree and its Cargo.lock stay as they are. Needs
# the registry and several minutes, so that it is no part of `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    [ ! -f "$file" ] || cp --parents "$file" "$copy"
done
cd "$copy"
cargo update
cargo check --all-targets
