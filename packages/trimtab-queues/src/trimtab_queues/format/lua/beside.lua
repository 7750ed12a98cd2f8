-- ARGV: queues. Returns {dead letters, duplicates, moved messages, pauses, queue, messages, ...}: the queues beyond those,
-- with messages and without a living worker.
local found = {redis.call('XLEN', base .. ':dead')}
for _, one in ipairs(redis.call('HMGET', counts, 'duplicates', 'moved', 'pauses')) do
  found[#found + 1] = tonumber(one or 0)
end
for queue = tonumber(ARGV[1]), tonumber(redis.call('HGET', counts, 'queues') or 0) - 1 do
  if number('length', queue) > 0 and not alive(queue) then
    found[#found + 1] = queue
    found[#found + 1] = number('length', queue)
  end
end
return found
