-- Marks candidates as seen and queues the new ones, in one step.
--
-- @include base
-- @include groups
-- @include queues
-- @include seen
-- KEYS  hops
-- ALSO  q:<band>:<group>
-- ARGV  1 now     ms; 0: the server's clock
--       2 turns   most fetches at once in a group
--       3.. runs  of candidates with one group and band: group, band, how many; then for each its key as a decimal
--                 string and its record. How many is negative where each is a member of its own redirect chain: key,
--                 length of the chain, record
-- Returns one letter per candidate (A added, S seen, G taken again), the partition's epoch.
-- Cost   O(1) a candidate: one SADD; one RPUSH per run with new ones; one bucket split per FILL new members.

local before = members
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
  if members > before then
    count('added', members - before)
    move(nil, 'queued', members - before)
    save_seen()
  end
  save_counts()
end
return {table.concat(answers), stored[2] or ''}
