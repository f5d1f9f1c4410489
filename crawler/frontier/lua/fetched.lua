-- Requests have ended: their groups' turns are over, the delays run, and the URLs are held by their workers.
--
-- @include base
-- @include groups
-- @include items
-- ARGV  1 now      ms; 0: the server's clock
--       2 turns    most fetches at once in a group
--       3.. items  token, tail, age (ms since the request ended), delay (ms from that end on), pace ('': as it was)
-- Returns one letter per item: A applied, Y already, S stale. A turn that is open ends even when the URL is gone from its worker;
-- not when the token holds another URL by now, whose turn it is then.
-- Cost   O(log groups) an item

read_items(3, 5)
local answers, fields = {}, {}
for i, item in ipairs(items) do
  end_item_turn(item, ARGV[item.at + 2], ARGV[item.at + 3], ARGV[item.at + 4])
  if item.state == LEASED then
    fields[#fields + 1] = item.token
    fields[#fields + 1] = string.char(1) .. HELD .. string.sub(item.row, 3)
    move('leased', 'held')
    answers[i] = 'A'
  else
    answers[i] = item.state and 'Y' or 'S'
  end
end
save_items()
call('HSET', K_leases, fields)
save_groups()
save_counts()
return table.concat(answers)
