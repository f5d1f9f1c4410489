-- URLs are done without a document. A redirect's target goes into the outbox in the same step.
--
-- @include base
-- @include groups
-- @include items
-- KEYS  outbox
-- ARGV  1 now      ms; 0: the server's clock
--       2 turns    most fetches at once in a group
--       3.. items  token, tail, wire ('': no request was made), reason, target ('', or u8 band and its tail)
-- Returns one letter per item: A applied, S stale (sealed URLs too).
-- Cost   O(log groups) an item

load_groups(read_items(3, 5))
local answers, entries = {}, {}
for i = 1, #items do
  local item = items[i]
  end_item_turn(item, ARGV[item.at + 2])
  if leave(item) then
    move(item.state, 'done')
    count('reason:' .. ARGV[item.at + 3], 1)
    local target = ARGV[item.at + 4]
    if target ~= '' then
      entries[#entries + 1] = item.token
      entries[#entries + 1] = pack('>Bd', 1, now) .. target
    end
    answers[i] = 'A'
  else
    answers[i] = 'S'
  end
end
save_items()
call('HSET', K_outbox, entries)
save_groups()
save_counts()
return table.concat(answers)
