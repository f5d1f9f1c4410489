-- URLs are done without a document. A redirect's target goes into the outbox in the same step.
--
-- @include base
-- @include groups
-- @include items
-- KEYS  outbox
-- ARGV  1 now      ms; 0: the server's clock
--       2 turns    most fetches at once in a group
--       3.. items  token, tail, age ('': no request was made), delay, pace, reason, target ('', or u8 band and its tail)
-- Returns one letter per item: A applied, S stale (sealed URLs too).
-- Cost   O(log groups) an item

read_items(3, 7)
local answers, entries = {}, {}
for i, item in ipairs(items) do
  end_item_turn(item, ARGV[item.at + 2], ARGV[item.at + 3], ARGV[item.at + 4])
  if item.state and item.state ~= SEALED then
    drop_item(item)
    move(NAMES[item.state], 'done')
    count('reason:' .. ARGV[item.at + 5], 1)
    local target = ARGV[item.at + 6]
    if target ~= '' then
      entries[#entries + 1] = item.token
      entries[#entries + 1] = struct.pack('>Bd', 1, now) .. target
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
