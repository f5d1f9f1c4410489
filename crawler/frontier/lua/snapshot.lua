-- The partition's counters.
--
-- @include base
-- KEYS  groups delayed outbox pending
-- ALSO  due:<band>
-- ARGV  1 now     ms; 0: the server's clock
--       2 bands   how many there are
-- Returns now, groups, groups due (once for each band in which one has work), outbox entries, pending segments, when the next group or
-- delayed URL is due (ms; -1: none), the counters as names and values.
-- Cost   O(bands log groups)

local due, soonest = 0, tonumber(redis_call('ZRANGE', K_delayed, 0, 0, 'WITHSCORES')[2])
for band = 0, tonumber(ARGV[2]) - 1 do
  local key = TAG .. 'due:' .. band
  due = due + redis_call('ZCOUNT', key, '-inf', now)
  local score = tonumber(redis_call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
  if score and (not soonest or score < soonest) then soonest = score end
end
return {
  now, redis_call('HLEN', K_groups), due, redis_call('HLEN', K_outbox), redis_call('SCARD', K_pending), soonest or -1,
  redis_call('HGETALL', K_n)
}
