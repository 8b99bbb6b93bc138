#!/usr/bin/env bash
# Builds dist/COMMAND_VERSION_OS_ARCH.tar.gz of each command for every platform, and dist/SHA256SUMS.
# usage: release.sh VERSION LDFLAGS
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?"a version is needed: tag the commit, or make release VERSION=v1.2.3"} ldflags=$2
platforms=${PLATFORMS:-"linux/amd64 linux/arm64 darwin/amd64 darwin/arm64"}
rm -rf dist
mkdir -p dist
for platform in $platforms; do
  os=${platform%/*} arch=${platform#*/}
  for command in ${COMMANDS:-flagship flagship-server flagship-agent}; do
    name=${command}_${version#v}_${os}_${arch}
    echo "building $name"
    mkdir "dist/$name"
    GOOS=$os GOARCH=$arch CGO_ENABLED=0 go build -trimpath -ldflags "$ldflags" -o "dist/$name/$command" "./cmd/$command"
    cp LICENSE README.md "dist/$name/"
    tar -C dist -czf "dist/$name.tar.gz" "$name"
    rm -r "dist/$name"
  done
done
(cd dist && sha256sum ./*.tar.gz | sed 's# \./# #' > SHA256SUMS)
cat dist/SHA256SUMS
