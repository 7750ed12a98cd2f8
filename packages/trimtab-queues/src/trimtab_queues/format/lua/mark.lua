-- ARGV: queue, 1 or 0, fence.
if not fenced(ARGV[3]) then return 0 end
if ARGV[2] == '1' and get('paused', ARGV[1]) ~= '1' then redis.call('HINCRBY', counts, 'pauses', 1) end
redis.call('HSET', counts, 'paused:' .. ARGV[1], ARGV[2])
return 1
