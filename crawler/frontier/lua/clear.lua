-- Ends a part of a group's waiting URLs: dead with a reason (offline), or done (drop). Repeated until nothing is left.
--
-- @include base
-- @include groups
-- @include queues
-- ARGV  1 now     ms; 0: the server's clock
--       2 turns   most fetches at once in a group
--       3 group   its name
--       4 to      dead or done
--       5 reason  why
--       6 bands   how many there are
--       7 limit   URLs moved, and delayed ones looked at, at most
--       8 offset  delayed URLs to pass over: the group's have been taken from among them
-- Returns URLs moved, and the next offset (-1: that was all).
-- Cost   O(limit)

local name, to, reason, limit, offset = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[7]), tonumber(ARGV[8])
local moved = 0

local function finish(from, band, tail)
  if to == 'dead' then bury_url(band, tail, reason) else count('reason:' .. reason, 1) end
  move(from, to)
  moved = moved + 1
end

load_groups({name})
local row, prefix = rows[name], char(#name) .. name
for band = 0, tonumber(ARGV[6]) - 1 do
  local queue = TAG .. 'q:' .. band .. ':' .. name
  if moved < limit and has_bit(row.mask, shifted(1, band)) ~= 0 then
    for _, record in ipairs(redis_call('LPOP', queue, limit - moved) or {}) do finish('queued', band, prefix .. record) end
    if redis_call('EXISTS', queue) == 0 then no_work(row, band) end
  end
end
local after = offset
if moved < limit then
  local page = redis_call('ZRANGE', K_delayed, offset, offset + limit - 1)
  local gone = {}
  for _, member in ipairs(page) do
    if sub(member, 2, 1 + #prefix) == prefix then
      finish('delayed', byte(member), sub(member, 2))
      gone[#gone + 1] = member
    end
  end
  call('ZREM', K_delayed, gone)
  after = #page < limit and -1 or offset + #page - #gone
end
save_groups()
if moved > 0 then save_counts() end
return {moved, after}
