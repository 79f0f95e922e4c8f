-- KEYS: the last number. Returns the next one.
local last = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
if not (last >= 0 and last < 4294967295) then
    last = 0
end
-- Not below the time: a server that lost its data gives no number again.
local number = math.max(last + 1, tonumber(redis.call('TIME')[1]))
redis.call('SET', KEYS[1], string.format('%.0f', number))
return number
