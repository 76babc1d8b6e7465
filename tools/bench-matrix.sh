#!/usr/bin/env bash
# Builds Rhumb and the load generator, gets the peers from Maven Central and the Go
# module proxy, and measures one after the other. SYSTEMS, PHASES, TIME and ROUNDS
# choose what; results are appended to OUT. docs/benchmarks.md says what it means.
#
#   bench-matrix.sh               on the loopback interface
#   bench-matrix.sh lines LINES   on bad lines, as root: LINES is "all", or some of them
set -euo pipefail
lines=()
if [ "${1:-}" = lines ]; then
	if [ -z "${2-all}" ]; then
		echo "LINES is empty: all, or some of those in docs/benchmarks.md" >&2
		exit 2
	fi
	lines=(-lines "${2-all}")
	: "${OUT:=bench-lines.jsonl}" "${TIME:=15s}" "${SYSTEMS:=rhumb,nats,pulsar,kafka}"
fi
cd "$(dirname "$0")/.."
GO=${GO:-go}
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
CGO_ENABLED=0 "$GO" build -trimpath -o "$bin/rhumb" ./cmd/rhumb
(cd tools/bench && "$GO" build -o "$bin/bench" .)
args=(-rhumb "$bin/rhumb" -out "${OUT:-bench-matrix.jsonl}" -time "${TIME:-10s}" -rounds "${ROUNDS:-1}")
[ -z "${SYSTEMS:-}" ] || args+=(-systems "$SYSTEMS")
[ -z "${PHASES:-}" ] || args+=(-phases "$PHASES")
[ -z "${RECORDS:-}" ] || args+=(-records "$RECORDS")
"$bin/bench" "${args[@]}" "${lines[@]}"
