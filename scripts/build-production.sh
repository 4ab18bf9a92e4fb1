#!/bin/sh
# Builds what production needs: dist, node_modules without development dependencies, and data.
#
#   scripts/build-production.sh install   installs all dependencies; uses package.json and package-lock.json
#   scripts/build-production.sh build     compiles src, then removes the development dependencies
#
# Two steps, so that the Dockerfile installs again only if the dependencies change.
set -eu
cd "$(dirname "$0")/.."

case "${1:-}" in
  install)
    # The tools are workspaces, which the service does without.
    npm ci --workspaces=false --no-fund --no-audit
    ;;
  build)
    npm run build
    # Without --omit=optional, TypeScript stays: it is an optional peer dependency of @nestjs/swagger.
    npm prune --workspaces=false --omit=dev --omit=optional
    # The directory of the default SQLite database.
    mkdir -p data
    ;;
  *)
    echo "Usage: $0 install | build" >&2
    exit 2
    ;;
esac
