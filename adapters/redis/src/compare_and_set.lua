-- KEYS: a record. ARGV: the expected version ('' for none), the new record, its lifetime in milliseconds, and bytes that are read
-- at most. Returns the new version, or what is stored.
local digits = redis.call('GETRANGE', KEYS[1], 0, 19)
local stored = redis.call('EXISTS', KEYS[1]) == 1
-- A record that was not written by this script has version 0.
local version = stored and (string.match(digits, '^0000' .. string.rep('%d', 16)) or string.rep('0', 20))
if (version or '') ~= ARGV[1] then
    return stored and redis.call('GETRANGE', KEYS[1], 0, ARGV[4] - 1)
end
-- After a session was removed its versions go on, as far as the clock does.
local time = redis.call('TIME')
local new = math.max((tonumber(version or '') or 0) + 1, time[1] * 1000000 + time[2])
redis.call('SET', KEYS[1], string.format('%020.0f', new) .. ARGV[2], 'PX', ARGV[3])
return new
