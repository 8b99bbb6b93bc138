#!/usr/bin/env bash
# Regenerates everything into a copy of the tree and fails when the result differs from what is committed.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r --parents go.mod go.sum api hack/tools "$copy"/
(cd "$copy" && go generate ./api/...)
if ! diff -ru api "$copy/api"; then
	echo "generated code is out of date; run: make generate"
	exit 1
fi
