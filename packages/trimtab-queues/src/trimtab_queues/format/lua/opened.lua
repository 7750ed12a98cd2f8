-- ARGV: queues, slots of the cluster. The most that any process has had: those beyond its own may hold messages still.
begin()
local most = tonumber(redis.call('HGET', counts, 'queues') or 0)
if tonumber(ARGV[1]) > most then redis.call('HSET', counts, 'queues', ARGV[1]) end
redis.call('HSET', counts, 'slots', ARGV[2])
return 1
