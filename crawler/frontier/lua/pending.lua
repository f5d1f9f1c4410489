-- What anyone may carry out: redirects in the outbox, decided segments that are not known to stand.
--
-- @include base
-- KEYS  outbox pending
-- ARGV  1 now     ms; 0: the server's clock
--       2 limit   entries of the outbox, more or less
-- Returns now, the names of the segments, then token and entry of each redirect.
-- Cost   O(limit + segments)

local reply = {now, redis_call('SMEMBERS', K_pending)}
local page = redis_call('HSCAN', K_outbox, 0, 'COUNT', ARGV[2])[2]
for i = 1, #page do reply[#reply + 1] = page[i] end
return reply
