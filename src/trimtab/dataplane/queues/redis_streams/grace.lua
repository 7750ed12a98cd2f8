-- ARGV: queues. Those without a worker count as left just now: the first workers are coming, others are on their way.
begin()
hear()
for queue = 0, tonumber(ARGV[1]) - 1 do
  if not alive(queue) then redis.call('HSET', counts, 'until:' .. queue, string.format('%.0f', now())) end
end
return 1
