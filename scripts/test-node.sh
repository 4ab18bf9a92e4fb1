#!/usr/bin/env bash
# npm run test:node -- <version> [arguments of npm test]
#
# Runs the tests on another release of Node.js, brought by the npm package `node`: the given one, or the
# newest of a major version that `engines` in package.json includes. They run in a copy of the project, in
# which the native modules are compiled against the headers of that release.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ ! ${1:-} =~ ^[0-9]+(\.[0-9]+\.[0-9]+)?$ ]]; then
  echo 'Usage: npm run test:node -- <version, such as 26 or 26.10.0> [arguments of npm test]' >&2
  exit 2
fi
range=$1
shift
if [[ $range != *.* ]]; then
  range=$(node -p '
    const ranges = require("./package.json").engines.node.split(" || ");
    ranges.find((range) => range.match(/\d+/)[0] === process.argv[1]) ?? process.argv[1]
  ' "$range")
fi

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
mkdir "$directory/node" "$directory/project"

npm install --no-fund --no-audit --prefix "$directory/node" "node@$range"
# The package of this platform contains bin and include.
platform=$(node -p '`node-${process.platform}-${process.arch}`')
release=$(find "$directory/node" -type d -name "$platform")
export PATH="$release/bin:$PATH"
echo "Testing on Node.js $(node --version)"

tar -c --exclude=./dist --exclude=./build --exclude=./node_modules/.cache . |
  tar -x -C "$directory/project"
cd "$directory/project"
npm_config_nodedir="$release" npm rebuild better-sqlite3
npm test -- "$@"
