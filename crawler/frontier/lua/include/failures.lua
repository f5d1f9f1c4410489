-- What an ended lease costs a URL. A record: u8 version, u8 flags, u8 depth, u8 n, n bytes of trail, rest.

local EXPIRED, REPLAYED = 1, 0   -- policy.KINDS

-- expiries(record): ended leases in its trail since it was last replayed.
local function expiries(record)
  local n, met = byte(record, 4), 0
  for at = 4 + n, 5, -1 do
    local code = byte(record, at)
    if code == REPLAYED then break end
    if code == EXPIRED then met = met + 1 end
  end
  return met
end

-- with_code(record, code): one more code at the trail's end; the oldest makes room after 255.
local function with_code(record, code)
  local n = byte(record, 4)
  local trail = sub(sub(record, 5, 4 + n) .. char(code), -255)
  return sub(record, 1, 3) .. char(#trail) .. trail .. sub(record, 5 + n)
end
