-- ARGV: queues. Returns {dead letters, duplicates, queue, messages, ...}: the queues beyond those, with messages and without
-- a living worker.
local found = {redis.call('XLEN', base .. ':dead'), tonumber(redis.call('HGET', counts, 'duplicates') or 0)}
for queue = tonumber(ARGV[1]), tonumber(redis.call('HGET', counts, 'queues') or 0) - 1 do
  if number('length', queue) > 0 and not alive(queue) then
    found[#found + 1] = queue
    found[#found + 1] = number('length', queue)
  end
end
return found
