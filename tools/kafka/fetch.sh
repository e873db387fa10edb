#!/usr/bin/env bash
# Fetches the Apache Kafka that the tests start, once, into .cache/kafka/lib. Called by `make` and by tests/support/broker.rs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=$here/../../.cache/kafka
mkdir -p "$cache"
exec 9>"$cache/lock"
flock -w 600 9 || { echo "another fetch of Kafka holds $cache/lock for ten minutes" >&2; exit 1; }
# The pom is kept beside what it brought: a changed version fetches anew.
cmp -s "$here/pom.xml" "$cache/lib/pom.xml" && exit 0
for tool in java mvn; do
    command -v "$tool" >/dev/null || { echo "$tool is missing: run tools/install.sh, or install Java 17 or newer and Maven" >&2; exit 1; }
done
rm -rf "$cache/lib.part"
timeout 600 mvn -q -B -f "$here/pom.xml" dependency:copy-dependencies -DoutputDirectory="$cache/lib.part" >&2 ||
    { echo "Maven could not fetch Kafka; without a network, set RECEIPTED_TEST_BROKERS to the address of a broker" >&2; exit 1; }
cp "$here/pom.xml" "$cache/lib.part/pom.xml"
rm -rf "$cache/lib"
mv "$cache/lib.part" "$cache/lib"
