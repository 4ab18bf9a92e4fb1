-- The wrk script. Sends the list and create requests of one load and checks the status and body
-- length of every response. The arguments are passed by loadWithWrk in load.ts; the output is one
-- line of JSON, a LoadResult.

-- One thread per instance of the target.
local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
  thread:set("number", #threads)
end

checked, created, failed, firstFailure = 0, 0, 0, ""

local limit, writeInterval, listStatus, listLength, createdLength
local lengths, longest, lastId

-- A server accepts connections one by one between requests. If requests were sent immediately, most
-- connections to a slow server would wait for seconds to be accepted, and that delay would dominate
-- the measurement. So all connections are opened first, and send after START_DELAY milliseconds.
local START_DELAY = 100
local connections, connected = 0, 0

function delay()
  if connected == connections then return 0 end
  connected = connected + 1
  return START_DELAY
end

function init(args)
  local key, etag, body = args[1], args[2], args[3]
  writeInterval, listStatus, listLength = tonumber(args[4]), tonumber(args[5]), tonumber(args[6])
  createdLength, lastId, limit = tonumber(args[7]), tonumber(args[8]), tonumber(args[9])
  connections = tonumber(args[10])
  -- Each thread connects to its own instance. All send the same Host header, as behind a load balancer.
  local ports = {}
  for port in string.gmatch(args[11], "%d+") do ports[#ports + 1] = port end
  wrk.thread.addr = wrk.lookup(wrk.host, ports[number])[1]
  lengths, longest = { [listLength] = true }, listLength

  local listHeaders = { Authorization = "Bearer " .. key }
  if etag ~= "" then listHeaders["If-None-Match"] = etag end
  local list = wrk.format("GET", nil, listHeaders)
  local idempotencyKey = args[12] or ""
  local createHeaders = { Authorization = "Bearer " .. key, ["Content-Type"] = "application/json" }
  -- A number of fixed length replaces the placeholder in each request.
  if idempotencyKey ~= "" then createHeaders["Idempotency-Key"] = idempotencyKey .. number .. "-PLACEHOLDER" end
  local create = wrk.format("POST", nil, createHeaders, body)
  local head, tail = string.match(create, "^(.*)PLACEHOLDER(.*)$")
  local sent = 0
  function request()
    sent = sent + 1
    if writeInterval > 0 and sent % writeInterval == 0 then
      return head and head .. sent .. tail or create
    end
    return list
  end
end

-- The list grows by whole categories: the length of a create response, the digits of its id, a comma.
local function isListLength(length)
  if writeInterval == 0 then return length == listLength end
  while longest < length do
    lastId = lastId + 1
    longest = longest + createdLength + #tostring(lastId) + 1
    lengths[longest] = true
  end
  return lengths[length]
end

local function isExpected(status, body)
  if status == listStatus and writeInterval ~= 1 then return isListLength(#body) end
  if status ~= 201 or writeInterval == 0 then return false end
  local id = string.match(body, '"id":(%d+)')
  if id == nil or #body ~= createdLength + #id then return false end
  created = created + 1
  return true
end

function response(status, _, body)
  checked = checked + 1
  if not isExpected(status, body) then
    failed = failed + 1
    if failed == 1 then firstFailure = string.format("status %d with a body of %d bytes", status, #body) end
  end
  if checked == limit then
    -- wrk itself sleeps until the duration has elapsed; load.ts interrupts it when it reads this line.
    io.stdout:write("limit reached\n")
    io.stdout:flush()
    wrk.thread:stop()
  end
end

function done(summary, latency)
  local errors = summary.errors
  local function sum(name)
    local total = 0
    for _, thread in ipairs(threads) do total = total + thread:get(name) end
    return total
  end
  local firstFailure = ""
  for _, thread in ipairs(threads) do
    if firstFailure == "" then firstFailure = thread:get("firstFailure") end
  end
  io.write(string.format(
    '{"requests":%d,"seconds":%.6f,"p50":%.3f,"p99":%.3f,"checked":%d,"created":%d,"failed":%d,"firstFailure":"%s","socketErrors":%d}\n',
    summary.requests, summary.duration / 1e6 - START_DELAY / 1000,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    sum("checked"), sum("created"), sum("failed"), firstFailure,
    errors.connect + errors.read + errors.write + errors.timeout))
end
