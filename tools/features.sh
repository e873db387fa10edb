#!/usr/bin/env bash
# Checks that each feature builds alone without a warning, as Cargo.toml lists them, and that none at all does. With names: those.
set -euo pipefail
cd "$(dirname "$0")/.."

mapfile -t listed < <(sed -n '/^\[features\]/,/^\[/p' Cargo.toml | sed -nE 's/^([a-z0-9_-]+) = .*/\1/p')
[ ${#listed[@]} -gt 1 ] || { echo "no features were found in Cargo.toml" >&2; exit 1; }
[ $# -gt 0 ] || set -- "" "${listed[@]}"
for feature in "$@"; do
    echo "features: ${feature:-none}"
    cargo clippy --quiet --lib --bins --no-default-features ${feature:+--features "$feature"} -- -D warnings
done
