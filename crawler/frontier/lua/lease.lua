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
local free = {}

local function known_tokens()
  local tokens = {unpack(ARGV, 9)}
  local found, again, members, names = fetch('HMGET', K_leases, tokens), {}, {}, {}
  for i = 1, #tokens do
    local row = found[i]
    if not row then
      free[#free + 1] = tokens[i]
    elseif byte(row, 2) == OWNED then
      again[#again + 1] = {tokens[i], row}
      names[#names + 1] = group_of(tail_of(row))
      members[#members + 1] = tokens[i] .. names[#names]
    end
  end
  load_groups(names)
  local open = fetch('ZMSCORE', K_turns, members)
  for i = 1, #again do
    if open[i] then
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = again[i][1], again[i][2], rows[names[i]].pace
    end
  end
end

-- Delayed URLs whose time has come go to the head of their queues: they have waited already.
local function promote()
  local due = redis_call('ZRANGEBYSCORE', K_delayed, '-inf', now, 'LIMIT', 0, ARGV[7])
  if #due == 0 then return end
  local names = {}
  for i = 1, #due do names[i] = group_of(sub(due[i], 2)) end
  load_groups(names)
  call('ZREM', K_delayed, due)
  for i = 1, #due do push_head(byte(due[i]), names[i], record_of(sub(due[i], 2))) end
  move('delayed', 'queued', #due)
  save_queues()
  save_groups()
end

-- Each band's due groups in the order of their times, read in pages as they are needed.
local page_size = 0
local waiting = {}

local function turn_page(band, list)
  local page =
    redis_call('ZRANGEBYSCORE', TAG .. 'due:' .. band, '-inf', now, 'WITHSCORES', 'LIMIT', list.offset, page_size)
  local names, scores = {}, {}
  for i = 1, #page, 2 do
    names[#names + 1] = page[i]
    scores[#scores + 1] = tonumber(page[i + 1])
  end
  list.names, list.scores, list.at = names, scores, 1
  list.offset = list.offset + #names
  list.ended = #names < page_size
  load_groups(names)
end

-- head_of(band): the group that waits longest in a band, and since when.
local function head_of(band)
  local list = waiting[band]
  while true do
    local name = list.names[list.at]
    if not name then
      if list.ended then return nil end
      turn_page(band, list)
    else
      local row = rows[name]
      if row.turns < TURNS and has_bit(row.mask, list.flag) ~= 0 then return name, list.scores[list.at] end
      list.at = list.at + 1
    end
  end
end

-- choose(turn): a band and its head; bands 0, 1, 2, 3 at 8:4:2:1 by the ruler sequence, every 16th choice whichever waits
-- longest. A band with nothing due gives its choice to the first that has.
local function choose(turn)
  turn = turn % 16
  if turn == 0 then
    local oldest, best, since = nil, nil, nil
    for band = 0, bands - 1 do
      local name, score = head_of(band)
      if name and (not since or score < since) then oldest, best, since = band, name, score end
    end
    return oldest, best
  end
  local band = 0
  while turn % 2 == 0 do turn, band = turn / 2, band + 1 end
  band = min(band, bands - 1)
  local name = head_of(band)
  if name then return band, name end
  for other = 0, bands - 1 do
    name = head_of(other)
    if name then return other, name end
  end
  return nil
end

-- take(turn, first): the next URL to be granted. A URL that is to be granted alone comes only first, or not now.
local function take(turn, first)
  while true do
    local band, name = choose(turn)
    if not band then return nil end
    local queue = band .. ':' .. name
    local record = redis_call('LPOP', TAG .. 'q:' .. queue)
    if record then
      local lonely = byte(record, 4) > 0 and expiries(record) >= alone
      if not lonely or first then return band, name, record, queue, lonely end
      redis_call('LPUSH', TAG .. 'q:' .. queue, record)
      return nil
    end
    no_work(rows[name], band)
  end
end

-- Queues that were emptied: mostly all or none of them, which one call tells.
local function note_emptied(taken)
  local names = {}
  for i = 1, #taken do names[i] = TAG .. 'q:' .. taken[i][3] end
  local left = #names > 0 and redis_call('EXISTS', unpack(names)) or 0
  if left < #names then
    for i = 1, #names do
      if left == 0 or redis_call('EXISTS', names[i]) == 0 then no_work(rows[taken[i][2]], taken[i][1]) end
    end
  end
end

local function grant_all()
  local fields, turns, tokens, taken = {}, {}, {}, {}
  local turn = tonumber(redis_call('HGET', K_meta, 'turn') or 0)
  local deadline = now + lease_ms
  local head = pack('>dd', now, deadline) .. char(#worker) .. worker
  page_size = min(32, #free)
  for band = 0, bands - 1 do waiting[band] = {names = {}, at = 1, offset = 0, flag = shifted(1, band)} end
  for i = 1, #free do
    local token = free[i]
    local band, name, record, queue, lonely = take(turn + 1, #tokens == 0)
    if not band then break end
    turn = turn + 1
    local row = rows[name]
    -- Only where a group has several turns may a token's late second grant meet its first turn, still open: it takes that over.
    if TURNS == 1 or not redis_call('ZSCORE', K_turns, token .. name) then take_turn(row) end
    row.changed = true
    taken[#taken + 1] = {band, name, queue}
    local value = char(1, OWNED, band) .. head .. char(#name) .. name .. record
    fields[#fields + 1], fields[#fields + 2] = token, value
    turns[#turns + 1], turns[#turns + 2] = deadline, token .. name
    tokens[#tokens + 1] = token
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = token, value, row.pace
    if lonely then break end
  end
  if #tokens > 0 then
    note_emptied(taken)
    move('queued', 'leased', #tokens)
    call('HSET', K_leases, fields)
    call('ZADD', K_turns, turns)
    call('SADD', TAG .. 'w:' .. worker, tokens)
    redis_call('HSET', K_meta, 'turn', turn % 16)
  end
  save_groups()
end

local function next_due()
  local soonest = tonumber(redis_call('ZRANGE', K_delayed, 0, 0, 'WITHSCORES')[2])
  for band = 0, bands - 1 do
    local score = tonumber(redis_call('ZRANGE', TAG .. 'due:' .. band, 0, 0, 'WITHSCORES')[2])
    if score and (not soonest or score < soonest) then soonest = score end
  end
  return soonest or -1
end

known_tokens()
promote()
grant_all()
redis_call('ZADD', K_sessions, now + tonumber(ARGV[5]), worker)
save_counts()
reply[2] = next_due()
return reply
