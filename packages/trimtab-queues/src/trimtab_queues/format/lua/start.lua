-- ARGV: queue, name, worker. Returns 1 if the message may be begun.
begin()
if get('owner', ARGV[1]) ~= ARGV[3] or holder(ARGV[1], ARGV[2]) ~= ARGV[3] then return 0 end
redis.call('HSET', started, mark_of(ARGV[1], ARGV[2]), ARGV[3])
return 1
