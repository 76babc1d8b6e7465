#!/usr/bin/env bash
# Runs every fuzz target of the module for $FUZZTIME, one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go} FUZZTIME=${FUZZTIME:-10s}
grep -rlE '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u | while read -r dir; do
	for target in $(grep -hoE '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | awk '{print $2}' | sort -u); do
		echo "== $dir $target"
		"$GO" test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" "$dir"
	done
done
