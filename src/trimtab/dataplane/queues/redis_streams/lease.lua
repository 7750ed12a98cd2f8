-- ARGV: holder, milliseconds. Returns its fence, or -1.
local held = redis.call('GET', base .. ':lease')
if held and held ~= ARGV[1] then return -1 end
redis.call('SET', base .. ':lease', ARGV[1], 'PX', ARGV[2])
if held then return tonumber(redis.call('GET', base .. ':fence')) end
return redis.call('INCR', base .. ':fence')
