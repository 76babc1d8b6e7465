#!/usr/bin/env bash
# Runs the benchmarks on the commit before this one and on the work tree, in
# turns on the same machine, and compares them with benchstat.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go} COUNT=${COUNT:-6} BENCH=${BENCH:-.} BASE=${BASE:-HEAD~1}
out=$(mktemp -d)
trap 'git worktree remove --force "$out/base" >/dev/null 2>&1 || true; rm -rf "$out"' EXIT
git worktree add --detach "$out/base" "$BASE" >/dev/null
packages() { (cd "$1" && grep -rlE '^func Benchmark' --include='*_test.go' . | xargs -n1 dirname | sort -u); }
run() { (cd "$1" && "$GO" test -run '^$' -bench "$BENCH" -benchmem -count "$COUNT" $(packages "$1")) || true; }
run "$out/base" >"$out/old.txt"
run . >"$out/new.txt"
"$GO" tool -modfile=tools/go.mod benchstat "$out/old.txt" "$out/new.txt"
