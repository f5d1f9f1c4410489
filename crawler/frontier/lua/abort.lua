-- Carries a decision to abort into a partition: nothing is sealed under this name any more, and the segment's URLs here go back
-- to the heads of their queues. May be repeated by anyone.
--
-- @include base
-- @include groups
-- @include queues
-- @include items
-- KEYS  segs aborted
-- ALSO  s:<segment>
-- ARGV  1 now      ms; 0: the server's clock
--       2 turns    most fetches at once in a group
--       3 segment  its name
--       4 limit    URLs moved at most
-- Returns how many are left.
-- Cost   O(limit log groups)

local segment = ARGV[3]
local mine = TAG .. 's:' .. segment
redis_call('SADD', K_aborted, segment)
local tokens = redis_call('SPOP', mine, ARGV[4])
table.sort(tokens)   -- chance would make no two runs alike
local found, urls, names = fetch('HMGET', K_leases, tokens), {}, {}
for i, row in ipairs(found) do
  local tail = tail_of(row)
  urls[i] = {band = byte(row, 3), group = group_of(tail), record = record_of(tail)}
  names[i] = urls[i].group
end
load_groups(names)
for _, url in ipairs(urls) do
  push_head(url.band, url.group, url.record)
  move('sealed', 'queued')
end
call('HDEL', K_leases, tokens)
save_queues()
save_groups()
if #tokens > 0 then save_counts() end
local left = redis_call('SCARD', mine)
if left == 0 then redis_call('HDEL', K_segs, segment) end
return left
