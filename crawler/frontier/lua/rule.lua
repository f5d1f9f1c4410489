-- An operator's rules for a group: blocked until a time, and a least delay.
--
-- @include base
-- @include groups
-- ARGV  1 now       ms; 0: the server's clock
--       2 turns     most fetches at once in a group
--       3 group     its name
--       4 blocked   until, ms; 0: not blocked; '': as it was
--       5 least     delay, ms; '': as it was
-- Returns 1.
-- Cost   O(log groups)

local name = ARGV[3]
load_groups({name})
local row = rows[name]
row.until_ms = tonumber(ARGV[4]) or row.until_ms or 0
row.least = tonumber(ARGV[5]) or row.least or 0
if row.until_ms > 0 or row.least > 0 then
  row.flags = RULED
  redis_call('HSET', K_rules, name, pack('>dI', row.until_ms, row.least))
else
  row.flags = 0
  redis_call('HDEL', K_rules, name)
end
row.changed, row.ruled = true, true
save_groups()
save_counts()
return 1
