-- ARGV: queues.
begin()
hear()
give_grace(tonumber(ARGV[1]))
return 1
