-- KEYS: tasks. ARGV: an id, a version of 20 digits, and the record; without a record the task is deleted.
local stored = redis.call('HGET', KEYS[1], ARGV[1])
local version = stored and string.match(stored, '^' .. string.rep('%d', 20))
if version and version > ARGV[2] then
    return 0
end
if ARGV[3] then
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ARGV[3])
else
    redis.call('HDEL', KEYS[1], ARGV[1])
end
return 1
