#!/bin/sh
# The topic that the app reads, and the one of its dead letters, which must take what can be parked (store.park_record_bytes_max) and headers.
set -eu
topics() { /opt/kafka/bin/kafka-topics.sh --bootstrap-server kafka:19092 --create --if-not-exists --replication-factor 1 "$@"; }
topics --topic payments --partitions 6
topics --topic payments.dead-letters --partitions 1 --config max.message.bytes=17825792
