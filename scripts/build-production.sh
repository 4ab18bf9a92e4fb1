#!/bin/sh
# Builds what production needs beside package.json and docs: dist, node_modules without development dependencies, data,
# compile-cache and an SBOM.
#
#   scripts/build-production.sh install   installs all dependencies; uses package.json and package-lock.json
#   scripts/build-production.sh build     compiles src, removes the development dependencies, and lists the others in
#                                         sbom.cdx.json
#   scripts/build-production.sh warm      fills compile-cache; run it as the user who will run the service
#
# The steps are separate, so that the Dockerfile repeats the installation only if the dependencies change.
set -eu
cd "$(dirname "$0")/.."

case "${1:-}" in
  install)
    # The tools are workspaces, which the service does without. NODE_ENV=production would omit the compiler.
    npm ci --workspaces=false --include=dev --no-fund --no-audit
    ;;
  build)
    npm run build
    # Without --omit=optional, TypeScript stays: it is an optional peer dependency of @nestjs/swagger. Without --no-save,
    # npm 10 changes package-lock.json.
    npm prune --no-save --workspaces=false --omit=dev --omit=optional
    # npm sbom fails if package.json declares packages that are not installed, and misses a third of them if it reads
    # package-lock.json. It reads a copy of package.json without these packages, and npm's own list of installed ones.
    copies=$(mktemp -d)
    trap 'rm -rf "$copies"' EXIT
    # npm sbom takes the name of the directory and the version of package.json: both are set to those of the product.
    name=$(node --input-type=module --eval "console.log((await import('$PWD/dist/product.js')).PRODUCT.name)")
    mkdir "$copies/$name"
    cp package.json "$copies/$name"
    cp node_modules/.package-lock.json "$copies/$name/package-lock.json"
    (
      cd "$copies/$name"
      npm pkg delete devDependencies workspaces description
      npm pkg set name="$name" version="$(node "$OLDPWD/dist/main.js" --version | sed 's/ .*//')"
      npm sbom --package-lock-only --sbom-format=cyclonedx
    ) >sbom.cdx.json
    # The directory of the default SQLite database, and that of NODE_COMPILE_CACHE.
    mkdir -p data compile-cache
    ;;
  warm)
    database=$(mktemp -d)
    trap 'rm -rf "$database"' EXIT
    # The import ends when the service listens. Node writes the cache at exit, for its version and this user.
    NODE_ENV=production NODE_COMPILE_CACHE=$PWD/compile-cache PORT=0 DATABASE_URL="sqlite:$database/warm.sqlite" \
      node --input-type=module --eval "await import('$PWD/dist/main.js'); process.kill(process.pid, 'SIGTERM')"
    # Node makes the files readable only by their owner, which is root in the image.
    chmod -R a+r compile-cache
    ;;
  *)
    echo "Usage: $0 install | build | warm" >&2
    exit 2
    ;;
esac
