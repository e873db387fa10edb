#!/usr/bin/env bash
# Installs what the named parts need and the machine lacks: build, lint, trace, deploy, watch, broker, hygiene. Without arguments: all but the
# last.
# Uses apt-get as root or with sudo; elsewhere it names what is missing. Rust itself is the one prerequisite.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || set -- build lint trace deploy watch broker

missing=()   # what a person would look for
packages=()  # what Debian calls it
need() { missing+=("$1"); packages+=("$2"); }
has() { command -v "$1" >/dev/null 2>&1; }

java_is_new_enough() {
    has java && local version && version=$(java -version 2>&1 | sed -nE 's/.*version "([0-9]+).*/\1/p' | head -1) && [ "${version:-0}" -ge 17 ]
}

check_rust() {
    local wanted have
    wanted=$(sed -nE 's/^rust-version = "(.*)"/\1/p' "$root/Cargo.toml")
    if ! has cargo || ! has rustc; then
        echo "Rust is missing: install version $wanted or newer with rustup, then run this again" >&2
        exit 1
    fi
    have=$(rustc --version | cut -d' ' -f2)
    if [ "$(printf '%s\n%s\n' "$wanted" "${have%%-*}" | sort -V | head -1)" != "$wanted" ]; then
        echo "Rust $have is too old: version $wanted or newer is needed (rustup update)" >&2
        exit 1
    fi
}

for part in "$@"; do
    case $part in
    build)
        check_rust
        has cc && has make || need "a C compiler and make" build-essential
        has pkg-config || need pkg-config pkg-config
        pkg-config --exists openssl 2>/dev/null || need "the headers of OpenSSL" libssl-dev
        ;;
    lint)
        for component in fmt clippy; do
            cargo "$component" --version >/dev/null 2>&1 || { echo "cargo $component is missing: rustup component add rustfmt clippy" >&2; exit 1; }
        done
        ;;
    trace) has strace || need strace strace ;;
    deploy) has systemd-analyze || need systemd-analyze systemd ;;
    watch) ;; # below: its package would also set up a service
    broker)
        # A broker that runs elsewhere needs neither.
        if [ -z "${RECEIPTED_TEST_BROKERS:-}" ]; then
            java_is_new_enough || need "Java 17 or newer" default-jre-headless
            has mvn || need Maven maven
            has flock || need flock util-linux
        fi
        has openssl || need openssl openssl # certificates of the test broker
        ;;
    hygiene)
        # For the features gssapi and oidc.
        [ -e /usr/include/sasl/sasl.h ] || need "the headers of Cyrus SASL" libsasl2-dev
        pkg-config --exists libcurl 2>/dev/null || need "the headers of libcurl" libcurl4-openssl-dev
        ;;
    *) echo "no such part: $part (build, lint, trace, deploy, watch, broker, hygiene)" >&2; exit 2 ;;
    esac
done

if [ ${#missing[@]} -gt 0 ]; then
    printf 'missing: %s\n' "${missing[@]}" >&2
    if ! has apt-get; then
        echo "this is no Debian-like machine: install the above by hand (Debian calls them ${packages[*]}), then run this again" >&2
        exit 1
    fi
    as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        has sudo || { echo "neither root nor sudo: as root, run apt-get install ${packages[*]}" >&2; exit 1; }
        as_root=(sudo)
    fi
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}"
fi

# Debian's Prometheus with promtool, unpacked into .cache/prometheus and not installed: the package would bring a user, a service that
# starts now and with every boot, and a dozen packages for a web page. The programs themselves need the C library alone.
fetch_prometheus() {
    has prometheus && has promtool && return
    local cache=$root/.cache/prometheus
    [ -x "$cache/usr/bin/prometheus" ] && [ -x "$cache/usr/bin/promtool" ] && return
    if ! has apt-get || ! has dpkg-deb; then
        echo "missing: prometheus and promtool; this is no Debian-like machine: install Prometheus 2.42 or newer by hand, then run this again" >&2
        exit 1
    fi
    echo "missing: prometheus and promtool" >&2
    rm -rf "$cache.part"
    mkdir -p "$cache.part"
    if ! (cd "$cache.part" && apt-get download -qq prometheus >/dev/null 2>&1); then
        local as_root=()
        [ "$(id -u)" -eq 0 ] || as_root=(sudo)
        "${as_root[@]}" apt-get update -qq
        (cd "$cache.part" && apt-get download -qq prometheus)
    fi
    dpkg-deb -x "$cache.part"/prometheus_*.deb "$cache.part"
    rm -rf "$cache.part"/prometheus_*.deb "$cache"
    mv "$cache.part" "$cache"
}

for part in "$@"; do
    [ "$part" = watch ] && fetch_prometheus
    if [ "$part" = broker ] && [ -z "${RECEIPTED_TEST_BROKERS:-}" ]; then
        java_is_new_enough || { echo "the Java of this machine is older than 17: install a newer one" >&2; exit 1; }
        "$root/tools/kafka/fetch.sh"
    fi
    if [ "$part" = hygiene ] && ! has cargo-deny; then
        echo "cargo-deny is built once, which takes some ten minutes on two cores" >&2
        cargo install --locked cargo-deny
    fi
done
