-- ARGV: queue, name of the journey, fence, what was packed by move.lua. The second step of a move out of another slot:
-- returns 1, also where these messages have arrived before, or 0 for an old fence.
begin()
if not fenced(ARGV[3]) then return 0 end
local queue = ARGV[1]
if redis.call('HSETNX', base .. ':journeys', ARGV[2], string.format('%.0f', now())) == 0 then return 1 end
local work, entries, oldest, newest = 0, cmsgpack.unpack(ARGV[4]), nil, nil
for _, one in ipairs(entries) do
  local id = append_moved(queue, one.lane, one)
  if one.lane ~= QUICK then oldest, newest = math.min(oldest or one.a, one.a), id end
  work = work + one.w
end
if newest then put_out_of_turn(queue, oldest, newest) end
add('length', queue, #entries)
add('work', queue, work)
return 1
