# A server with DQ: docker build -t dq . && docker run --rm -p 127.0.0.1:6380:6380 dq
# SERVER chooses another one of Debian's make, for example --build-arg SERVER=valkey/valkey:8-bookworm.
ARG SERVER=redis:8-bookworm

FROM rust:1-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends libclang-dev make && rm -rf /var/lib/apt/lists/*
WORKDIR /dq
COPY . .
RUN make build

FROM ${SERVER}
COPY --from=build --chmod=755 /dq/target/release/libdq.so /usr/lib/redis/modules/libdq.so
COPY redis.conf.example /etc/dq/example.conf
# As redis.conf.example has it, but open to other containers and with its data on the volume.
RUN sed -e 's|^bind .*|bind * -::*|' -e 's|^dir .*|dir /data|' -e 's|^enable-module-command|protected-mode no\n&|' \
    /etc/dq/example.conf >/etc/dq/server.conf
EXPOSE 6380
# Both images have a program of this name: Valkey's calls itself redis-server too.
CMD ["redis-server", "/etc/dq/server.conf"]
HEALTHCHECK --interval=5s --timeout=3s CMD redis-cli -p 6380 DQ.QUEUES >/dev/null || exit 1
