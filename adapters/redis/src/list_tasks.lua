-- KEYS: tasks. ARGV: their greatest number, bytes of an id that are read, and bytes of values that are read with the list.
-- Returns their number, and ids, each followed by its value, or by the length of a value that does not fit.
local number = redis.call('HLEN', KEYS[1])
if number > tonumber(ARGV[1]) then
    return redis.error_reply('ERR ' .. KEYS[1] .. ' has more than ' .. ARGV[1] .. ' tasks')
end
local list, room = {}, tonumber(ARGV[3])
for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do
    local length = redis.call('HSTRLEN', KEYS[1], id)
    table.insert(list, string.sub(id, 1, tonumber(ARGV[2])))
    if length <= room then
        room = room - length
        length = redis.call('HGET', KEYS[1], id)
    end
    table.insert(list, length)
end
return {number, list}
