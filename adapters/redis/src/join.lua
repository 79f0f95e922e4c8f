-- KEYS: the last number. ARGV: the name of the watch of the process; what the keys of watches and the channels of watches begin
-- with. Returns the next number.
local last = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
if not (last >= 0 and last < 4294967295) then
    last = 0
end
-- A server that lost its data begins at the time, so that it gives no number again.
local number = last + 1
if last == 0 then
    number = tonumber(redis.call('TIME')[1])
end
-- Those that live at the same time differ in their last digits, also if one of them was started again 1,024 times.
for _ = 1, 1023 do
    local watch = redis.call('GET', ARGV[2] .. number % 1024)
    if not watch or watch == ARGV[1] or redis.call('PUBLISH', ARGV[3] .. watch, '') == 0 or number >= 4294967295 then
        break
    end
    number = number + 1
end
redis.call('SET', KEYS[1], string.format('%.0f', number))
redis.call('SET', ARGV[2] .. number % 1024, ARGV[1])
return number
