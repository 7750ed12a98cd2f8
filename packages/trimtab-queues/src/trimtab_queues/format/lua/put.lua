-- ARGV: queues, queue or -1, capacity, task id, class, key, weight, body, idempotency key, its milliseconds, lane,
-- 1 for a view of all queues, 1 for a retry.
-- Returns {queue or -1, view}: of that queue, or of all of them, also where it is refused or a duplicate.
begin()
local queues, queue, capacity = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local key, weight, once = ARGV[6], ARGV[7], ARGV[9]
local known = once ~= '' and redis.call('GET', base .. ':once:' .. once)
if known then
  redis.call('HINCRBY', counts, 'duplicates', 1)
  return {tonumber(known), view(queues)}
end
-- Messages of a key keep to one lane too, or the quick ones would overtake the others.
local bound, lane = place_of_key(key)
queue, lane = bound or queue, lane or ARGV[11]
-- A retry takes the place of a message that its sender, a worker, still has.
if ARGV[13] == '1' then capacity, bound = math.huge, queue end
if queue < 0 or number('length', queue) >= capacity or (not bound and get('paused', queue) == '1') then
  return {-1, view(queues)}
end
accept(queue, lane, {t = ARGV[4], c = ARGV[5], k = key, w = weight, m = ARGV[8]})
if once ~= '' then redis.call('SET', base .. ':once:' .. once, queue, 'PX', ARGV[10]) end
-- What came into the queues lately, whoever sent it; the rule is that of trimtab_queues/core/lanes.py.
local sums = redis.call('HMGET', counts, 'came', 'came_squares')
redis.call('HSET', counts, 'came', string.format('%.17g', tonumber(sums[1] or 0) * 0.999 + weight),
  'came_squares', string.format('%.17g', tonumber(sums[2] or 0) * 0.999 + weight * weight))
return {queue, ARGV[12] == '1' and view(queues) or view_of(queue, queue)}
