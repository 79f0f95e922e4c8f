-- KEYS: a value, or a hash. ARGV: bytes that are read at most, and a field of the hash.
-- Returns what is there: a longer value is cut, and a longer field is left out.
if ARGV[2] then
    return redis.call('HSTRLEN', KEYS[1], ARGV[2]) <= tonumber(ARGV[1]) and redis.call('HGET', KEYS[1], ARGV[2])
end
return redis.call('EXISTS', KEYS[1]) == 1 and redis.call('GETRANGE', KEYS[1], 0, ARGV[1] - 1)
