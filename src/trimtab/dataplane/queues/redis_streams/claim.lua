-- ARGV: queues, worker, milliseconds of life, deaths at which a message is a dead letter.
-- Returns {queue or -1, {{id, trace, fields}, ...}}: what earlier workers had taken and not finished.
begin()
local worker, most = ARGV[2], tonumber(ARGV[4])
local found, best = -1, -1
for queue = 0, tonumber(ARGV[1]) - 1 do
  if get('owner', queue) == worker and alive(queue) then
    found = queue
    break
  end
  if not alive(queue) and number('length', queue) > best then
    found, best = queue, number('length', queue)
  end
end
if found < 0 then return {-1, {}} end
redis.call('HSET', counts, 'owner:' .. found, worker, 'until:' .. found, string.format('%.0f', now() + ARGV[3]))
redis.pcall('XGROUP', 'CREATE', stream(found), group, '0', 'MKSTREAM')
local left = {}
for _, pending in ipairs(redis.call('XPENDING', stream(found), group, '-', '+', 100000)) do
  local id = pending[1]
  local entry = redis.call('XRANGE', stream(found), id, id)[1]
  if entry and pending[2] ~= worker then
    local trace = survived(found, id, read(entry[2]), most)
    if trace then
      redis.call('XCLAIM', stream(found), group, worker, 0, id, 'JUSTID')
      left[#left + 1] = {id, trace, entry[2]}
    end
  elseif entry and not redis.call('HGET', started, id) then
    left[#left + 1] = {id, trace_of(id, read(entry[2])), entry[2]}
  end
end
return {found, left}
