-- ARGV: holder, milliseconds. Returns its fence, or -1.
hear()
local lease = base .. ':lease'
local held = redis.call('GET', lease)
-- One that lasts for longer than it was asked for was given before the server's clock went back: it is over.
local asked = tonumber(redis.call('HGET', counts, 'lease'))
if held and asked and redis.call('PTTL', lease) > asked then held = false end
if held and held ~= ARGV[1] then return -1 end
redis.call('SET', lease, ARGV[1], 'PX', ARGV[2])
redis.call('HSET', counts, 'lease', ARGV[2])
if held then return tonumber(redis.call('GET', base .. ':fence')) end
return redis.call('INCR', base .. ':fence')
