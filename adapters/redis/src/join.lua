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
local tries = 0
while true do
    local watch = redis.pcall('GET', ARGV[2] .. number % 1024)
    if type(watch) ~= 'string' or redis.call('PUBLISH', ARGV[3] .. watch, '') == 0 then
        break
    end
    tries = tries + 1
    if tries == 1024 or number >= 4294967295 then
        return redis.error_reply('ERR 1024 processes use this store already')
    end
    number = number + 1
end
redis.call('SET', KEYS[1], string.format('%.0f', number))
redis.call('SET', ARGV[2] .. number % 1024, ARGV[1])
return number
