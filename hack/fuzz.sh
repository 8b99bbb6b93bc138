#!/usr/bin/env bash
# Fuzzes every target of the module, or those that match a pattern, each for the given time. A failure leaves its input in
# testdata/fuzz of the package, from where `go test` runs it ever after.
# usage: fuzz.sh TIME [PATTERN]
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s} pattern=${2:-.}
failed=0
while IFS=: read -r file target; do
  echo "== $target ($(dirname "$file"))"
  go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "./$(dirname "$file")" || failed=1
done < <(grep -rhoE --include='*_test.go' -H '^func Fuzz[A-Za-z0-9_]+' api internal | sed 's/func //' | grep -E "$pattern" | sort)
exit $failed
