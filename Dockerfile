# One image for the whole system: hostd, castnet, and the word count example,
# which hosts run as procs and which the compose file runs as the one-shot
# client. scripts/compose-check.sh runs the build line below without Docker.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -pgo packaging/castnet.pgo -ldflags "-s -w" -o /out/ ./cmd/hostd ./examples/wordcount
RUN CGO_ENABLED=0 go build -trimpath -pgo packaging/castnet.pgo -ldflags "-s -w" -o /out/castnet ./cmd/client
# The corpus of the example: ranks read it on their own host, so every host has it.
RUN mkdir /corpus && cd "$(go env GOROOT)/src" && find . -name '*.go' -print0 | xargs -0 cp --parents -t /corpus

# Not scratch: a host runs programs of its users, and they expect a system.
FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="castnet" \
      org.opencontainers.image.description="A mesh of actors on NATS: hostd, castnet and the word count example" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/castnet castnet
COPY LICENSE NOTICE /usr/share/doc/castnet/
COPY --from=build /out/ /usr/local/bin/
COPY --from=build /corpus /corpus
USER castnet
WORKDIR /var/lib/castnet
CMD ["hostd"]
