-- Rows of politeness groups, and the index of those that are due.
--
-- KEYS  groups rules
-- ALSO  due:<band>
-- ARGV  2 turns    most fetches at once in a group
--
-- A row: u8 version, u8 flags, u8 open turns, u16 mask of the bands with work, double next_allowed ms, u32 delay ms, pace.
-- A group stands in due:<band> for each band of its mask while a turn is free; its score there is when it may be
-- fetched, or since when it has been waiting. Rows are changed in memory and written once, by save_groups.
-- Only a group with an operator's rules has flag 1 and a field in `rules`: double blocked until ms, u32 least delay ms.

local TURNS = tonumber(ARGV[2])
local RULED = 1
local rows, loaded = {}, {}

local function new_row(name)
  local row = {flags = 0, turns = 0, mask = 0, next = 0, delay = 0, pace = '', due = 0, was = 0, until_ms = 0, least = 0}
  rows[name] = row
  loaded[#loaded + 1] = name
  return row
end

local function load_groups(names)
  local missing, asked = {}, {}
  for i = 1, #names do
    local name = names[i]
    if not rows[name] and not asked[name] then
      asked[name] = true
      missing[#missing + 1] = name
    end
  end
  local values = fetch('HMGET', K_groups, missing)
  for i = 1, #missing do
    local row, value = new_row(missing[i]), values[i]
    if value then
      local version, at
      version, row.flags, row.turns, row.mask, row.next, row.delay, at = struct.unpack('>BBBHdI', value)
      row.pace = string.sub(value, at)
      row.was = row.next
      if row.turns < TURNS then row.due = row.mask end
      if row.flags == RULED then
        row.until_ms, row.least = struct.unpack('>dI', redis.call('HGET', K_rules, missing[i]))
      end
    end
  end
end

local function take_turn(row)
  row.turns = row.turns + 1
  row.changed = true
end

-- end_turn(row, at): the group's next request begins no earlier than `at`.
local function end_turn(row, at)
  if row.turns > 0 then row.turns = row.turns - 1 end
  if at > row.next then row.next = at end
  row.changed = true
end

local function has_work(row, band)
  local bit_of_band = bit.lshift(1, band)
  if bit.band(row.mask, bit_of_band) == 0 then
    row.mask = row.mask + bit_of_band
    row.changed = true
  end
end

local function no_work(row, band)
  local bit_of_band = bit.lshift(1, band)
  if bit.band(row.mask, bit_of_band) ~= 0 then
    row.mask = row.mask - bit_of_band
    row.changed = true
  end
end

local function put_in(lists, band, a, b)
  local list = lists[band]
  if not list then list = {}; lists[band] = list end
  list[#list + 1] = a
  if b then list[#list + 1] = b end
end

local function index_group(name, row, entering, leaving)
  local due = 0
  if row.turns < TURNS then due = row.mask end
  local moved = row.next ~= row.was or row.ruled
  if due == row.due and not moved then return end
  local score = math.max(row.next, now, row.until_ms)
  local band, is, was = 0, due, row.due
  while is > 0 or was > 0 do
    if is % 2 == 1 then
      if was % 2 == 0 or moved then put_in(entering, band, score, name) end
    elseif was % 2 == 1 then
      put_in(leaving, band, name)
    end
    is, was, band = math.floor(is / 2), math.floor(was / 2), band + 1
  end
  row.due, row.was = due, row.next
end

local function save_groups()
  local fields, entering, leaving = {}, {}, {}
  for i = 1, #loaded do
    local name = loaded[i]
    local row = rows[name]
    if row.changed then
      row.changed = false
      index_group(name, row, entering, leaving)
      fields[#fields + 1] = name
      fields[#fields + 1] = struct.pack('>BBBHdI', 1, row.flags, row.turns, row.mask, row.next, row.delay) .. row.pace
    end
  end
  for band, list in pairs(leaving) do call('ZREM', TAG .. 'due:' .. band, list) end
  for band, list in pairs(entering) do call('ZADD', TAG .. 'due:' .. band, list) end
  call('HSET', K_groups, fields)
end
