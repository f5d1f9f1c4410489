-- Where a URL goes that is not done: its queue, the delayed set, the dead letters. Needs base and groups.
--
-- KEYS  delayed dead
-- ALSO  q:<band>:<group>
--
-- Pushes are gathered by queue and written once, by save_queues, which also tells the groups that they have work: their
-- rows must have been loaded, and save_groups comes after it.

local heads, tails, queues = {}, {}, {}

local function gather(side, band, group, record)
  local key = band .. ':' .. group
  if not queues[key] then queues[key] = {band = band, group = group} end
  local list = side[key]
  if not list then list = {}; side[key] = list end
  list[#list + 1] = record
end
local function push_head(band, group, record) gather(heads, band, group, record) end
local function push_tail(band, group, record) gather(tails, band, group, record) end

local function save_queues()
  for key, list in pairs(tails) do call('RPUSH', TAG .. 'q:' .. key, list) end
  for key, list in pairs(heads) do
    local turned = {}   -- LPUSH puts its last argument first; the first released comes first
    for i = #list, 1, -1 do turned[#turned + 1] = list[i] end
    call('LPUSH', TAG .. 'q:' .. key, turned)
  end
  for key, queue in pairs(queues) do has_work(rows[queue.group], queue.band) end
  heads, tails, queues = {}, {}, {}
end

-- A delayed URL: u8 band, tail.
local function delay_url(band, tail, due)
  redis_call('ZADD', K_delayed, due, char(band) .. tail)
end

-- A dead letter: u8 version, double buried ms, u8 band, u8 length and reason, tail.
local function bury_url(band, tail, reason)
  redis_call('XADD', K_dead, '*', 'l', pack('>BdBB', 1, now, band, #reason) .. reason .. tail)
  count('reason:' .. reason, 1)
end
