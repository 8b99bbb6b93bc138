#!/usr/bin/env bash
# Regenerates everything into a copy of the tree and fails when the result differs from what is committed.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r --parents go.mod go.sum api hack/tools "$copy"/
(cd "$copy" && go generate ./api/...)
go run ./internal/tools/reference pages "$copy/docs/reference"
if ! diff -ru api "$copy/api" || ! diff -ru docs/reference "$copy/docs/reference"; then
	echo "generated code is out of date; run: make generate"
	exit 1
fi
