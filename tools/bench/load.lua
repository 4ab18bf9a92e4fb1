-- The script of wrk. Arguments: the ports of the instances, one thread each; the number of values of PLACEHOLDER, which
-- a header of the requests may have; the body of create requests. Prints one line of JSON.
local threads = 0

function setup(thread)
  threads = threads + 1
  thread:set("number", threads)
end

function init(args)
  local ports, values = {}, tonumber(args[2])
  for port in string.gmatch(args[1], "%d+") do ports[#ports + 1] = port end
  wrk.thread.addr = wrk.lookup(wrk.host, ports[number])[1]
  if args[3] then
    wrk.method, wrk.body = "POST", args[3]
    wrk.headers["Content-Type"] = "application/json"
  end
  local head, tail = string.match(wrk.format(), "^(.*)PLACEHOLDER(.*)$")
  if head == nil then return end
  local sent = 0
  function request()
    sent = sent + 1
    return head .. string.format("%d%09d", number, sent % values) .. tail
  end
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.status + errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format('{"requests":%d,"seconds":%.6f,"p50":%.3f,"p99":%.3f,"failed":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1000, latency:percentile(99) / 1000, failed))
end
