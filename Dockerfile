# The example app in a container: `docker build .`, or APP=NAME for another program of examples/. A team's own image looks the same.
FROM rust:1.95-slim-bookworm AS build
ARG APP=charge
WORKDIR /src
# The list of what a build needs stands in one place.
COPY Cargo.toml ./
COPY tools/install.sh tools/
RUN tools/install.sh build && rm -rf /var/lib/apt/lists/*
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --example "$APP" && cp "target/release/examples/$APP" /app

FROM debian:12.11-slim
RUN apt-get update \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates libssl3 zlib1g \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 receipted \
    && useradd --uid 10001 --gid 10001 --shell /usr/sbin/nologin --home-dir /var/lib/receipted receipted \
    && install -d -m 0700 -o 10001 -g 10001 /var/lib/receipted
COPY --from=build /app /usr/local/bin/app
# The commands find the store without the file: `docker compose exec payments app operations list`.
ENV RECEIPTED__STORE__DIRECTORY=/var/lib/receipted/receipts \
    RECEIPTED__TELEMETRY__LISTEN=0.0.0.0:9464
# A number, so that Kubernetes can tell that it is not root.
USER 10001:10001
WORKDIR /var/lib/receipted
VOLUME /var/lib/receipted
EXPOSE 9464
# Drains and commits; give it more than runner.stop_deadline before it is killed.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/app"]
CMD ["run"]
