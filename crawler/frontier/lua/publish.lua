-- Carries a decision to publish into a partition: the segment's URLs here are done. May be repeated by anyone.
--
-- @include base
-- KEYS  leases segs
-- ALSO  s:<segment>
-- ARGV  1 now      ms; 0: the server's clock
--       2 segment  its name
--       3 limit    URLs moved at most
-- Returns how many are left.
-- Cost   O(limit)

local segment = ARGV[2]
local mine = TAG .. 's:' .. segment
local tokens = redis_call('SPOP', mine, ARGV[3])
if #tokens > 0 then
  call('HDEL', K_leases, tokens)
  count('sealed', -#tokens)
  count('done', #tokens)
  count('moves', #tokens)
end
local left = redis_call('SCARD', mine)
if left == 0 then redis_call('HDEL', K_segs, segment) end
if #tokens > 0 then save_counts() end
return left
