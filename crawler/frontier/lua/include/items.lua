-- The URLs that a call names, each by its token and its tail (u8 length, group, record), and what they are now.
-- Needs base and groups.
--
-- KEYS  leases turns
-- ALSO  w:<worker>
--
-- A lease's row: u8 version, state (L, H or S), u8 band, double granted ms, double deadline ms, u8 length and worker, tail.
-- A turn in `turns` is token .. group, scored with its deadline.

local LEASED, HELD, SEALED = 'L', 'H', 'S'
local NAMES = {L = 'leased', H = 'held', S = 'sealed'}

local items, gone, leavers, ended = {}, {}, {}, {}

local function group_of(tail)
  return string.sub(tail, 2, 1 + string.byte(tail))
end
local function record_of(tail)
  return string.sub(tail, 2 + string.byte(tail))
end

-- parse(row): worker and tail of a lease's row.
local function parse(row)
  local length = string.byte(row, 20)
  return string.sub(row, 21, 20 + length), string.sub(row, 21 + length)
end

-- read_items(first, stride): the items from ARGV[first] on, `stride` arguments each, the first two token and tail. An item has
-- `state` only when its token holds this very URL, and `open` only when the turn is its own. A token that comes twice is
-- answered once.
local function read_items(first, stride)
  local tokens, members, names = {}, {}, {}
  for at = first, #ARGV, stride do
    local token, tail = ARGV[at], ARGV[at + 1]
    local group = group_of(tail)
    items[#items + 1] = {at = at, token = token, tail = tail, group = group}
    tokens[#tokens + 1], members[#members + 1], names[#names + 1] = token, token .. group, group
  end
  local found, opens, met = fetch('HMGET', K_leases, tokens), fetch('ZMSCORE', K_turns, members), {}
  for i = 1, #items do
    local item, row = items[i], found[i]
    if row and not met[item.token] then
      local worker, tail = parse(row)
      if tail == item.tail then
        item.row, item.worker = row, worker
        item.state, item.band = string.sub(row, 2, 2), string.byte(row, 3)
      end
    end
    item.open = opens[i] and (not row or item.state ~= nil) and not met[item.token]
    met[item.token] = true
  end
  load_groups(names)
end

-- end_item_turn(item, age, delay, pace): the item's turn is over. With an age (ms since the request ended) the delay runs from
-- that end; without one no request was made, and the group may be asked again as before.
local function end_item_turn(item, age, delay, pace)
  if not item.open then return end
  local row = rows[item.group]
  if age == '' then
    end_turn(row, 0)
  else
    row.delay = math.max(tonumber(delay), row.least)
    end_turn(row, now - tonumber(age) + row.delay)
    if pace ~= '' then row.pace = pace end
  end
  ended[#ended + 1] = item.token .. item.group
end

-- drop_item(item): the token holds this URL no longer.
local function drop_item(item)
  gone[#gone + 1] = item.token
  put_in(leavers, item.worker, item.token)
end

local function save_items()
  call('ZREM', K_turns, ended)
  call('HDEL', K_leases, gone)
  for worker, tokens in pairs(leavers) do call('SREM', TAG .. 'w:' .. worker, tokens) end
end
