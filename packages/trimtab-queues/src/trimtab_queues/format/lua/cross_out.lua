-- ARGV: name of the journey. The last step of a move to another slot: what has arrived counts here no more.
begin()
local found = redis.call('XRANGE', base .. ':journal', ARGV[1], ARGV[1])[1]
if not found then return 0 end
local journey = read(found[2])
redis.call('XDEL', base .. ':journal', ARGV[1])
add('length', journey.from, -tonumber(journey.n))
add('work', journey.from, -journey.w)
return 1
