-- ARGV: queue, worker. Returns {1, id, trace, fields}, or {0, newest id} where nothing waits, or {-1}: not its queue.
begin()
local queue, worker = ARGV[1], ARGV[2]
if get('owner', queue) ~= worker then return {-1} end
local got = redis.call('XREADGROUP', 'GROUP', group, worker, 'COUNT', 1, 'STREAMS', stream(queue), '>')
if not got then
  local about = redis.call('XINFO', 'STREAM', stream(queue))
  for at = 1, #about, 2 do
    if about[at] == 'last-generated-id' then return {0, about[at + 1]} end
  end
end
local id, flat = got[1][2][1][1], got[1][2][1][2]
local entry = read(flat)
add('held', queue, 1)
add('held_work', queue, entry.w)
local trace = trace_of(id, entry)
-- A message with which a worker died waits until it can run alone, and is begun then.
if trace == '' then redis.call('HSET', started, id, worker) end
return {1, id, trace, flat}
