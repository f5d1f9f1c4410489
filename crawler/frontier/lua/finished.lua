-- A decided segment's effects are everywhere and its manifest stands: the decision is kept, the text is not.
--
-- @include base
-- KEYS  decisions pending
-- ARGV  1 now      ms; 0: the server's clock
--       2 segment  its name
-- Returns 1 when it was pending, 0 when not.
-- Cost   O(1)

local segment = ARGV[2]
local decided = redis_call('HGET', K_decisions, segment)
if not decided then return 0 end
redis_call('HSET', K_decisions, segment, sub(decided, 1, 2) .. char(1))
local pending = redis_call('SREM', K_pending, segment)
count('moves', pending)
save_counts()
return pending
