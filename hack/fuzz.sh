#!/usr/bin/env bash
# Fuzzes every target of the module, or those that match a pattern, each for the given time. A failure leaves its input in
# testdata/fuzz of the package, from where `go test` runs it ever after.
# usage: fuzz.sh TIME [PATTERN]
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s} pattern=${2:-.}
output=$(mktemp)
trap 'rm -f "$output"' EXIT
failed=0
while IFS=: read -r file target; do
  echo "== $target ($(dirname "$file"))"
  if ! go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "./$(dirname "$file")" 2>&1 | tee "$output"; then
    # The fuzzer sometimes counts the end of its time as a failure of the input at hand, and then names no input.
    if grep -q 'context deadline exceeded' "$output" && ! grep -q 'Failing input written' "$output"; then
      echo "$target: the time ended"
    else
      failed=1
    fi
  fi
done < <(grep -rhoE --include='*_test.go' -H '^func Fuzz[A-Za-z0-9_]+' api internal | sed 's/func //' | grep -E "$pattern" | sort)
exit $failed
