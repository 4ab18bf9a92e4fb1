#!/usr/bin/env bash
# The interface with curl: PETSTORE_API_KEY=… examples/curl.sh
set -euo pipefail

url=${PETSTORE_URL:-http://127.0.0.1:3000/v1}
key=${PETSTORE_API_KEY:?Set PETSTORE_API_KEY to a valid key.}
headers=$(mktemp)
trap 'rm -f "$headers"' EXIT

# Shows the body and the status, whatever it is; --retry tries again after a 503, as Retry-After says.
call() {
  curl --silent --show-error --header "Authorization: Bearer $key" --write-out '\n%{http_code}\n' "$@"
}

echo 'Create a category:'
call --header 'Content-Type: application/json' --data '{"name": "dog", "description": "Dogs of every breed and size"}' "$url/categories"

echo 'List the categories:'
call --retry 3 --dump-header "$headers" "$url/categories"

echo 'List them again, if they have changed:'
etag=$(sed -n 's/^etag: *\(.*\)\r$/\1/Ip' "$headers")
call --retry 3 --header "If-None-Match: $etag" "$url/categories"

echo 'What is invalid is refused, with a code:'
call --header 'Content-Type: application/json' --data '{"name": " "}' "$url/categories"

echo 'A deprecated operation says when it ends:'
call --dump-header "$headers" "$url/pets/1"
grep -i -E '^(deprecation|sunset):' "$headers"
