-- ARGV: queue, worker. What it had taken was not begun, as far as deaths go: this one leaves in order.
begin()
if get('owner', ARGV[1]) ~= ARGV[2] then return 0 end
for _, pending in ipairs(redis.call('XPENDING', stream(ARGV[1]), group, '-', '+', 100000, ARGV[2])) do
  redis.call('HDEL', started, pending[1])
end
redis.call('HSET', counts, 'owner:' .. ARGV[1], '', 'until:' .. ARGV[1], string.format('%.0f', now()))
return 1
