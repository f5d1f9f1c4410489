-- URLs go back to the heads of their queues, uncharged.
--
-- @include base
-- @include groups
-- @include queues
-- @include items
-- ARGV  1 now      ms; 0: the server's clock
--       2 turns    most fetches at once in a group
--       3.. items  token, tail, wire ('': no request was made), time not to be granted before (ms; 0: none)
-- Returns one letter per item: A applied, S stale (sealed URLs too). Where the group itself waits until then, a URL is queued; where
-- it does not, the URL alone is delayed.
-- Cost   O(log groups + log delayed) an item

load_groups(read_items(3, 4))
local answers = {}
for i = 1, #items do
  local item = items[i]
  end_item_turn(item, ARGV[item.at + 2])
  if leave(item) then
    local not_before = tonumber(ARGV[item.at + 3])
    if not_before > now and not_before > rows[item.group].next then
      delay_url(item.band, ARGV[item.at + 1], not_before)
      move(item.state, 'delayed')
    else
      push_head(item.band, item.group, record_of(ARGV[item.at + 1]))
      move(item.state, 'queued')
    end
    answers[i] = 'A'
  else
    answers[i] = 'S'
  end
end
save_items()
save_queues()
save_groups()
save_counts()
return table.concat(answers)
