#!/usr/bin/env bash
# Lists the packages with tests that do not link the API server, one a line: those that do take a quarter of an hour to build with the
# race detector. Nor is the package of etcd: the log of etcd is one variable of the process, which two etcds in one test both write. Nor are the
# checks of the source itself, which start no goroutine and read every line of it.
set -euo pipefail
cd "$(dirname "$0")/.."
go list -test -f '{{$link := false}}{{range .Deps}}{{if eq . "k8s.io/kubernetes/pkg/controlplane"}}{{$link = true}}{{end}}{{end}}{{if not $link}}{{.ImportPath}}{{end}}' \
  ./api/... ./internal/... | sed -n 's/\.test$//p' | grep -vE '/internal(/host/apiserver/etcd)?$'
