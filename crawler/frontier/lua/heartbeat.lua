-- Keeps a worker's session, and tells what is held and sealed here for it.
--
-- @include base
-- @include groups
-- @include items
-- KEYS  sessions segs
-- ARGV  1 now       ms; 0: the server's clock
--       2 turns     most fetches at once in a group
--       3 worker    its name
--       4 session   ms that its session lasts from now
-- Returns now, the names of its segments, then token and lease row of each URL it holds.
-- Cost   O(URLs leased or held by the worker here + segments unpublished here)

local worker = ARGV[3]
redis_call('ZADD', K_sessions, now + tonumber(ARGV[4]), worker)
save_counts()

local segments = {}
local owners = redis_call('HGETALL', K_segs)
for i = 1, #owners, 2 do
  if owners[i + 1] == worker then segments[#segments + 1] = owners[i] end
end
local reply = {now, segments}
local tokens = redis_call('SMEMBERS', TAG .. 'w:' .. worker)
local found, members = fetch('HMGET', K_leases, tokens), {}
for i = 1, #tokens do members[i] = tokens[i] .. group_of(tail_of(found[i])) end
local open = fetch('ZMSCORE', K_turns, members)
for i = 1, #tokens do
  if not open[i] then reply[#reply + 1], reply[#reply + 2] = tokens[i], found[i] end
end
return reply
