#!/usr/bin/env bash
# The proofs at length, in parts. Parts that are done are not done again, so that an interrupted run goes on where it was; a part that
# fails stops it, and is the first of the next run. What is kept belongs to one state of the sources.
# Usage: long.sh [NAME...], the parts whose names begin so: simulator, power, crash, kills.
set -euo pipefail
cd "$(dirname "$0")/.."

# The commit, and what differs from it.
sources=$(git describe --always --abbrev=12 2>/dev/null || echo unversioned)
git diff --quiet HEAD 2>/dev/null || sources+=-$(git diff HEAD 2>/dev/null | cksum | cut -d' ' -f1)
state=target/long/$sources
mkdir -p "$state"
touch "$state/done"
all=0
left=0
failed=""

# part NAME SUMMARY COMMAND...: the lines of its log that match SUMMARY are what it came to.
part() {
    local name=$1 summary=$2
    shift 2
    all=$((all + 1))
    if grep -qxF "$name" "$state/done"; then return; fi
    left=$((left + 1))
    if [ "$counting" = yes ] || ! wanted "$name"; then return; fi
    echo "long: $name ($(wc -l <"$state/done") of $parts parts are done; $(date +%H:%M))"
    if ! "$@" >"$state/$name.log" 2>&1; then
        tail -n 60 "$state/$name.log" >&2
        echo "long: $name failed; its output is in $state/$name.log" >&2
        exit 1
    fi
    grep -E "$summary" "$state/$name.log" | sed 's/^/    /' || true
    echo "$name" >>"$state/done"
}

wanted() {
    [ ${#only[@]} -eq 0 ] && return
    local begins
    for begins in "${only[@]}"; do case $1 in "$begins"*) return 0 ;; esac done
    return 1
}

everything() {
    local n
    for n in 0 1 2 3 4 5 6 7 8 9; do # 1,000,000 worlds
        part "simulator-$n" "handlers ended" env RECEIPTED_SEED=$((n * 100000 + 1)) RECEIPTED_SIMULATIONS=100000 \
            cargo test --release --test simulation simulated_worlds -- --nocapture
    done
    for n in 0 1 2 3 4 5 6 7 8 9; do # 50,000 images
        part "power-$n" "lost 0" env RECEIPTED_SEED=$((n * 1000 + 1)) RECEIPTED_POWER_IMAGES=5000 \
            cargo test --test power power_cut -- --nocapture
    done
    for n in 1 2 3; do # every crash point of the list, in three orders of the records
        part "crash-$n" "crash points:|^ +[0-9]+  " env RECEIPTED_SEED="$n" RECEIPTED_CRASH_POINTS=all \
            cargo test --features crash-points --test crash_points -- --skip kills/
    done
    for n in $(seq 1 25); do # 5,000 kills, 500 inside the open and 500 inside reconcile
        part "kills-$n" "kills:|silent duplicates" env RECEIPTED_SEED="$n" \
            cargo test --features crash-points --test crash_points -- kills/
    done
}

only=("$@")
counting=yes
parts=0
everything
parts=$all
all=0
left=0
counting=no
everything
echo "long: $(wc -l <"$state/done") of $parts parts are done; their outputs are in $state"
