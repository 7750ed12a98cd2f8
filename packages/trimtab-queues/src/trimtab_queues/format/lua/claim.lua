-- ARGV: queues, worker, milliseconds of life, deaths at which a message is a dead letter, the name that the worker had
-- before it lost touch (or ''), then queue/name of each message that it has in work.
-- Returns {queue or -1, {{name, trace, fields}, ...}}: what earlier workers had taken and not finished.
begin()
hear()
local worker, most, formerly = ARGV[2], tonumber(ARGV[4]), ARGV[5]
local in_work = {}
for at = 6, #ARGV do in_work[ARGV[at]] = true end
local function is_own(name) return name == worker or (formerly ~= '' and name == formerly) end
local queues, at = tonumber(ARGV[1]), now()
local seen = counters({'owner', 'until', 'life', 'length'}, 0, queues - 1)
local found, best, own, anyone = -1, -1, false, false
for queue = 0, queues - 1 do
  local owner, ends, life, length = unpack(seen, 4 * queue + 1, 4 * queue + 4)
  length = tonumber(length or 0)
  if is_own(owner) then
    found, own = queue, true
    break
  elseif lives(ends, life, at) then
    anyone = true
  elseif length > best then
    found, best = queue, length
  end
end
if found < 0 then return {-1, {}} end
-- The first worker there: others may be on their way, and until they have had time to come no queue is abandoned.
if not own and not anyone then give_grace(queues) end
redis.call('HSET', counts, 'owner:' .. found, worker, 'until:' .. found, string.format('%.0f', now() + ARGV[3]),
  'life:' .. found, ARGV[3])
for _, lane in ipairs(LANES) do redis.pcall('XGROUP', 'CREATE', stream(found, lane), group, '0', 'MKSTREAM') end
local left = {}
for _, one in ipairs(pending(found)) do
  local name = one[1]
  local mark, flat = mark_of(found, name), fields(found, name)
  local trace
  if flat and in_work[mark] then
    redis.call('HSET', started, mark, worker)
  elseif flat and is_own(one[2]) then
    -- Handed out by an answer that did not arrive, or not begun: nobody has died with it.
    redis.call('HDEL', started, mark)
    trace = trace_of(found, name, read(flat))
  elseif flat then
    trace = survived(found, name, read(flat), most)
  end
  if one[2] ~= worker and flat and (trace or in_work[mark]) then
    local from, id = place(found, name)
    redis.call('XCLAIM', from, group, worker, 0, id, 'JUSTID')
  end
  if trace then left[#left + 1] = {name, trace, flat} end
end
return {found, left}
