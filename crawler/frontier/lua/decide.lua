-- Decides what becomes of a segment: the first decision stands for ever. Runs in the partition of the segment's name.
--
-- @include base
-- KEYS  decisions pending
-- ARGV  1 now       ms; 0: the server's clock
--       2 segment   its name
--       3 decision  P published, A aborted
--       4 manifest  its text; kept until it stands
-- Returns the decision that stands: u8 version, P or A, u8 1 when its manifest is known to stand, manifest.
-- Cost   O(length of the manifest)

local segment = ARGV[2]
local decided = redis_call('HGET', K_decisions, segment)
if not decided then
  decided = char(1) .. ARGV[3] .. char(0) .. ARGV[4]
  redis_call('HSET', K_decisions, segment, decided)
  redis_call('SADD', K_pending, segment)
  count('moves', 1)
  save_counts()
end
return decided
