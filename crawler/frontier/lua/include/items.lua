-- The URLs that a call names, each by its token and its tail (u8 length, group, record), and what they are now.
-- Needs base and groups.
--
-- KEYS  leases turns
-- ALSO  w:<worker>
--
-- A row of `leases`: u8 version, O (owned) or S (sealed), u8 band, double granted ms, double deadline ms, u8 length and worker,
-- tail. A turn in `turns` is token .. group, scored with its deadline. An owned URL is leased while its turn is open, and
-- held after that: the turn's end is the state's end.

local OWNED, SEALED = byte('O'), byte('S')

local items, gone, leavers, ended = {}, {}, {}, {}

local function group_of(tail)
  return sub(tail, 2, 1 + byte(tail))
end
local function record_of(tail)
  return sub(tail, 2 + byte(tail))
end
local function worker_of(row)
  return sub(row, 21, 20 + byte(row, 20))
end
local function tail_of(row)
  return sub(row, 21 + byte(row, 20))
end

-- is_tail(row, tail): whether the row is that of this very URL.
local function is_tail(row, tail)
  local start = 21 + byte(row, 20)
  return #row == start - 1 + #tail and string.find(row, tail, start, true) == start
end

-- read_items(first, stride): the items from ARGV[first] on, `stride` arguments each, the first two token and tail. An item has
-- a `state` (leased, held or sealed) only when its token holds this very URL, and is `open` only when the turn is its own.
-- A token that comes twice is answered once.
local function read_items(first, stride)
  local tokens, members, names, met = {}, {}, {}, {}
  local many = 0
  for at = first, #ARGV, stride do
    local token, tail = ARGV[at], ARGV[at + 1]
    local group = group_of(tail)
    many = many + 1
    tokens[many], members[many], names[many] = token, token .. group, group
  end
  local found, opens = fetch('HMGET', K_leases, tokens), fetch('ZMSCORE', K_turns, members)
  for i = 1, many do
    local at = first + (i - 1) * stride
    local token, row, open = tokens[i], found[i], opens[i] and true
    local item = {at = at, token = token, group = names[i], turn = members[i], open = open}
    if met[token] then
      item.open = false
    elseif row and is_tail(row, ARGV[at + 1]) then
      item.row, item.band = row, byte(row, 3)
      item.state = byte(row, 2) == SEALED and 'sealed' or open and 'leased' or 'held'
    elseif row then
      item.open = false
    end
    met[token] = true
    items[i] = item
  end
  return names
end

-- end_item_turn(item, wire): the item's turn is over. A wire is u32 ms since the request ended, u32 ms of delay from that end on,
-- and the group's new pace, or nothing where it stays. Without a wire no request was made, and the group may be asked again as
-- before.
local function end_item_turn(item, wire)
  if not item.open then return end
  local row = rows[item.group]
  if wire == '' then
    end_turn(row, 0)
  else
    local age, delay = struct_unpack('>II', wire)
    row.delay = max(delay, row.least or 0)
    end_turn(row, now - age + row.delay)
    if #wire > 8 then row.pace = sub(wire, 9) end
  end
  ended[#ended + 1] = item.turn
end

-- leave(item): whether its outcome is this worker's to say; its token holds it no longer then. From sealed only publish and
-- abort lead out.
local function leave(item)
  if not item.state or item.state == 'sealed' then return false end
  gone[#gone + 1] = item.token
  put_in(leavers, worker_of(item.row), item.token)
  return true
end

local function save_items()
  call('ZREM', K_turns, ended)
  call('HDEL', K_leases, gone)
  for worker, tokens in pairs(leavers) do call('SREM', TAG .. 'w:' .. worker, tokens) end
end
