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

local function stream(queue) return base .. ':queue:' .. queue end

local function now()
  local at = redis.call('TIME')
  return at[1] * 1000 + math.floor(at[2] / 1000)
end

local function get(field, queue) return redis.call('HGET', counts, field .. ':' .. queue) end
local function number(field, queue) return tonumber(get(field, queue) or 0) end
local function add(field, queue, by) redis.call('HINCRBY', counts, field .. ':' .. queue, string.format('%.0f', by)) end

local function alive(queue) return number('until', queue) > now() end

local FIELDS = {'length', 'work', 'held', 'held_work', 'arrived', 'served', 'paused', 'until'}

local function view(queues)
  local names = {}
  for queue = 0, queues - 1 do
    for _, field in ipairs(FIELDS) do names[#names + 1] = field .. ':' .. queue end
  end
  return {now(), redis.call('HMGET', counts, unpack(names))}
end

-- Fields of an entry, by name.
local function read(flat)
  local found = {}
  for at = 1, #flat, 2 do found[flat[at]] = flat[at + 1] end
  found.w = tonumber(found.w)
  return found
end

local function unbind(key)
  if key == '' then return end
  if redis.call('HINCRBY', base .. ':in_flight', key, -1) <= 0 then
    redis.call('HDEL', base .. ':in_flight', key)
    redis.call('HDEL', keys, key)
  end
end

local function trace_of(id, entry) return redis.call('HGET', deaths, id) or entry.x or '' end

local function times(trace)
  local _, found = string.gsub(trace, '%S+', '')
  return found
end

-- A message leaves for good.
local function leave(queue, id, entry, held)
  add('length', queue, -1)
  add('work', queue, -entry.w)
  add('served', queue, entry.w)
  if held then
    add('held', queue, -1)
    add('held_work', queue, -entry.w)
    redis.call('XACK', stream(queue), group, id)
    redis.call('HDEL', started, id)
    redis.call('HDEL', deaths, id)
  end
  redis.call('XDEL', stream(queue), id)
  unbind(entry.k)
end

-- A worker is gone that had this message. If it had begun it, that is written down; after too many of
-- them the message becomes a dead letter. Returns the trace, or nil for a dead letter.
local function survived(queue, id, entry, most)
  local trace = trace_of(id, entry)
  local by = redis.call('HGET', started, id)
  if not by then return trace end
  trace = (trace == '' and '' or trace .. ' ') .. by .. '@' .. string.format('%.0f', now())
  redis.call('HDEL', started, id)
  redis.call('HSET', deaths, id, trace)
  if times(trace) < most then return trace end
  redis.call('XADD', base .. ':dead', '*', 't', entry.t, 'c', entry.c, 'k', entry.k, 'w', string.format('%.0f', entry.w),
    'm', entry.m, 'q', queue, 'x', trace)
  leave(queue, id, entry, true)
  return nil
end

-- The newest id that the group has handed out.
local function handed_out(queue)
  local groups = redis.call('XINFO', 'GROUPS', stream(queue))
  if #groups == 0 then return '0-0' end
  local one = groups[1]
  for at = 1, #one, 2 do
    if one[at] == 'last-delivered-id' then return one[at + 1] end
  end
end

local function fenced(fence) return redis.call('GET', base .. ':fence') == fence end
