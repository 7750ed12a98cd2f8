-- Put before each script. KEYS[1] is the name of the set of queues, with a hash tag: all keys lie in one slot.
-- Counters stand in one hash, so that a dispatcher sees all queues by one command. Work is in whole
-- microseconds: sums are exact.
local base = KEYS[1]
local counts = base .. ':counts'
local keys = base .. ':keys'
local started = base .. ':started'
local deaths = base .. ':deaths'
local group = 'workers'

-- A server that is full refuses this write, so that a script which begins with it does all or nothing.
local function begin() redis.call('HINCRBY', counts, 'scripts', 1) end

-- A queue has two lanes, a stream each. A message's name in its queue is its id, in the quick lane with a q before it.
local QUICK = ':quick'
local LANES = {QUICK, ''}
local function stream(queue, lane) return base .. ':queue:' .. queue .. lane end
local function named(lane, id) return lane == QUICK and 'q' .. id or id end
local function lane_of(name) return string.sub(name, 1, 1) == 'q' and QUICK or '' end
local function place(queue, name)
  local lane = lane_of(name)
  return stream(queue, lane), lane == QUICK and string.sub(name, 2) or name
end
-- Ids of two streams may be the same: what is written down about a message is written with its queue.
local function mark_of(queue, name) return queue .. '/' .. name end

-- The fields of a message by its name, or nil where it is gone.
local function fields(queue, name)
  local from, id = place(queue, name)
  local found = redis.call('XRANGE', from, id, id)[1]
  return found and found[2]
end

-- Who has a message: the worker's name, or nil where nobody has.
local function holder(queue, name)
  local from, id = place(queue, name)
  local found = redis.call('XPENDING', from, group, id, id, 1)[1]
  return found and found[2]
end

