-- ARGV: id of a dead letter, queue where no message of its key is in flight. Returns 1, or 0 where it is no dead letter
-- any more. It is accepted anew; the sums for lanes counted it when it came first.
begin()
local found = redis.call('XRANGE', base .. ':dead', ARGV[1], ARGV[1])[1]
if not found then return 0 end
local entry = read(found[2])
local queue, lane = place_of_key(entry.k)
accept(queue or ARGV[2], lane or '', entry)
redis.call('XDEL', base .. ':dead', ARGV[1])
return 1
