-- The seen set is a linear hash table (Litwin, 1980) of sets that stay small enough for the intset encoding: 8 bytes a
-- member. A bucket is chosen by the last 12 decimal digits of the key, which fit a Lua number. Before its split a bucket
-- of a level holds twice FILL at the end of the level: 340 on average, under the 512 of set-max-intset-entries
-- by nine standard deviations.
--
-- ALSO  seen:<bucket>

local FILL = 170
local seen = TAG .. 'seen:'

local meta = redis_call('HMGET', K_meta, 'seen', 'level', 'split')
local members, level, split = tonumber(meta[1] or 0), tonumber(meta[2] or 0), tonumber(meta[3] or 0)
local size = 2 ^ level

local function bucket_of(key)
  local low = tonumber(sub(key, -12))
  local bucket = low % size
  if bucket < split then bucket = low % (2 * size) end
  return seen .. bucket
end

local function split_bucket()
  local from = seen .. split
  local to = seen .. size + split
  local movers = {}
  for _, key in ipairs(redis_call('SMEMBERS', from)) do
    if tonumber(sub(key, -12)) % (2 * size) ~= split then movers[#movers + 1] = key end
  end
  call('SREM', from, movers)
  call('SADD', to, movers)
  split = split + 1
  if split == size then level, size, split = level + 1, 2 * size, 0 end
end

-- save_seen(): buckets split while they are too full, and the set's size is written.
local function save_seen()
  while members > FILL * (size + split) do split_bucket() end
  redis_call('HSET', K_meta, 'seen', members, 'level', level, 'split', split)
end
