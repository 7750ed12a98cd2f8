-- ARGV: queue, name, queue, name, ... Returns for each 1, or 0 where somebody has finished or moved it.
begin()
local found = {}
for at = 1, #ARGV, 2 do
  local there = holder(ARGV[at], ARGV[at + 1])
  if there then leave(ARGV[at], ARGV[at + 1], read(fields(ARGV[at], ARGV[at + 1])), true) end
  found[#found + 1] = there and 1 or 0
end
return found
