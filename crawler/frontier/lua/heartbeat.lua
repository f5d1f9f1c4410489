-- Keeps a worker's session, and tells what is held and sealed here for it.
--
-- @include base
-- KEYS  leases sessions segs
-- ALSO  w:<worker>
-- ARGV  1 now       ms; 0: the server's clock
--       2 worker    its name
--       3 session   ms that its session lasts from now
-- Returns now, the names of its segments, then token and lease row of each URL it holds.
-- Cost   O(URLs leased or held by the worker here + segments unpublished here)

local worker = ARGV[2]
redis.call('ZADD', K_sessions, now + tonumber(ARGV[3]), worker)
save_counts()

local segments = {}
local owners = redis.call('HGETALL', K_segs)
for i = 1, #owners, 2 do
  if owners[i + 1] == worker then segments[#segments + 1] = owners[i] end
end
local reply = {now, segments}
local tokens = redis.call('SMEMBERS', TAG .. 'w:' .. worker)
local found = fetch('HMGET', K_leases, tokens)
for i, token in ipairs(tokens) do
  if found[i] and string.sub(found[i], 2, 2) == 'H' then
    reply[#reply + 1], reply[#reply + 2] = token, found[i]
  end
end
return reply
