-- What every script begins with: the clock, the counters, and calls whose arguments may be many.
--
-- KEYS  n meta
-- ARGV  1 now    ms; 0: the server's clock
--
-- Time is max(now, the partition's latest): it never runs backwards, whatever the clocks do.

local redis_call, byte, char, sub, pack, struct_unpack =
  redis.call, string.byte, string.char, string.sub, struct.pack, struct.unpack
local floor, max, min, has_bit, shifted = math.floor, math.max, math.min, bit.band, bit.lshift

local CHUNK = 1000   -- arguments unpacked in one call; Lua's stack holds some 8,000

local stored = redis_call('HMGET', K_meta, 'latest', 'epoch')
local latest = tonumber(stored[1] or 0)
local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis_call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
end
if now < latest then now = latest end

-- call(command, key, list): one call per CHUNK of the list's elements; CHUNK is even, so pairs stay together.
local function call(command, key, list)
  for first = 1, #list, CHUNK do
    redis_call(command, key, unpack(list, first, min(first + CHUNK - 1, #list)))
  end
end

-- fetch(command, key, list): the same for reads with one answer per element.
local function fetch(command, key, list)
  if #list <= CHUNK then
    if #list == 0 then return {} end
    return redis_call(command, key, unpack(list))
  end
  local all = {}
  for first = 1, #list, CHUNK do
    local some = redis_call(command, key, unpack(list, first, min(first + CHUNK - 1, #list)))
    for i = 1, #some do all[#all + 1] = some[i] end
  end
  return all
end

-- Counters move in memory and are written once, by save_counts.
local counts = {}
local function count(name, by)
  counts[name] = (counts[name] or 0) + by
end
local function move(from, to, many)
  many = many or 1
  if from then count(from, -many) end
  count(to, many)
  count('moves', many)
end
local function save_counts()
  for name, by in pairs(counts) do
    if by ~= 0 then redis_call('HINCRBY', K_n, name, by) end
  end
  if now > latest then redis_call('HSET', K_meta, 'latest', now) end
end
