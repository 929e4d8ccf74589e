# A server with DQ: docker build -t dq . && docker run --rm -p 127.0.0.1:6380:6380 dq
# SERVER chooses another image of Debian's make, for example --build-arg SERVER=valkey/valkey:9.1.
ARG SERVER=redis:8-trixie

FROM rust:1-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends libclang-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /dq
# Copy only what the module is built from, so that a change of a document or a test builds nothing again.
COPY Cargo.toml Cargo.lock ./
COPY dashboard/Cargo.toml dashboard/
# Cargo wants a program in every member of the workspace, and builds only the module.
RUN mkdir dashboard/src && echo 'fn main() {}' >dashboard/src/main.rs
COPY benches benches
COPY src src
# What cargo downloads and builds stays in a cache, so that a change of the sources builds only the module again.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/dq/target \
    cargo build --release --locked && cp target/release/libdq.so /libdq.so

FROM ${SERVER}
# The entrypoint of Redis 8 loads every module in this folder by --loadmodule. CONFIG REWRITE would add them to the
# configuration, and the next start would load them twice and fail.
RUN rm -rf /usr/local/lib/redis/modules/*
COPY redis.conf.example /usr/share/doc/redis-dq/
# As redis.conf.example has it, but open to other containers and with its data on the volume. The server's user is 999 in
# both images. CONFIG REWRITE makes a file beside the configuration and moves it there, so the user owns the folder too.
RUN mkdir /etc/dq && \
    sed -e 's|^bind .*|bind * -::*|' -e 's|^dir .*|dir /data|' -e 's|^enable-module-command|protected-mode no\n&|' \
        /usr/share/doc/redis-dq/redis.conf.example >/etc/dq/server.conf && \
    chown -R 999:999 /etc/dq
COPY --from=build --chmod=755 /libdq.so /usr/lib/redis/modules/libdq.so
EXPOSE 6380
# Only the configuration: the entrypoint of either image puts its server before it, and runs that as the user redis or
# valkey. Valkey's would run `redis-server`, named here, as root.
CMD ["/etc/dq/server.conf"]
# Both images have a program of this name. Without -e it exits with 0 also when the server replies with an error.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s CMD redis-cli -e -p 6380 DQ.QUEUES >/dev/null || exit 1
