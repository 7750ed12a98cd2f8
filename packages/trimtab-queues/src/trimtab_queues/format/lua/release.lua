-- ARGV: queue, worker. What it had taken was not begun, as far as deaths go: this one leaves in order.
begin()
hear()
if get('owner', ARGV[1]) ~= ARGV[2] then return 0 end
for _, one in ipairs(pending(ARGV[1])) do
  if one[2] == ARGV[2] then redis.call('HDEL', started, mark_of(ARGV[1], one[1])) end
end
redis.call('HSET', counts, 'owner:' .. ARGV[1], '', 'until:' .. ARGV[1], string.format('%.0f', now()))
return 1
