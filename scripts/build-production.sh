#!/bin/sh
# Builds what production needs: dist, node_modules without development dependencies, data, compile-cache and an SBOM.
#
#   scripts/build-production.sh install   installs all dependencies; uses package.json and package-lock.json
#   scripts/build-production.sh build     compiles src, removes the development dependencies, and lists the others in
#                                         sbom.cdx.json
#   scripts/build-production.sh warm      fills compile-cache; run it as the user who will run the service
#
# Steps of their own, so that the Dockerfile installs again only if the dependencies change.
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
    # npm sbom fails if package.json declares development dependencies that are not installed, and finds a third too few
    # packages in the lock file alone.
    cp package.json package.json.saved
    npm pkg delete devDependencies
    npm sbom --workspaces=false --sbom-format=cyclonedx >sbom.cdx.json
    mv package.json.saved package.json
    # The directory of the default SQLite database, and that of NODE_COMPILE_CACHE.
    mkdir -p data compile-cache
    ;;
  warm)
    # The import ends when the service listens. Node writes the cache at exit, for its version and this user.
    NODE_ENV=production NODE_COMPILE_CACHE=$PWD/compile-cache PORT=0 DATABASE_URL=sqlite:/tmp/warm.sqlite \
      node --input-type=module --eval "await import('$PWD/dist/main.js'); process.kill(process.pid, 'SIGTERM')"
    # Only the owner can read what Node writes; in the image, it belongs to root.
    chmod -R a+r compile-cache
    ;;
  *)
    echo "Usage: $0 install | build | warm" >&2
    exit 2
    ;;
esac
