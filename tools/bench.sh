#!/usr/bin/env bash
# Compares the benchmarks of the work tree with those of the commit before it (BASE),
# by benchstat. Each package's two test binaries are built first and then run in turns,
# COUNT times, so that what else the machine does meets both alike. BENCH and PACKAGES
# choose some. Exit code 1: something takes at least LIMIT percent more time or
# allocations, and benchstat does not put it down to chance.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go} COUNT=${COUNT:-6} BENCH=${BENCH:-.} BASE=${BASE:-HEAD~1} LIMIT=${LIMIT:-20} TIME=${TIME:-300ms}
# Of fewer runs no difference is ever significant (p < 0.05), so that nothing could be found worse.
if ! [[ $COUNT =~ ^[1-9][0-9]*$ ]] || [ "$COUNT" -lt 4 ]; then
	echo "COUNT must be a number of at least 4, not '$COUNT': benchstat cannot judge fewer runs" >&2
	exit 2
fi
out=$(mktemp -d)
trap 'git worktree remove --force "$out/base" >/dev/null 2>&1 || true; rm -rf "$out"' EXIT
git worktree add --detach "$out/base" "$BASE" >/dev/null
packages=${PACKAGES:-$(grep -rlE '^func Benchmark' --include='*_test.go' . | xargs -n1 dirname | sort -u)}
here=$PWD
declare -A tree=([old]=$out/base [new]=$here)
for p in $packages; do
	name=${p#./} name=${name//\//_}
	for side in old new; do
		[ -d "${tree[$side]}/$p" ] || continue # a new package
		(cd "${tree[$side]}" && "$GO" test -c -o "$out/$side-$name" "./$p")
	done
done
for _ in $(seq "$COUNT"); do
	for p in $packages; do
		name=${p#./} name=${name//\//_}
		for side in old new; do
			[ -x "$out/$side-$name" ] || continue
			(cd "${tree[$side]}/$p" && "$out/$side-$name" -test.run '^$' -test.bench "$BENCH" -test.benchtime "$TIME" -test.benchmem) >>"$out/$side.txt"
		done
	done
done
"$GO" tool -modfile=tools/go.mod benchstat "$out/old.txt" "$out/new.txt" | tee "$out/report.txt"
# benchstat has a table for each unit; a row ends with "+12.34% (p=0.002 n=6)", or "~" if it is chance.
awk -v limit="$LIMIT" '
	/sec\/op/ { unit = "time" } /allocs\/op/ { unit = "allocations" } /B\/s|B\/op/ && !/allocs/ { unit = "" }
	unit != "" && $1 != "geomean" && match($0, /\+[0-9.]+% \(p=/) {
		more = substr($0, RSTART + 1, RLENGTH - 6) + 0
		if (more >= limit) { printf "worse: %s takes %.0f%% more %s\n", $1, more, unit; bad = 1 }
	}
	END { exit bad }' "$out/report.txt"
