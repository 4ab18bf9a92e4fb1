#!/usr/bin/env bash
# Calls the API with curl: API_KEY=… examples/curl.sh
set -euo pipefail

url=${API_URL:-http://127.0.0.1:3000/v1}
key=${API_KEY:?Set API_KEY to a valid key.}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

# Prints the body and the status of any response. Retries after 429, 503 and a lost connection, when Retry-After says, but
# not after more than 90 seconds. Only the body of the last response is printed, because the others are overwritten.
call() {
  : >"$directory/body"
  status=$(curl --silent --show-error --max-time 10 --retry 3 --retry-all-errors --retry-max-time 90 \
    --header "Authorization: Bearer $key" --output "$directory/body" --write-out '%{http_code}' "$@")
  cat "$directory/body" && printf '\n%s\n' "$status"
}

# Creates the category of a JSON object once, however often the request is repeated with the same Idempotency-Key.
create() {
  call --header "Idempotency-Key: $1" --header 'Content-Type: application/json' --data "$2" "$url/categories"
}

echo 'Create a category:'
create "curl.sh-$(date +%s)-$$-1" '{"name": "dog", "description": "Dogs of every breed and size"}'

echo 'List the categories:'
call --dump-header "$directory/headers" "$url/categories"

echo 'List the categories again, unless unchanged:'
etag=$(sed -n 's/^etag: *\(.*\)\r$/\1/Ip' "$directory/headers")
call --header "If-None-Match: $etag" "$url/categories"

echo 'Send an invalid create request:'
create "curl.sh-$(date +%s)-$$-2" '{"name": " "}'
