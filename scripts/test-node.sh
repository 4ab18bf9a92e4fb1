#!/usr/bin/env bash
# npm run test:node -- <version, such as 22 or 24.11.0> [arguments of npm test]
#
# Runs the tests on another release of Node.js, which is installed from npm. Nothing is compiled.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! ${1:-} =~ ^[0-9]+(\.[0-9]+\.[0-9]+)?$ ]]; then
  echo 'Usage: npm run test:node -- <version, such as 22 or 24.11.0> [arguments of npm test]' >&2
  exit 2
fi
version=$1
shift

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
# The package of this platform, as in the optionalDependencies of package.json.
platform=$(node -p '`${process.platform === "win32" ? "win" : process.platform}-${process.arch}`')
case $platform in darwin-arm64) package=node-bin-$platform ;; *) package=node-$platform ;; esac
npm install --no-fund --no-audit --prefix "$directory" "$package@$version"
export PATH="$directory/node_modules/$package/bin:$PATH"
echo "Testing on Node.js $(node --version)"
# Not npm test: it would put node_modules/.bin, with another Node.js, first in the PATH.
node --experimental-vm-modules --disable-warning=ExperimentalWarning node_modules/jest/bin/jest.js "$@"
