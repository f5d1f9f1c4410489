-- Takes a group's turn without a URL: for a robots.txt hop to another group, or a download that passes the scheduler by.
--
-- @include base
-- @include groups
-- KEYS  turns
-- ARGV  1 now      ms; 0: the server's clock
--       2 turns    most fetches at once in a group
--       3 token    16 bytes
--       4 group    its name
--       5 lease    ms that the turn lasts
--       6 patience ms after which to ask again when a turn is open
-- Returns 1, the turn's deadline and the group's pace; or 0, when to ask again and the pace; times in ms. A token that has the turn
-- already gets the same answer.
-- Cost   O(log groups)

local member = ARGV[3] .. ARGV[4]
local deadline = redis_call('ZSCORE', K_turns, member)
load_groups({ARGV[4]})
local row = rows[ARGV[4]]
if deadline then return {1, tonumber(deadline), row.pace, now} end
if row.turns >= TURNS then return {0, max(row.next, now + tonumber(ARGV[6])), row.pace, now} end
local free_at = max(row.next, row.until_ms or 0)
if free_at > now then return {0, free_at, row.pace, now} end
take_turn(row)
deadline = now + tonumber(ARGV[5])
redis_call('ZADD', K_turns, deadline, member)
save_groups()
save_counts()
return {1, deadline, row.pace, now}
