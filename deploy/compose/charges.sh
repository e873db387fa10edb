#!/usr/bin/env bash
# Charges for three tenants, some ten a second: every fifth comes twice, some are over the limit, some meet a bank that is closed (`down`)
# or loses its answer (`lost`: unresolved until the lookup finds the booking), some are of a type that goes to the dead letters.
set -euo pipefail

charges() {
    local start number=0 tenant account cents type key value
    start=$(date +%s)
    while :; do
        number=$((number + 1))
        case $((number % 3)) in 0) tenant=acme ;; 1) tenant=globex ;; *) tenant=initech ;; esac
        account=ada cents=$((number % 900 + 1)) type=charge
        [ $((number % 61)) -ne 0 ] || cents=5000
        [ $((number % 97)) -ne 0 ] || account=down
        [ $((number % 151)) -ne 0 ] || account=lost
        [ $((number % 211)) -ne 0 ] || type=refund
        key="c-$start-$number"
        value="{\"charge_id\":\"$key\",\"account\":\"$account\",\"cents\":$cents}"
        printf 'type:%s,tenant:%s\t%s\t%s\n' "$type" "$tenant" "$key" "$value"
        [ $((number % 5)) -ne 0 ] || printf 'type:%s,tenant:%s\t%s\t%s\n' "$type" "$tenant" "$key" "$value"
        [ $((number % 10)) -ne 0 ] || sleep 1
    done
}

# Ends with the client: nobody would read what comes after it.
charges | /opt/kafka/bin/kafka-console-producer.sh --bootstrap-server kafka:19092 --topic payments \
    --reader-property parse.headers=true --reader-property parse.key=true
