-- Marks candidates as seen and queues the new ones, in one step.
--
-- @include base
-- @include groups
-- @include queues
-- KEYS  hops
-- ALSO  seen:<bucket>
-- ARGV  1 now     ms; 0: the server's clock
--       2 turns   most fetches at once in a group
--       3.. runs  of candidates with one group and band: group, band, how many; then for each its key as a decimal
--                 string and its record. How many is negative where each is a member of its own redirect chain: key,
--                 length of the chain, record
-- Returns one letter per candidate (A added, S seen, G taken again), the partition's epoch.
-- Cost   O(1) a candidate: one SADD; one RPUSH per run with new ones; one bucket split per FILL new members.
--
-- The seen set is a linear hash table (Litwin, 1980) of sets that stay small enough for the intset encoding: 8 bytes a
-- member. A bucket is chosen by the last 12 decimal digits of the key, which fit a Lua number. Before its split a bucket
-- of a level holds twice FILL at the end of the level: 340 on average, under the 512 of set-max-intset-entries
-- by nine standard deviations.

local FILL = 170
local seen = TAG .. 'seen:'

local meta = redis_call('HMGET', K_meta, 'seen', 'level', 'split')
local members, level, split = tonumber(meta[1] or 0), tonumber(meta[2] or 0), tonumber(meta[3] or 0)
local before = members
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

local answers, fresh, names = {}, {}, {}
local at = 3
while at <= #ARGV do
  local group, band, many = ARGV[at], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
  local own_chain = many < 0
  local stride = own_chain and 3 or 2
  local last = at + 2 + math.abs(many) * stride
  local run = nil
  for i = at + 3, last, stride do
    local key, answer = ARGV[i], 'S'
    if redis_call('SADD', bucket_of(key), key) == 1 then
      answer = 'A'
      members = members + 1
    elseif own_chain and redis_call('SADD', K_hops, key .. ':' .. ARGV[i + 1]) == 1 then
      answer = 'G'
      move('done', 'queued')
    end
    if answer ~= 'S' then
      if not run then run = {group = group, band = band, records = {}} end
      run.records[#run.records + 1] = ARGV[i + stride - 1]
    end
    answers[#answers + 1] = answer
  end
  if run then
    fresh[#fresh + 1], names[#names + 1] = run, group
  end
  at = last + 1
end

if #fresh > 0 then
  load_groups(names)
  for _, run in ipairs(fresh) do
    call('RPUSH', TAG .. 'q:' .. run.band .. ':' .. run.group, run.records)
    has_work(rows[run.group], run.band)
  end
  save_groups()
  while members > FILL * (size + split) do split_bucket() end
  if members > before then
    count('added', members - before)
    move(nil, 'queued', members - before)
    redis_call('HSET', K_meta, 'seen', members, 'level', level, 'split', split)
  end
  save_counts()
end
return {table.concat(answers), stored[2] or ''}
