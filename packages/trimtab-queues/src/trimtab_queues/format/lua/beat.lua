-- ARGV: queue, worker, milliseconds of life. Returns 1 if the queue is still its own.
hear()
if get('owner', ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', counts, 'until:' .. ARGV[1], string.format('%.0f', now() + ARGV[3]))
return 1
