-- ARGV: queue, id, worker. Returns 1 if the message may be begun.
begin()
if get('owner', ARGV[1]) ~= ARGV[3] then return 0 end
local pending = redis.call('XPENDING', stream(ARGV[1]), group, ARGV[2], ARGV[2], 1)
if #pending == 0 or pending[1][2] ~= ARGV[3] then return 0 end
redis.call('HSET', started, ARGV[2], ARGV[3])
return 1
