#!/usr/bin/env bash
# install.sh [python|kafkajs|java|sarama|franz-go …]: gets what the tests of this folder need
# (default: all of it). Programs of the system (python3, node, mvn, javac) must be there.
# Everything lies in the user's cache folder; a second run does nothing until a list here changes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${RHUMB_CLIENTS:-${XDG_CACHE_HOME:-$HOME/.cache}/rhumb/clients}
mkdir -p "$cache"

# fresh NAME FILE…: whether NAME was installed from these very files
stamp() { cat "$@" | sha256sum | cut -d' ' -f1; }
fresh() { [ "$(cat "$cache/$1/.stamp" 2>/dev/null)" = "$(stamp "${@:2}")" ]; }

install_python() {
	local list=$here/python/requirements.txt
	fresh python "$list" && return
	rm -rf "$cache/python"
	python3 -m venv "$cache/python"
	"$cache/python/bin/pip" install -q --retries 10 --timeout 60 --disable-pip-version-check --only-binary :all: -r "$list"
	stamp "$list" >"$cache/python/.stamp"
}

install_kafkajs() {
	local lists=("$here/kafkajs/package.json" "$here/kafkajs/package-lock.json")
	fresh kafkajs "${lists[@]}" && return
	rm -rf "$cache/kafkajs"
	mkdir -p "$cache/kafkajs"
	cp "${lists[@]}" "$cache/kafkajs/"
	(cd "$cache/kafkajs" && npm ci --silent --no-audit --no-fund --fetch-retries 5)
	stamp "${lists[@]}" >"$cache/kafkajs/.stamp"
}

install_java() {
	local lists=("$here/java/pom.xml" "$here/java/Client.java" "$here/tools/Tools.java")
	fresh java "${lists[@]}" && return
	rm -rf "$cache/java"
	mkdir -p "$cache/java/classes"
	# Maven reads one of the two, according to its age.
	mvn -q -B -Dstyle.color=never -Dmaven.wagon.http.retryHandler.count=5 -Daether.connector.http.retryHandler.count=5 -f "$here/java/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$cache/java/lib"
	mkdir "$cache/java/tools" # Tools.java loads these itself
	mv "$cache"/java/lib/kafka-tools-[0-9]*.jar "$cache/java/tools/"
	javac -cp "$cache/java/lib/*" -d "$cache/java/classes" "$here/java/Client.java" "$here/tools/Tools.java"
	stamp "${lists[@]}" >"$cache/java/.stamp"
}

install_sarama() { (cd "$here/sarama" && go mod download); }

# The client's own test suite is built from a copy of its module.
install_franz-go() {
	local version
	version=$(cd "$here" && go list -m -f '{{.Version}}' github.com/twmb/franz-go)
	[ "$(cat "$cache/franz-go/.stamp" 2>/dev/null)" = "$version" ] && return
	rm -rf "$cache/franz-go"
	mkdir -p "$cache/franz-go"
	cp -r "$(cd "$here" && go mod download -json "github.com/twmb/franz-go@$version" | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')" "$cache/franz-go/src"
	chmod -R u+w "$cache/franz-go"
	(cd "$cache/franz-go/src" && go test -c -o "$cache/franz-go/kgo.test" ./pkg/kgo)
	echo "$version" >"$cache/franz-go/.stamp"
}

for name in "${@:-python kafkajs java sarama franz-go}"; do
	for one in $name; do
		begin=$SECONDS
		"install_$one"
		echo "$one: in $cache ($((SECONDS - begin)) s)"
	done
done
