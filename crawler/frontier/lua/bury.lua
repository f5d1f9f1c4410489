-- URLs are given up now.
--
-- @include base
-- @include groups
-- @include queues
-- @include items
-- ARGV  1 now      ms; 0: the server's clock
--       2 turns    most fetches at once in a group
--       3.. items  token, tail, wire ('': no request was made), reason
-- Returns one letter per item: A applied, S stale (sealed URLs too).
-- Cost   O(log groups) an item

load_groups(read_items(3, 4))
local answers = {}
for i = 1, #items do
  local item = items[i]
  end_item_turn(item, ARGV[item.at + 2])
  if leave(item) then
    bury_url(item.band, ARGV[item.at + 1], ARGV[item.at + 3])
    move(item.state, 'dead')
    answers[i] = 'A'
  else
    answers[i] = 'S'
  end
end
save_items()
save_groups()
save_counts()
return table.concat(answers)
