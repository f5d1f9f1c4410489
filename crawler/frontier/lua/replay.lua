-- Dead letters go back to the tails of their queues; what they failed of before no longer counts.
--
-- @include base
-- @include groups
-- @include queues
-- @include failures
-- ARGV  1 now     ms; 0: the server's clock
--       2 turns   most fetches at once in a group
--       3.. ids   of the letters in this partition
-- Returns one letter per id: A applied, S there is none such.
-- Cost   O(log groups) an id

local answers, letters, names, ids = {}, {}, {}, {}
for i = 3, #ARGV do
  local entry = redis_call('XRANGE', K_dead, ARGV[i], ARGV[i])[1]
  answers[#answers + 1] = entry and 'A' or 'S'
  if entry then
    local letter = entry[2][2]
    local _, _, band, length = struct_unpack('>BdBB', letter)
    local tail = sub(letter, 12 + length)
    local size = byte(tail)
    ids[#ids + 1] = entry[1]
    names[#names + 1] = sub(tail, 2, 1 + size)
    letters[#letters + 1] = {band = band, record = with_code(sub(tail, 2 + size), REPLAYED)}
  end
end
load_groups(names)
call('XDEL', K_dead, ids)
for i, letter in ipairs(letters) do
  push_tail(letter.band, names[i], letter.record)
  move('dead', 'queued')
end
save_queues()
save_groups()
if #ids > 0 then save_counts() end
return table.concat(answers)
