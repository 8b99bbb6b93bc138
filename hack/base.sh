#!/usr/bin/env bash
# Prints the commit that a change is compared with: $BASE; or where the branch left origin/main; or, on main itself, the last commit that is
# half a day older than the newest. Without one, as in a clone of one commit, it is the empty tree, from which everything differs.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -n "${BASE:-}" ]; then
  git rev-parse --verify "$BASE^{commit}"
  exit
fi
head=$(git rev-parse HEAD)
base=$(git merge-base HEAD origin/main 2>/dev/null || true)
if [ -z "$base" ] || [ "$base" = "$head" ]; then
  base=$(git rev-list -1 --before="$(($(git log -1 --format=%ct) - 43200))" HEAD)
fi
echo "${base:-$(git hash-object -t tree /dev/null)}"
