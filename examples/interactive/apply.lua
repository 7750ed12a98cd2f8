-- Effects of one task, each once: KEYS[1] is the business, ARGV[1] a list of {id, user, counter, points, text, error}
-- in order, ARGV[2] how many answers of a user count. All of it happens or nothing does; who dies afterwards, before
-- the queue hears of it, is followed by one who finds the ids done.
local base = KEYS[1]
local applied = 0
for _, one in ipairs(cjson.decode(ARGV[1])) do
  local id, user, counter, points, text, failed = unpack(one)
  if redis.call('SADD', base .. ':done', id) == 1 then
    applied = applied + 1
    redis.call('RPUSH', base .. ':journal', id)
    if failed ~= '' then
      redis.call('HINCRBY', base .. ':totals', 'failed', 1)
      redis.call('RPUSH', base .. ':failed', cjson.encode({id = id, error = failed}))
    elseif redis.call('HINCRBY', base .. ':uses', user, 1) > tonumber(ARGV[2]) then
      redis.call('HINCRBY', base .. ':totals', 'beyond', 1)
    else
      redis.call('HINCRBY', base .. ':totals', 'counted', 1)
      redis.call('HINCRBY', base .. ':answers', counter, 1)
      if points ~= 0 then redis.call('ZINCRBY', base .. ':board', points, user) end
      if text ~= '' then
        redis.call('SADD', base .. ':asked', id)
        redis.call('RPUSH', base .. ':texts', cjson.encode({id = id, text = text}))
      end
    end
  end
end
return applied
