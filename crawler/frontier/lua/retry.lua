-- URLs failed. What that costs is policy's to say, and comes as an argument; here it is carried out.
--
-- @include base
-- @include groups
-- @include queues
-- @include items
-- ARGV  1 now      ms; 0: the server's clock
--       2 turns    most fetches at once in a group
--       3.. items  token, tail, age ('': no request was made), delay, pace, fate (D delayed, Q queued at the tail, X dead),
--                  reason of the death, ms to be delayed, time not to be queued before (ms), the record with the failure in it
-- Returns one letter per item: its fate, or S stale (sealed URLs too); and now.
-- Cost   O(log groups + log delayed) an item

read_items(3, 10)
local answers = {}
for i, item in ipairs(items) do
  local at = item.at
  end_item_turn(item, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
  if item.state and item.state ~= SEALED then
    local fate, record = ARGV[at + 5], ARGV[at + 9]
    local tail = string.char(#item.group) .. item.group .. record
    drop_item(item)
    if fate == 'D' then
      delay_url(item.band, tail, math.max(now + tonumber(ARGV[at + 7]), tonumber(ARGV[at + 8])))
      move(NAMES[item.state], 'delayed')
    elseif fate == 'Q' then
      push_tail(item.band, item.group, record)
      move(NAMES[item.state], 'queued')
    else
      bury_url(item.band, tail, ARGV[at + 6])
      move(NAMES[item.state], 'dead')
    end
    answers[i] = fate
  else
    answers[i] = 'S'
  end
end
save_items()
save_queues()
save_groups()
save_counts()
return {table.concat(answers), now}
