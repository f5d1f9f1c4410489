-- URLs are given up now.
--
-- @include base
-- @include groups
-- @include queues
-- @include items
-- ARGV  1 now      ms; 0: the server's clock
--       2 turns    most fetches at once in a group
--       3.. items  token, tail, age ('': no request was made), delay, pace, reason
-- Returns one letter per item: A applied, S stale (sealed URLs too).
-- Cost   O(log groups) an item

read_items(3, 6)
local answers = {}
for i, item in ipairs(items) do
  end_item_turn(item, ARGV[item.at + 2], ARGV[item.at + 3], ARGV[item.at + 4])
  if item.state and item.state ~= SEALED then
    drop_item(item)
    bury_url(item.band, item.tail, ARGV[item.at + 5])
    move(NAMES[item.state], 'dead')
    answers[i] = 'A'
  else
    answers[i] = 'S'
  end
end
save_items()
save_groups()
save_counts()
return table.concat(answers)
