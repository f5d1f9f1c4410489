-- Requests have ended: their groups' turns are over, the delays run, and the URLs are held by their workers.
--
-- @include base
-- @include groups
-- @include items
-- ARGV  1 now      ms; 0: the server's clock
--       2 turns    most fetches at once in a group
--       3.. items  token, tail, wire
-- Returns one letter per item: A applied, Y already, S stale. A turn that is open ends even when the URL is gone from its worker;
-- not when the token holds another URL by now, whose turn it is then.
-- Cost   O(log groups) an item

load_groups(read_items(3, 3))
local answers, moved = {}, 0
for i = 1, #items do
  local item = items[i]
  end_item_turn(item, ARGV[item.at + 2])
  if item.state == 'leased' then
    moved = moved + 1
    answers[i] = 'A'
  else
    answers[i] = item.state and 'Y' or 'S'
  end
end
save_items()
save_groups()
move('leased', 'held', moved)
save_counts()
return table.concat(answers)
