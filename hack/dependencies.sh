#!/usr/bin/env bash
# Lists the modules linked into a command, one a line, so that a new dependency shows up in review.
# usage: dependencies.sh COMMAND
set -euo pipefail
cd "$(dirname "$0")/.."
go list -deps -f '{{with .Module}}{{.Path}} {{.Version}}{{end}}' "./cmd/$1" | sort -u | grep -v '^github.com/flagship-k8s/flagship'
