-- The wrk script: sends the lists and creates of one run, and checks the status and the body
-- length of every answer. Its arguments are what loadWithWrk in load.ts passes; it writes one
-- line of JSON that parses to a LoadResult.

-- One thread for each instance of the server.
local threads = {}

function setup(thread)
  threads[#threads + 1] = thread
  thread:set("number", #threads)
end

checked, created, wrong, firstWrong = 0, 0, 0, ""

local limit, every, listStatus, listLength, createdLength
local lengths, longest, lastId

-- A server takes connections in one by one between requests: were the first requests sent at once,
-- a slow server would leave most connections waiting for seconds, and the window would show
-- that instead of the work. So they all connect first, and send after START_DELAY milliseconds.
local START_DELAY = 100
local connections, connected = 0, 0

function delay()
  if connected == connections then return 0 end
  connected = connected + 1
  return START_DELAY
end

function init(args)
  local key, etag, body = args[1], args[2], args[3]
  every, listStatus, listLength = tonumber(args[4]), tonumber(args[5]), tonumber(args[6])
  createdLength, lastId, limit = tonumber(args[7]), tonumber(args[8]), tonumber(args[9])
  connections = tonumber(args[10])
  -- Each thread connects to its own instance. They share one Host, as behind a load balancer.
  local ports = {}
  for port in string.gmatch(args[11], "%d+") do ports[#ports + 1] = port end
  wrk.thread.addr = wrk.lookup(wrk.host, ports[number])[1]
  lengths, longest = { [listLength] = true }, listLength

  local listHeaders = { Authorization = "Bearer " .. key }
  if etag ~= "" then listHeaders["If-None-Match"] = etag end
  local list = wrk.format("GET", nil, listHeaders)
  local create = wrk.format("POST", nil, {
    Authorization = "Bearer " .. key,
    ["Content-Type"] = "application/json",
  }, body)
  local sent = 0
  function request()
    sent = sent + 1
    if every > 0 and sent % every == 0 then return create end
    return list
  end
end

-- The list grows by whole categories: the answer to the create, the digits of its id, a comma.
local function isListLength(length)
  if every == 0 then return length == listLength end
  while longest < length do
    lastId = lastId + 1
    longest = longest + createdLength + #tostring(lastId) + 1
    lengths[longest] = true
  end
  return lengths[length]
end

local function isRight(status, body)
  if status == listStatus and every ~= 1 then return isListLength(#body) end
  if status ~= 201 or every == 0 then return false end
  local id = string.match(body, '"id":(%d+)')
  if id == nil or #body ~= createdLength + #id then return false end
  created = created + 1
  return true
end

function response(status, _, body)
  checked = checked + 1
  if not isRight(status, body) then
    wrong = wrong + 1
    if wrong == 1 then firstWrong = string.format("status %d with a body of %d bytes", status, #body) end
  end
  if checked == limit then
    -- wrk itself sleeps until the time is up: load.ts wakes it when it reads this.
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
  local firstWrong = ""
  for _, thread in ipairs(threads) do
    if firstWrong == "" then firstWrong = thread:get("firstWrong") end
  end
  io.write(string.format(
    '{"requests":%d,"seconds":%.6f,"p50":%.3f,"p99":%.3f,"checked":%d,"created":%d,"wrong":%d,"firstWrong":"%s","socketErrors":%d}\n',
    summary.requests, summary.duration / 1e6 - START_DELAY / 1000,
    latency:percentile(50) / 1000, latency:percentile(99) / 1000,
    sum("checked"), sum("created"), sum("wrong"), firstWrong,
    errors.connect + errors.read + errors.write + errors.timeout))
end
