#!/usr/bin/env bash
# Lists the modules linked into bin/flagship, one a line, so that a new dependency shows up in review.
set -euo pipefail
cd "$(dirname "$0")/.."
go list -deps -f '{{with .Module}}{{.Path}} {{.Version}}{{end}}' ./cmd/flagship | sort -u | grep -v '^github.com/flagship-k8s/flagship'
