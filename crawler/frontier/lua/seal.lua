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
local aborted = redis.call('SISMEMBER', K_aborted, segment) == 1

local tokens = {}
for i, item in ipairs(items) do tokens[i] = item.token end
local inside = fetch('SMISMEMBER', mine, tokens)

local answers, fields, sealed = {}, {}, {}
for i, item in ipairs(items) do
  if item.state == HELD and aborted then
    answers[i] = 'T'
  elseif item.state == HELD then
    fields[#fields + 1] = item.token
    fields[#fields + 1] = string.char(1) .. SEALED .. string.sub(item.row, 3)
    sealed[#sealed + 1] = item.token
    put_in(leavers, item.worker, item.token)
    move('held', 'sealed')
    answers[i] = 'A'
  elseif item.state == LEASED then
    answers[i] = 'L'
  else
    answers[i] = item.state == SEALED and inside[i] == 1 and 'Y' or 'S'
  end
end
save_items()
call('HSET', K_leases, fields)
call('SADD', mine, sealed)
local total = redis.call('SCARD', mine)
if total > 0 then
  redis.call('HSET', K_segs, segment, worker)
  redis.call('ZADD', K_sessions, now + tonumber(ARGV[4]), worker)
end
save_counts()
return {table.concat(answers), total}
