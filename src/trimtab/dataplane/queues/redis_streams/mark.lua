-- ARGV: queue, 1 or 0, fence.
if not fenced(ARGV[3]) then return 0 end
redis.call('HSET', counts, 'paused:' .. ARGV[1], ARGV[2])
return 1
