-- Forgets a URL that is done or dead, unless anything has moved since the caller looked where it is.
--
-- @include base
-- @include seen
-- KEYS  hops dead
-- ARGV  1 now     ms; 0: the server's clock
--       2 key     the URL's, as a decimal string
--       3 moves   the partition's before the caller looked; '': it has not looked yet
--       4 letter  the place of its dead letter; '': it is done
--       5 epoch   the partition's next: what workers remember as seen is void
--       6 hops    longest redirect chain whose members are taken again
-- Returns 1 forgotten, 0 something has moved, or -1 it was never seen; and the partition's moves.
-- Cost   O(hops)

local key, letter = ARGV[2], ARGV[4]
local moves = redis_call('HGET', K_n, 'moves') or '0'
if redis_call('SISMEMBER', bucket_of(key), key) == 0 then return {-1, moves} end
if moves ~= ARGV[3] then return {0, moves} end
redis_call('SREM', bucket_of(key), key)
members = members - 1
save_seen()
for length = 1, tonumber(ARGV[6]) do redis_call('SREM', K_hops, key .. ':' .. length) end
if letter ~= '' then redis_call('XDEL', K_dead, letter) end
redis_call('HSET', K_meta, 'epoch', ARGV[5])
count(letter == '' and 'done' or 'dead', -1)
count('added', -1)
count('moves', 1)
save_counts()
return {1, moves}
