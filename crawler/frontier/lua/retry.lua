-- URLs failed. What that costs is policy's to say, and comes as an argument; here it is carried out.
--
-- @include base
-- @include groups
-- @include queues
-- @include items
-- ARGV  1 now      ms; 0: the server's clock
--       2 turns    most fetches at once in a group
--       3.. items  token, tail, wire ('': no request was made), fate (D delayed, Q queued at the tail, X dead),
--                  reason of the death, ms to be delayed, time not to be queued before (ms), the record with the failure in it
-- Returns one letter per item: its fate, or S stale (sealed URLs too); and now.
-- Cost   O(log groups + log delayed) an item

load_groups(read_items(3, 8))
local answers = {}
for i = 1, #items do
  local item = items[i]
  local at = item.at
  end_item_turn(item, ARGV[at + 2])
  if leave(item) then
    local fate, record = ARGV[at + 3], ARGV[at + 7]
    local tail = char(#item.group) .. item.group .. record
    if fate == 'D' then
      delay_url(item.band, tail, max(now + tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6])))
      move(item.state, 'delayed')
    elseif fate == 'Q' then
      push_tail(item.band, item.group, record)
      move(item.state, 'queued')
    else
      bury_url(item.band, tail, ARGV[at + 4])
      move(item.state, 'dead')
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
