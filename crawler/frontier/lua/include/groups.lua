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

-- `due` is the mask as the index knows it, `was` the time; an operator's rules are there in few rows only.
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
    local name, value = missing[i], values[i]
    local row
    if value then
      local _, flags, turns, mask, next_ms, delay, at = struct_unpack('>BBBHdI', value)
      row = {
        flags = flags, turns = turns, mask = mask, next = next_ms, delay = delay, pace = sub(value, at),
        due = turns < TURNS and mask or 0, was = next_ms,
      }
      if flags == RULED then
        row.until_ms, row.least = struct_unpack('>dI', redis_call('HGET', K_rules, name))
      end
    else
      row = {flags = 0, turns = 0, mask = 0, next = 0, delay = 0, pace = '', due = 0, was = 0}
    end
    rows[name] = row
    loaded[#loaded + 1] = name
  end
end

local function take_turn(row)
  row.turns = row.turns + 1
  row.changed = true
end

-- end_turn(row, at): the group's next request begins no earlier than `at`.
local function end_turn(row, at)
  row.turns = row.turns - 1
  if at > row.next then row.next = at end
  row.changed = true
end

local function has_work(row, band)
  local flag = shifted(1, band)
  if has_bit(row.mask, flag) == 0 then
    row.mask = row.mask + flag
    row.changed = true
  end
end

local function no_work(row, band)
  local flag = shifted(1, band)
  if has_bit(row.mask, flag) ~= 0 then
    row.mask = row.mask - flag
    row.changed = true
  end
end

local function put_in(lists, name, a, b)
  local list = lists[name]
  if not list then list = {}; lists[name] = list end
  list[#list + 1] = a
  if b then list[#list + 1] = b end
end

local function index_group(name, row, entering, leaving)
  local due = row.turns < TURNS and row.mask or 0
  local moved = row.next ~= row.was or row.ruled
  if due ~= row.due or moved then
    local score = max(row.next, now, row.until_ms or 0)
    local band, is, was = 0, due, row.due
    while is > 0 or was > 0 do
      if is % 2 == 1 then
        if was % 2 == 0 or moved then put_in(entering, band, score, name) end
      elseif was % 2 == 1 then
        put_in(leaving, band, name)
      end
      is, was, band = floor(is / 2), floor(was / 2), band + 1
    end
    row.due, row.was = due, row.next
  end
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
      fields[#fields + 1] = pack('>BBBHdI', 1, row.flags, row.turns, row.mask, row.next, row.delay) .. row.pace
    end
  end
  for band, list in pairs(leaving) do call('ZREM', TAG .. 'due:' .. band, list) end
  for band, list in pairs(entering) do call('ZADD', TAG .. 'due:' .. band, list) end
  call('HSET', K_groups, fields)
end
