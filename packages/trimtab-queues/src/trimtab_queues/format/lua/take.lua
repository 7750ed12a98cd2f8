-- ARGV: queue, worker, milliseconds by which a quick message may overtake, microseconds of work to take at once.
-- Returns {{{name, trace, fields}, ...}, newest id of the quick lane, of the other}: the ids only where nothing more
-- waits; or {-1}: not its queue.
begin()
local queue, worker, overtake, budget = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
if get('owner', queue) ~= worker then return {-1} end

-- When the next message of a lane was accepted, in milliseconds; in the other lane that which has waited longest.
local function oldest(lane)
  if redis.call('XLEN', stream(queue, lane)) == 0 then return nil end
  local found = redis.call('XRANGE', stream(queue, lane), '(' .. handed_out(queue, lane), '+', 'COUNT', 1)[1]
  if not found then return nil end
  local accepted = tonumber(read(found[2]).a or string.match(found[1], '^%d+'))
  if lane == QUICK then return accepted end
  local moved, last = out_of_turn(queue)
  return moved and not after(found[1], last) and math.min(accepted, moved) or accepted
end

local function next_one()
  local lane, quick = '', oldest(QUICK)
  if quick then
    local other = oldest('')
    -- The rule is that of trimtab_queues/core/lanes.py.
    if not other or quick <= other + overtake then lane = QUICK end
  end
  local got = redis.call('XREADGROUP', 'GROUP', group, worker, 'COUNT', 1, 'STREAMS', stream(queue, lane), '>')
  if got then return named(lane, got[1][2][1][1]), got[1][2][1][2] end
end

local taken, work = {}, 0
while #taken < 100 do
  local name, flat = next_one()
  if not name then
    local newest = {}
    for _, lane in ipairs(LANES) do
      local about = redis.call('XINFO', 'STREAM', stream(queue, lane))
      for at = 1, #about, 2 do
        if about[at] == 'last-generated-id' then newest[#newest + 1] = about[at + 1] end
      end
    end
    return {taken, newest[1], newest[2]}
  end
  local entry = read(flat)
  if not entry.w then
    -- No message of ours: somebody else has written into the stream. It was never counted.
    remove(queue, name, true)
    redis.call('HINCRBY', counts, 'foreign', 1)
  else
    add('held', queue, 1)
    add('held_work', queue, entry.w)
    local trace = trace_of(queue, name, entry)
    flat[#flat + 1] = 'n'
    flat[#flat + 1] = string.format('%.0f', now())
    taken[#taken + 1] = {name, trace, flat}
    work = work + entry.w
    -- A message with which a worker died waits until it can run alone, and is begun then.
    if trace ~= '' then break end
    redis.call('HSET', started, mark_of(queue, name), worker)
    if work >= budget then break end
  end
end
return {taken}
