-- The script of wrk, which prints a line of JSON. Arguments: the number of values of PLACEHOLDER; the body of create requests.
function init(args)
  if args[2] then wrk.method, wrk.body = "POST", args[2] end
  local head, tail = string.match(wrk.format(), "^(.*)PLACEHOLDER(.*)$")
  if head == nil then return end
  local sent, keys = 0, tonumber(args[1])
  function request()
    sent = sent + 1
    return head .. string.format("%09d", sent % keys) .. tail
  end
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.status + errors.connect + errors.read + errors.write + errors.timeout
  io.write(string.format('{"requests":%d,"seconds":%.6f,"p99":%.3f,"failed":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(99) / 1000, failed))
end
