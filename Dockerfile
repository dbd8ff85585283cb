# The operator and nothing else: `make build` first.
FROM scratch
COPY bin/valkey-operator /valkey-operator
USER 65532:65532
ENTRYPOINT ["/valkey-operator"]
