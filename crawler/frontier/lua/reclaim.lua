-- Takes back what nobody works on any more: leases past their deadline, URLs of workers whose sessions ended, turns.
--
-- @include base
-- @include groups
-- @include queues
-- @include items
-- @include failures
-- KEYS  sessions segs
-- ARGV  1 now       ms; 0: the server's clock
--       2 turns     most fetches at once in a group
--       3 limit     turns, and URLs of vanished workers, taken back at most
--       4 most      expiries at which a URL is dead as poison
--       5 grace     ms from a session's end after which its segments are to be aborted
--       6.. ladder  ms that a URL is delayed after its 2nd, 3rd, … expiry; the last one repeats
-- Returns now, URLs expired, URLs dead of it, turns ended, when this may find more (ms; 0: at once, -1: nothing to wait for), names of the
-- segments to abort.
-- Cost   O(limit log groups)
--
-- The group's turn is kept until the lease's deadline, and the delay runs from there: its request may still be under way.

local limit, most, grace = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local expired, dead = 0, 0

local more = -1
local function sooner(at)
  if at and (more == -1 or at < more) then more = at end
end

local function expire(token, row, state)
  local tail = tail_of(row)
  local group, band = group_of(tail), byte(row, 3)
  local record = with_code(record_of(tail), EXPIRED)
  local met = expiries(record)
  local named = char(#group) .. group .. record
  gone[#gone + 1] = token
  put_in(leavers, worker_of(row), token)
  count('expiries', 1)
  expired = expired + 1
  if met >= most then
    bury_url(band, named, 'poison')
    move(state, 'dead')
    dead = dead + 1
  elseif met == 1 or #ARGV < 6 then
    push_head(band, group, record)
    move(state, 'queued')
  else
    delay_url(band, named, now + tonumber(ARGV[min(4 + met, #ARGV)]))
    move(state, 'delayed')
  end
end

-- Turns past their deadline, and the leases among them.
local late = redis_call('ZRANGEBYSCORE', K_turns, '-inf', now, 'WITHSCORES', 'LIMIT', 0, limit)
local tokens, names = {}, {}
for i = 1, #late, 2 do
  tokens[#tokens + 1] = sub(late[i], 1, 16)
  names[#names + 1] = sub(late[i], 17)
end
local found, late_rows = fetch('HMGET', K_leases, tokens), {}
for i, row in ipairs(found) do
  if row and byte(row, 2) == OWNED and group_of(tail_of(row)) == names[i] then late_rows[tokens[i]] = row end
end

-- Workers whose sessions are over: the URLs they own.
local orphans, deserted, doomed = {}, {}, {}
local owned = {}
local owners = redis_call('HGETALL', K_segs)
for i = 1, #owners, 2 do put_in(owned, owners[i + 1], owners[i]) end
local over = redis_call('ZRANGEBYSCORE', K_sessions, '-inf', '(' .. now, 'WITHSCORES')
local room = limit
for i = 1, #over, 2 do
  local worker, ended_at = over[i], tonumber(over[i + 1])
  local theirs = room > 0 and redis_call('SRANDMEMBER', TAG .. 'w:' .. worker, room) or {}
  room = room - #theirs
  table.sort(theirs)   -- chance would make no two runs alike
  for _, token in ipairs(theirs) do
    if not late_rows[token] then orphans[#orphans + 1] = token end
  end
  if owned[worker] then
    if ended_at + grace < now then
      for _, segment in ipairs(owned[worker]) do doomed[#doomed + 1] = segment end
    else
      sooner(ended_at + grace + 1)
    end
  elseif #theirs == 0 and room > 0 then
    deserted[#deserted + 1] = worker
  end
end
local orphan_rows, members = fetch('HMGET', K_leases, orphans), {}
for i = 1, #orphans do
  local name = group_of(tail_of(orphan_rows[i]))
  names[#names + 1] = name
  members[i] = orphans[i] .. name
end
local open = fetch('ZMSCORE', K_turns, members)
load_groups(names)

for i, token in ipairs(tokens) do
  local name = names[i]
  local row = rows[name]
  if late_rows[token] then
    expire(token, late_rows[token], 'leased')
    late_rows[token] = nil
  end
  ended[#ended + 1] = token .. name
  end_turn(row, tonumber(late[2 * i]) + max(row.delay, row.least or 0))
end
for i, token in ipairs(orphans) do expire(token, orphan_rows[i], open[i] and 'leased' or 'held') end
save_items()
call('ZREM', K_sessions, deserted)
save_queues()
save_groups()

if #late == 2 * limit or room <= 0 then
  more = 0
else
  sooner(tonumber(redis_call('ZRANGE', K_turns, 0, 0, 'WITHSCORES')[2]))
  local live = redis_call('ZRANGEBYSCORE', K_sessions, now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  if live then sooner(tonumber(live) + 1) end
end
if #late > 0 or #orphans > 0 then save_counts() end
return {now, expired, dead, #late / 2, more, doomed}
