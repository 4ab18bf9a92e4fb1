-- The script of wrk. Arguments: the number of values of PLACEHOLDER, which a header of the requests may have; the body of
-- create requests. Prints one line of JSON.
function init(args)
  local values = tonumber(args[1])
  if args[2] then
    wrk.method, wrk.body = "POST", args[2]
    wrk.headers["Content-Type"] = "application/json"
  end
  local head, tail = string.match(wrk.format(), "^(.*)PLACEHOLDER(.*)$")
  if head == nil then return end
  local sent = 0
  function request()
    sent = sent + 1
    return head .. string.format("%09d", sent % values) .. tail
  end
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.status + errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format('{"requests":%d,"seconds":%.6f,"p99":%.3f,"failed":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(99) / 1000, failed))
end
