-- The rows of held URLs are on disk in a segment. Its worker owns the segment from now on, whoever was granted the URLs.
--
-- @include base
-- @include groups
-- @include items
-- KEYS  sessions segs aborted
-- ALSO  s:<segment>
-- ARGV  1 now      ms; 0: the server's clock
--       2 turns    most fetches at once in a group
--       3 worker   its name
--       4 session  ms that its session lasts from now
--       5 segment  its name
--       6.. items  token, tail
-- Returns one letter per item (A applied, Y already, S stale, T the segment is aborted and the URL still held, L still leased: fetched
-- was not answered), and how many tokens the segment has here.
-- Cost   O(1) an item

read_items(6, 2)
local worker, segment = ARGV[3], ARGV[5]
local mine = TAG .. 's:' .. segment
local aborted = redis_call('SISMEMBER', K_aborted, segment) == 1

local answers, fields, sealed = {}, {}, {}
for i = 1, #items do
  local item = items[i]
  if item.state == 'held' and aborted then
    answers[i] = 'T'
  elseif item.state == 'held' then
    fields[#fields + 1] = item.token
    fields[#fields + 1] = sub(item.row, 1, 1) .. 'S' .. sub(item.row, 3)
    sealed[#sealed + 1] = item.token
    put_in(leavers, worker_of(item.row), item.token)
    answers[i] = 'A'
  elseif item.state == 'leased' then
    answers[i] = 'L'
  elseif item.state == 'sealed' and redis_call('SISMEMBER', mine, item.token) == 1 then
    answers[i] = 'Y'
  else
    answers[i] = 'S'
  end
end
save_items()
call('HSET', K_leases, fields)
call('SADD', mine, sealed)
move('held', 'sealed', #sealed)
local total = redis_call('SCARD', mine)
if total > 0 then
  redis_call('HSET', K_segs, segment, worker)
  redis_call('ZADD', K_sessions, now + tonumber(ARGV[4]), worker)
end
save_counts()
return {table.concat(answers), total}
