-- Dead letters are thrown away: their URLs are done, and stay seen.
--
-- @include base
-- KEYS  dead
-- ARGV  1 now    ms; 0: the server's clock
--       2.. ids  of the letters in this partition
-- Returns one letter per id: A applied, S there is none such.
-- Cost   O(1) an id

local answers = {}
for i = 2, #ARGV do
  local there = redis_call('XDEL', K_dead, ARGV[i]) == 1
  answers[#answers + 1] = there and 'A' or 'S'
  if there then move('dead', 'done') end
end
if counts.done then save_counts() end
return table.concat(answers)
