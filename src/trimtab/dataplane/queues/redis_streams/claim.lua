-- ARGV: queues, worker, milliseconds of life, deaths at which a message is a dead letter.
-- Returns {queue or -1, {{name, trace, fields}, ...}}: what earlier workers had taken and not finished.
begin()
local worker, most = ARGV[2], tonumber(ARGV[4])
local found, best, anyone = -1, -1, false
for queue = 0, tonumber(ARGV[1]) - 1 do
  if get('owner', queue) == worker and alive(queue) then
    found = queue
    break
  end
  anyone = anyone or alive(queue)
  if not alive(queue) and number('length', queue) > best then
    found, best = queue, number('length', queue)
  end
end
if found < 0 then return {-1, {}} end
-- The first worker there: others may be on their way, and until they have had time to come no queue is abandoned.
if not anyone then
  for queue = 0, tonumber(ARGV[1]) - 1 do
    redis.call('HSET', counts, 'until:' .. queue, string.format('%.0f', now()))
  end
end
redis.call('HSET', counts, 'owner:' .. found, worker, 'until:' .. found, string.format('%.0f', now() + ARGV[3]),
  'life:' .. found, ARGV[3])
for _, lane in ipairs(LANES) do redis.pcall('XGROUP', 'CREATE', stream(found, lane), group, '0', 'MKSTREAM') end
local left = {}
for _, one in ipairs(pending(found)) do
  local name = one[1]
  local flat = fields(found, name)
  if flat and one[2] ~= worker then
    local trace = survived(found, name, read(flat), most)
    if trace then
      local from, id = place(found, name)
      redis.call('XCLAIM', from, group, worker, 0, id, 'JUSTID')
      left[#left + 1] = {name, trace, flat}
    end
  elseif flat and not redis.call('HGET', started, mark_of(found, name)) then
    left[#left + 1] = {name, trace_of(found, name, read(flat)), flat}
  end
end
return {found, left}
