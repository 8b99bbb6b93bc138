#!/bin/sh
# Builds a program twice as a release does, from the sources of HEAD in two directories, the second time without a build cache, and compares
# the bytes. The second build compiles everything: minutes. Usage: hack/reproducible.sh flagship-agent, with LDFLAGS and TAGS in the environment,
# and in LARGEST the bytes that the program may have.
set -eu
program=$1
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
for copy in one another/with-a-longer-path; do
	mkdir -p "$work/$copy"
	git archive HEAD | tar -x -C "$work/$copy"
done
build() (
	cd "$work/$1"
	go build -trimpath -buildvcs=false -tags "${TAGS:-}" -ldflags "$LDFLAGS" -o "$work/$2" "./cmd/$program"
)
build one first
export GOCACHE="$work/cache" HOME="$work/home" GOMODCACHE="$(go env GOMODCACHE)" GOPATH="$(go env GOPATH)"
build another/with-a-longer-path second
(cd "$work" && sha256sum first second)
if ! cmp -s "$work/first" "$work/second"; then
	echo "two builds of $program differ" >&2
	exit 1
fi
echo "two builds of $program have the same bytes"
size=$(wc -c <"$work/first")
if [ "$size" -gt "${LARGEST:-$size}" ]; then
	echo "$program has $size bytes, want at most $LARGEST" >&2
	exit 1
fi
