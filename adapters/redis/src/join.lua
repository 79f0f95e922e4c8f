-- KEYS: the last number. Returns the next one.
local last = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
if not (last >= 0 and last < 4294967295) then
    last = 0
end
-- One after the other: those that live at the same time differ in their last digits. A server that lost its data begins at
-- the time, so that it gives no number again.
local number = last + 1
if last == 0 then
    number = tonumber(redis.call('TIME')[1])
end
redis.call('SET', KEYS[1], string.format('%.0f', number))
return number
