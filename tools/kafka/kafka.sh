#!/usr/bin/env bash
# A Kafka to try things on, for machines that have none: the one that the tests start, fetched by `tools/install.sh broker`.
# Usage: kafka.sh broker DIRECTORY [PORT]   a broker on loopback until it is interrupted; it keeps its records in DIRECTORY (port 9092)
#        kafka.sh topics ARGUMENTS          as Kafka's own kafka-topics.sh
#        kafka.sh produce ARGUMENTS         as Kafka's own kafka-console-producer.sh
#        kafka.sh consume ARGUMENTS         as Kafka's own kafka-console-consumer.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
    sed -nE 's/^# (Usage:|      ) /\1 /p' "$0" >&2
    exit 2
}

java=(java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$here/../../.cache/kafka/lib/*")
# Its library for logs complains that it has nowhere to write.
quietly() { "${java[@]}" "$@" 2> >(grep -v '^SLF4J: ' >&2); }

broker() {
    local directory port=${2:-9092} properties
    mkdir -p "$1"
    directory=$(cd "$1" && pwd)
    properties=$directory/server.properties
    cat >"$properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs=$directory/log
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
# A topic that is misspelt should be missed.
auto.create.topics.enable=false
END
    "${java[@]}" kafka.tools.StorageTool format --ignore-formatted -t cmVjZWlwdGVkLWZpcnN0ZA -c "$properties" >"$directory/broker.log" 2>&1 ||
        { tail -n 20 "$directory/broker.log" >&2; exit 1; }
    echo "a broker at 127.0.0.1:$port, until it is interrupted; it logs to $directory/broker.log" >&2
    exec "${java[@]}" kafka.Kafka "$properties" >>"$directory/broker.log" 2>&1
}

command=${1:-}
[ $# -gt 1 ] || usage
shift
case $command in broker | topics | produce | consume) "$here/fetch.sh" ;; *) usage ;; esac
case $command in
broker) broker "$@" ;;
topics) quietly org.apache.kafka.tools.TopicCommand "$@" ;;
produce) quietly org.apache.kafka.tools.ConsoleProducer "$@" ;;
consume) quietly org.apache.kafka.tools.consumer.ConsoleConsumer "$@" ;;
esac
