-- Grants one URL per proposed token, from groups that may be fetched now.
--
-- @include base
-- @include groups
-- @include queues
-- @include items
-- @include failures
-- KEYS  sessions
-- ARGV  1 now       ms; 0: the server's clock
--       2 turns     most fetches at once in a group
--       3 worker    its name
--       4 lease     ms that a lease lasts
--       5 session   ms that a session lasts from now
--       6 bands     how many there are
--       7 promote   delayed URLs taken back at most
--       8 alone     expiries from which on a URL is granted alone
--       9.. tokens  16 bytes each
-- Returns now, when to ask again (ms; -1: nothing waits), then token, lease row and the group's pace per grant. A token that
-- holds a lease already brings the same grant again; one that holds anything else brings none.
-- Cost   O(log groups) a grant; no bands are scanned.

local worker, lease_ms, bands, alone = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[6]), tonumber(ARGV[8])
local reply = {now, -1}
local free, again = {}, {}

local function known_tokens()
  local tokens = {unpack(ARGV, 9)}
  local found = fetch('HMGET', K_leases, tokens)
  for i, token in ipairs(tokens) do
    if not found[i] then
      free[#free + 1] = token
    elseif string.sub(found[i], 2, 2) == LEASED then
      again[#again + 1] = {token, found[i]}
    end
  end
  local names = {}
  for _, grant in ipairs(again) do
    local _, tail = parse(grant[2])
    grant[3] = group_of(tail)
    names[#names + 1] = grant[3]
  end
  load_groups(names)
  for _, grant in ipairs(again) do
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = grant[1], grant[2], rows[grant[3]].pace
  end
end

known_tokens()

-- Delayed URLs whose time has come go to the head of their queues: they have waited already.
local function promote()
  local due = redis.call('ZRANGEBYSCORE', K_delayed, '-inf', now, 'LIMIT', 0, ARGV[7])
  if #due == 0 then return end
  local names = {}
  for i, member in ipairs(due) do names[i] = group_of(string.sub(member, 2)) end
  load_groups(names)
  call('ZREM', K_delayed, due)
  for i, member in ipairs(due) do
    push_head(string.byte(member), names[i], record_of(string.sub(member, 2)))
    move('delayed', 'queued')
  end
  save_queues()
  save_groups()
end

-- Each band's due groups in the order of their times, read in chunks as they are needed.
local PAGE = math.min(64, math.max(8, #free))
local waiting = {}
for band = 0, bands - 1 do waiting[band] = {groups = {}, at = 1, offset = 0} end

local function head_of(band)
  local list = waiting[band]
  while true do
    local name = list.groups[list.at]
    if not name then
      if list.ended then return nil end
      local page = redis.call('ZRANGEBYSCORE', TAG .. 'due:' .. band, '-inf', now, 'WITHSCORES', 'LIMIT', list.offset, PAGE)
      local names, scores = {}, {}
      for i = 1, #page, 2 do
        names[#names + 1] = page[i]
        scores[#scores + 1] = tonumber(page[i + 1])
      end
      list.groups, list.scores, list.at = names, scores, 1
      list.offset = list.offset + #names
      list.ended = #names < PAGE
      if #names == 0 then return nil end
      load_groups(names)
    elseif rows[name].turns < TURNS and bit.band(rows[name].mask, bit.lshift(1, band)) ~= 0 then
      return name, list.scores[list.at]
    else
      list.at = list.at + 1
    end
  end
end

-- choose(turn): bands 0, 1, 2, 3 at 8:4:2:1 by the ruler sequence; every 16th choice whichever waits longest. A band
-- with nothing due gives its choice to the first that has.
local function choose(turn)
  turn = turn % 16
  if turn == 0 then
    local oldest, best = nil, nil
    for band = 0, bands - 1 do
      local name, score = head_of(band)
      if name and (not best or score < best) then oldest, best = band, score end
    end
    return oldest
  end
  local band = 0
  while turn % 2 == 0 do turn, band = turn / 2, band + 1 end
  band = math.min(band, bands - 1)
  if head_of(band) then return band end
  for other = 0, bands - 1 do
    if other ~= band and head_of(other) then return other end
  end
  return nil
end

local function grant_all()
  local fields, turns, tokens = {}, {}, {}
  local turn = tonumber(redis.call('HGET', K_meta, 'turn') or 0)
  local head = struct.pack('>dd', now, now + lease_ms) .. string.char(#worker) .. worker
  for _, token in ipairs(free) do
    local band = choose(turn + 1)
    if not band then break end
    local name = head_of(band)
    local queue = TAG .. 'q:' .. band .. ':' .. name
    local record = redis.call('LPOP', queue)
    local lonely = string.byte(record, 4) > 0 and expiries(record) >= alone
    if lonely and #tokens > 0 then
      redis.call('LPUSH', queue, record)
      break
    end
    turn = turn + 1
    local row = rows[name]
    take_turn(row)
    if redis.call('EXISTS', queue) == 0 then no_work(row, band) end
    local value = string.char(1) .. LEASED .. string.char(band) .. head .. string.char(#name) .. name .. record
    fields[#fields + 1], fields[#fields + 2] = token, value
    turns[#turns + 1], turns[#turns + 2] = now + lease_ms, token .. name
    tokens[#tokens + 1] = token
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = token, value, row.pace
    if lonely then break end
  end
  if #tokens == 0 then return end
  count('queued', -#tokens)
  count('leased', #tokens)
  count('moves', #tokens)
  call('HSET', K_leases, fields)
  call('ZADD', K_turns, turns)
  call('SADD', TAG .. 'w:' .. worker, tokens)
  redis.call('HSET', K_meta, 'turn', turn % 16)
  save_groups()
end

local function next_due()
  local soonest = redis.call('ZRANGE', K_delayed, 0, 0, 'WITHSCORES')[2]
  soonest = soonest and tonumber(soonest)
  for band = 0, bands - 1 do
    local score = redis.call('ZRANGE', TAG .. 'due:' .. band, 0, 0, 'WITHSCORES')[2]
    if score and (not soonest or tonumber(score) < soonest) then soonest = tonumber(score) end
  end
  return soonest or -1
end

promote()
grant_all()
redis.call('ZADD', K_sessions, now + tonumber(ARGV[5]), worker)
save_counts()
reply[2] = next_due()
return reply
