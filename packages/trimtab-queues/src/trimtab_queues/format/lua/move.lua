-- ARGV: source, target, messages or -1, microseconds or -1, target's capacity, fence, deaths at which a message is a
-- dead letter, 1 to rescue, milliseconds for which a moved message stays, where it goes to another slot the queue there
-- (the target is '' then, and messages with a key stay: their slot is that of the key). Returns {messages, microseconds}. The rule of choosing is that of choosing.py.
begin()
local source, target, fence, most = ARGV[1], ARGV[2], ARGV[6], tonumber(ARGV[7])
local rescue = ARGV[8] == '1'
if rescue then hear() end
if source == target or not fenced(fence) or (rescue and alive(source)) then return {0, 0} end
local away = target == ''
local room = tonumber(ARGV[5]) - (away and 0 or number('length', target))
local messages, work = tonumber(ARGV[3]), tonumber(ARGV[4])
if messages < 0 or messages > room then messages = room end

local held, entries = {}, {}
local function consider(lane, found)
  for _, one in ipairs(found) do entries[#entries + 1] = {named(lane, one[1]), one[2]} end
end
if rescue then
  for _, one in ipairs(pending(source)) do held[one[1]] = true end
  for _, lane in ipairs(LANES) do consider(lane, redis.call('XRANGE', stream(source, lane), '-', '+')) end
  -- Its worker is gone for good: nobody else may finish what it had under the old names.
  redis.call('HSET', counts, 'owner:' .. source, '')
else
  -- The newest first, as far as anything may be chosen from; quick ones, which wait least, last.
  for _, lane in ipairs({'', QUICK}) do
    consider(lane, redis.call('XREVRANGE', stream(source, lane), '+', '(' .. handed_out(source, lane), 'COUNT', 2000))
  end
end
local rested = now() - tonumber(ARGV[9])

local candidates, of_key, weight_of, traces = {}, {}, {}, {}
for _, one in ipairs(entries) do
  local entry = read(one[2])
  local trace = entry.w and trace_of(source, one[1], entry)
  if held[one[1]] then trace = survived(source, one[1], entry, most) end
  if trace and not (away and entry.k ~= '') and (rescue or tonumber(entry.v or 0) <= rested) then
    traces[one[1]] = trace
    candidates[#candidates + 1] = {one[1], entry}
    of_key[entry.k] = (of_key[entry.k] or 0) + 1
    weight_of[entry.k] = (weight_of[entry.k] or 0) + entry.w
  end
end

local chosen, decided = {}, {}
for _, one in ipairs(candidates) do
  local key, weight = one[2].k, one[2].w
  if key ~= '' then
    if decided[key] == nil then
      decided[key] = of_key[key] == tonumber(redis.call('HGET', base .. ':in_flight', key))
        and of_key[key] <= messages and (work < 0 or weight_of[key] <= work)
      if decided[key] then
        messages = messages - of_key[key]
        if work >= 0 then work = work - weight_of[key] end
      end
    end
    if decided[key] then chosen[#chosen + 1] = one end
  elseif messages >= 1 and (work < 0 or weight <= work) then
    chosen[#chosen + 1] = one
    messages = messages - 1
    if work >= 0 then work = work - weight end
  end
end

if #chosen == 0 then return {0, 0} end
redis.call('HINCRBY', counts, 'moved', #chosen)
local first, last, step = #chosen, 1, -1
if rescue then first, last, step = 1, #chosen, 1 end
local moved, packed, oldest, newest = 0, {}, nil, nil
for at = first, last, step do
  local name, entry = chosen[at][1], chosen[at][2]
  local lane = lane_of(name)
  entry.x, entry.a = traces[name], entry.a or string.match(name, '%d+')
  if away then
    entry.lane = lane
    packed[#packed + 1] = entry
  else
    local id = append_moved(target, lane, entry)
    if lane ~= QUICK then oldest, newest = math.min(oldest or entry.a, entry.a), id end
  end
  if held[name] then
    add('held', source, -1)
    add('held_work', source, -entry.w)
  end
  remove(source, name, held[name])
  if entry.k ~= '' then redis.call('HSET', keys, entry.k, target .. lane) end
  moved = moved + entry.w
end
if away then
  -- The messages are in the journal and in no queue until they have arrived; they count where they were until then, so
  -- that nobody who looks takes the queues for empty.
  redis.call('XADD', base .. ':journal', '*', 'to', ARGV[10], 'from', source, 'n', #chosen, 'w',
    string.format('%.0f', moved), 'messages', cmsgpack.pack(packed))
  return {#chosen, moved}
end
if newest then put_out_of_turn(target, oldest, newest) end
add('length', source, -#chosen)
add('work', source, -moved)
add('length', target, #chosen)
add('work', target, moved)
return {#chosen, moved}