-- All that workers have of a queue: {name, worker}, oldest first in each lane.
local function pending(queue)
  local found = {}
  for _, lane in ipairs(LANES) do
    for _, one in ipairs(redis.call('XPENDING', stream(queue, lane), group, '-', '+', 100000)) do
      found[#found + 1] = {named(lane, one[1]), one[2]}
    end
  end
  return found
end

local function now()
  local at = redis.call('TIME')
  return at[1] * 1000 + math.floor(at[2] / 1000)
end

local function get(field, queue) return redis.call('HGET', counts, field .. ':' .. queue) end
local function number(field, queue) return tonumber(get(field, queue) or 0) end
local function add(field, queue, by) redis.call('HINCRBY', counts, field .. ':' .. queue, string.format('%.0f', by)) end

-- Whether a sign of life counts still. One from further ahead than any worker writes was written before the server's
-- clock went back: a worker that lives gives another soon.
local function lives(ends, life, at)
  local left = tonumber(ends or 0) - at
  return left > 0 and left <= 2 * tonumber(life or 0)
end
local function alive(queue) return lives(get('until', queue), get('life', queue), now()) end

-- Counters of the queues from one to another, those of a queue together; false where nothing is written. A command of
-- its own for each queue would take a thousand of them too long, and Lua takes some 8,000 arguments at most.
local AT_ONCE = 100
local function counters(fields, first, last)
  local found = {}
  for from = first, last, AT_ONCE do
    local names = {}
    for queue = from, math.min(last, from + AT_ONCE - 1) do
      for _, field in ipairs(fields) do names[#names + 1] = field .. ':' .. queue end
    end
    for _, one in ipairs(redis.call('HMGET', counts, unpack(names))) do found[#found + 1] = one end
  end
  return found
end

-- Whoever gives signs of life or looks for those of others says so first. Time in which the server has heard from
-- nobody counts for nobody: it was away itself, or its clock has jumped. Signs of life count for as much longer, so that
-- workers that live have time for the next.
local HEARD_OFTEN = 100
local function hear()
  local before, at = tonumber(redis.call('HGET', counts, 'heard')), now()
  redis.call('HSET', counts, 'heard', string.format('%.0f', at))
  local gap = at - (before or at)
  if gap >= 0 and gap < HEARD_OFTEN then return end
  local queues = tonumber(redis.call('HGET', counts, 'queues') or 0)
  local found = counters({'life', 'until'}, 0, queues - 1)
  for queue = 0, queues - 1 do
    local life, ends = tonumber(found[2 * queue + 1] or 0), tonumber(found[2 * queue + 2] or 0)
    if ends > before and ends - before <= 2 * life and (gap < 0 or gap > life / 2) then
      redis.call('HSET', counts, 'until:' .. queue, string.format('%.0f', ends + gap))
    end
  end
end

-- Queues without a worker count as left just now: the first workers are coming, others are on their way.
local function give_grace(queues)
  for queue = 0, queues - 1 do
    if not alive(queue) then redis.call('HSET', counts, 'until:' .. queue, string.format('%.0f', now())) end
  end
end

local FIELDS = {'length', 'work', 'held', 'held_work', 'arrived', 'served', 'paused', 'until', 'life'}

-- {milliseconds, counters of the queues from one to another, Σw and Σw² of what came, the first queue}. Numbers stand in
-- one text: a client reads that many times faster than an answer for each.
local function view_of(first, last)
  local found = counters(FIELDS, first, last)
  for at = 1, #found do found[at] = found[at] or '0' end
  local sums = redis.call('HMGET', counts, 'came', 'came_squares')
  return {now(), table.concat(found, ' '), (sums[1] or '0') .. ' ' .. (sums[2] or '0'), first}
end

local function view(queues) return view_of(0, queues - 1) end

-- Fields of an entry, by name.
local function read(flat)
  local found = {}
  for at = 1, #flat, 2 do found[flat[at]] = flat[at + 1] end
  found.w = tonumber(found.w)
  return found
end

-- The queue and the lane of a key of which a message is in flight; nil for any other.
local function place_of_key(key)
  local bound = key ~= '' and redis.call('HGET', keys, key)
  if bound then return tonumber(string.match(bound, '^%d+')), string.match(bound, ':.*') or '' end
end

-- A message is accepted, at the end of its lane.
local function accept(queue, lane, entry)
  redis.call('XADD', stream(queue, lane), '*', 't', entry.t, 'c', entry.c, 'k', entry.k, 'w',
    string.format('%.0f', entry.w), 'm', entry.m, 'a', string.format('%.0f', now()))
  add('length', queue, 1)
  add('work', queue, entry.w)
  add('arrived', queue, entry.w)
  if entry.k ~= '' then
    redis.call('HSET', keys, entry.k, queue .. lane)
    redis.call('HINCRBY', base .. ':in_flight', entry.k, 1)
  end
end

-- A message that is moved stands at the end of its new lane, with the time of its acceptance and its trace; returns its
-- id there.
local function append_moved(queue, lane, entry)
  return redis.call('XADD', stream(queue, lane), '*', 't', entry.t, 'c', entry.c, 'k', entry.k, 'w',
    string.format('%.0f', entry.w), 'm', entry.m, 'x', entry.x, 'v', string.format('%.0f', now()), 'a', entry.a)
end

local function unbind(key)
  if key == '' then return end
  if redis.call('HINCRBY', base .. ':in_flight', key, -1) <= 0 then
    redis.call('HDEL', base .. ':in_flight', key)
    redis.call('HDEL', keys, key)
  end
end

local function trace_of(queue, name, entry) return redis.call('HGET', deaths, mark_of(queue, name)) or entry.x or '' end

local function times(trace)
  local _, found = string.gsub(trace, '%S+', '')
  return found
end

-- A message is not in its queue any more.
local function remove(queue, name, held)
  local from, id = place(queue, name)
  if held then
    redis.call('XACK', from, group, id)
    redis.call('HDEL', started, mark_of(queue, name))
  end
  redis.call('HDEL', deaths, mark_of(queue, name))
  redis.call('XDEL', from, id)
end

-- A message leaves for good.
local function leave(queue, name, entry, held)
  add('length', queue, -1)
  add('work', queue, -entry.w)
  add('served', queue, entry.w)
  if held then
    add('held', queue, -1)
    add('held_work', queue, -entry.w)
  end
  remove(queue, name, held)
  unbind(entry.k)
end

-- A worker is gone that had this message. If it had begun it, that is written down; after too many of
-- them the message becomes a dead letter. Returns the trace, or nil for a dead letter.
local function survived(queue, name, entry, most)
  local trace = trace_of(queue, name, entry)
  local by = redis.call('HGET', started, mark_of(queue, name))
  if not by then return trace end
  trace = (trace == '' and '' or trace .. ' ') .. by .. '@' .. string.format('%.0f', now())
  redis.call('HDEL', started, mark_of(queue, name))
  redis.call('HSET', deaths, mark_of(queue, name), trace)
  if times(trace) < most then return trace end
  redis.call('XADD', base .. ':dead', '*', 't', entry.t, 'c', entry.c, 'k', entry.k, 'w', string.format('%.0f', entry.w),
    'm', entry.m, 'q', queue, 'x', trace)
  leave(queue, name, entry, true)
  return nil
end

-- The newest id of a lane that the group has handed out.
local function handed_out(queue, lane)
  local groups = redis.call('XINFO', 'GROUPS', stream(queue, lane))
  if #groups == 0 then return '0-0' end
  local one = groups[1]
  for at = 1, #one, 2 do
    if one[at] == 'last-delivered-id' then return one[at + 1] end
  end
end

-- Whether one id of a stream comes after another.
local function after(one, other)
  local at, count = string.match(one, '(%d+)-(%d+)')
  local other_at, other_count = string.match(other, '(%d+)-(%d+)')
  if at == other_at then return tonumber(count) > tonumber(other_count) end
  return tonumber(at) > tonumber(other_at)
end

-- Messages that were moved stand behind others that were accepted after them. Until the last of them is handed out, the
-- oldest counts as the oldest of its lane: returns when it was accepted, and the id of that last one; or nil.
local function out_of_turn(queue)
  local accepted, id = string.match(get('out_of_turn', queue) or '', '(%d+) (%S+)')
  return tonumber(accepted), id
end

local function put_out_of_turn(queue, accepted, id)
  local before, last = out_of_turn(queue)
  if before and after(last, handed_out(queue, '')) then accepted = math.min(accepted, before) end
  redis.call('HSET', counts, 'out_of_turn:' .. queue, string.format('%.0f', accepted) .. ' ' .. id)
end

local function fenced(fence) return redis.call('GET', base .. ':fence') == fence end
