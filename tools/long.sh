#!/usr/bin/env bash
# The proofs at length, in parts. Parts that are done are not done again, so that an interrupted run goes on where it was; a part that
# fails stops it, and is the first of the next run. What a part came to belongs to the state of the files that it is about.
# Usage: long.sh [NAME...], the parts whose names begin so: simulator, power, crash, kills, soak.
set -euo pipefail
cd "$(dirname "$0")/.."

state=target/long
mkdir -p "$state"
touch "$state/done"

# digest PATH...: of the files there as they are.
digest() { find "$@" -type f -print0 | sort -z | xargs -0 cat | sha256sum | cut -c1-12; }

# part NAME SUMMARY COMMAND...: the lines of its log that match SUMMARY are what it came to.
part() {
    local name=$1 summary=$2
    shift 2
    all=$((all + 1))
    if grep -qxF "$name" "$state/done"; then
        finished=$((finished + 1))
        return
    fi
    if [ "$counting" = yes ] || ! wanted "$name"; then return; fi
    echo "long: $name ($finished of $parts parts are done; $(date +%H:%M))"
    if ! "$@" >"$state/$name.log" 2>&1; then
        tail -n 60 "$state/$name.log" >&2
        echo "long: $name failed; its output is in $state/$name.log" >&2
        exit 1
    fi
    grep -E "$summary" "$state/$name.log" | sed 's/^/    /' || true
    echo "$name" >>"$state/done"
    finished=$((finished + 1))
}

wanted() {
    [ ${#only[@]} -eq 0 ] && return
    local begins
    for begins in "${only[@]}"; do case $1 in "$begins"*) return 0 ;; esac done
    return 1
}

everything() {
    local n
    all=0
    finished=0
    for n in 0 1 2 3 4 5 6 7 8 9; do # 1,000,000 worlds
        part "simulator-$n-$worlds" "handlers ended" env RECEIPTED_SEED=$((n * 100000 + 1)) RECEIPTED_SIMULATIONS=100000 \
            cargo test --release --no-default-features --test simulation simulated_worlds -- --nocapture
    done
    for n in 0 1 2 3 4 5 6 7 8 9; do # 50,000 images
        part "power-$n-$disks" "lost 0" env RECEIPTED_SEED=$((n * 1000 + 1)) RECEIPTED_POWER_IMAGES=5000 \
            cargo test --test power power_cut -- --nocapture
    done
    for n in 1 2 3; do # every crash point of the list, in three orders of the records
        part "crash-$n-$whole" "crash points:|^ +[0-9]+  " env RECEIPTED_SEED="$n" RECEIPTED_CRASH_POINTS=all \
            cargo test --features crash-points --test crash_points -- --skip kills/
    done
    for n in $(seq 1 25); do # 5,000 kills, 500 inside the open and 500 inside reconcile
        part "kills-$n-$whole" "kills:|silent duplicates" env RECEIPTED_SEED="$n" \
            cargo test --features crash-points --test crash_points -- kills/
    done
    part "soak-$steady" "soak:|^ +[0-9]+ s" env RECEIPTED_SOAK=10m cargo test --test soak
}

worlds=$(digest src/protocol src/store/*.rs tests/simulation tests/simulation.rs Cargo.lock)
disks=$(digest src/protocol src/store tests/power tests/power.rs Cargo.lock)
whole=$(digest src tests/crash_points tests/crash_points.rs tests/support Cargo.lock)
steady=$(digest src tests/soak.rs tests/support Cargo.lock)
only=("$@")
counting=yes
parts=0
everything
parts=$all
counting=no
everything
echo "long: $finished of $parts parts are done; their outputs are in $state"
