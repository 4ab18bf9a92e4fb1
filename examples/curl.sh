#!/usr/bin/env bash
# Calls the API with curl: PETSTORE_API_KEY=… examples/curl.sh
set -euo pipefail

url=${PETSTORE_URL:-http://127.0.0.1:3000/v1}
key=${PETSTORE_API_KEY:?Set PETSTORE_API_KEY to a valid key.}
headers=$(mktemp)
trap 'rm -f "$headers"' EXIT

# Prints the body and the status of any response. Retries after 429 and 503, honouring Retry-After.
call() {
  curl --silent --show-error --retry 3 --header "Authorization: Bearer $key" --write-out '\n%{http_code}\n' "$@"
}

# Also repeated if the response is lost; with its Idempotency-Key it is stored once.
echo 'Create a category:'
call --retry-all-errors --header "Idempotency-Key: curl.sh-$(date +%s)-$$" \
  --header 'Content-Type: application/json' --data '{"name": "dog", "description": "Dogs of every breed and size"}' "$url/categories"

echo 'List the categories:'
call --dump-header "$headers" "$url/categories"

echo 'List the categories again, unless unchanged:'
etag=$(sed -n 's/^etag: *\(.*\)\r$/\1/Ip' "$headers")
call --header "If-None-Match: $etag" "$url/categories"

echo 'Send an invalid create request:'
call --header 'Content-Type: application/json' --data '{"name": " "}' "$url/categories"
