-- ARGV: queues.
return view(tonumber(ARGV[1]))
