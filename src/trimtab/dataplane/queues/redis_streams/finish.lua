-- ARGV: queue, id. Returns 1, or 0 where somebody has finished or moved it.
begin()
if #redis.call('XPENDING', stream(ARGV[1]), group, ARGV[2], ARGV[2], 1) == 0 then return 0 end
local entry = redis.call('XRANGE', stream(ARGV[1]), ARGV[2], ARGV[2])[1]
leave(ARGV[1], ARGV[2], read(entry[2]), true)
return 1
