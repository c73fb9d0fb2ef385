"""The server-side steps of the Redis Streams bus.

Rule: whatever must not be torn by a crash between two commands is one script here; Python only calls and decodes.

Words
    stream  one per topic; entry fields ``k`` ordering key, ``b`` body, ``a:<name>`` attributes
    shelf   per topic and group, a sorted set "line name → due milliseconds": lines whose messages wait for redelivery
    line    a sorted set of entry ids (score 0, zero-padded so that text order is id order), named after the ordering
            key: ``=<key>``; a message without a key has a line of its own, ``#<padded id>``

A shelved entry stays pending in the group, owned by the pseudo-consumer given as ``shelf name``, so that it counts in
the depth, survives every crash, and is never taken for the leftover of a dead consumer. While a line stands on the
shelf, newly read messages of its key join its end instead of overtaking it.
"""

_ENTRY_IDS = """
local function padded(id)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  return string.rep('0', 20 - #ms) .. ms .. '-' .. string.rep('0', 20 - #seq) .. seq
end
local function plain(text)
  local ms, seq = string.match(text, '^0*(%d+)-0*(%d+)$')
  return ms .. '-' .. seq
end
local function line_name(id, key)
  if key == nil or key == '' then return '#' .. padded(id) end
  return '=' .. key
end
local function key_of(fields)
  for i = 1, #fields, 2 do
    if fields[i] == 'k' then return fields[i + 1] end
  end
  return ''
end
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end
"""

PUBLISH = """
-- KEYS: streams. ARGV: per message the index of its stream, the number of fields that follow, the fields.
local i = 1
while i <= #ARGV do
  local stream, count = KEYS[tonumber(ARGV[i])], tonumber(ARGV[i + 1])
  redis.call('XADD', stream, '*', unpack(ARGV, i + 2, i + 1 + count))
  i = i + 2 + count
end
return 'OK'
"""

TAKE = (
    _ENTRY_IDS
    + """
-- KEYS: stream and shelf of each topic, by priority. ARGV: group, consumer, room, shelf name.
-- Returns {entries, wait_ms, last_ids}; an entry is {topic index, id, attempt, fields}. With entries the other two are
-- empty; without, wait_ms says when the next shelved line is due (-1: none) and last_ids where each group stands.
local group, consumer, room, shelf_name = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local now = now_ms()
local out = {}

local function claim(topic, stream, id)
  local claimed = redis.call('XCLAIM', stream, group, consumer, 0, id)
  if #claimed == 0 or not claimed[1] then return end
  local pending = redis.call('XPENDING', stream, group, id, id, 1)
  out[#out + 1] = {topic, id, pending[1][4], claimed[1][2]}
  room = room - 1
end

local function take_shelved(topic, stream, shelf)
  local names = redis.call('ZRANGEBYSCORE', shelf, '-inf', now, 'LIMIT', 0, room)
  for _, name in ipairs(names) do
    if room <= 0 then return end
    local line = shelf .. '/' .. name
    for _, member in ipairs(redis.call('ZRANGE', line, 0, room - 1)) do
      claim(topic, stream, plain(member))
      redis.call('ZREM', line, member)
    end
    if redis.call('EXISTS', line) == 0 then redis.call('ZREM', shelf, name) end
  end
end

local function read(stream)
  local got = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', room, 'STREAMS', stream, '>')
  if type(got) == 'table' and got.err and string.find(got.err, 'NOGROUP', 1, true) then
    redis.call('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
    got = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', room, 'STREAMS', stream, '>')
  end
  return got
end

local function take_new(topic, stream, shelf)
  -- Bounded: a long backlog of one shelved key must not hold the server; the next call goes on.
  for _ = 1, 20 do
    if room <= 0 then return end
    local got = read(stream)
    if not got then return end
    if got.err then
      if #out == 0 then return got end
      return
    end
    local shelved = redis.call('EXISTS', shelf) == 1
    for _, entry in ipairs(got[1][2]) do
      local id, fields = entry[1], entry[2]
      local name = shelved and line_name(id, key_of(fields))
      if name and redis.call('ZSCORE', shelf, name) then
        redis.call('XCLAIM', stream, group, shelf_name, 0, id, 'RETRYCOUNT', 0, 'JUSTID')
        redis.call('ZADD', shelf .. '/' .. name, 0, padded(id))
      else
        out[#out + 1] = {topic, id, 1, fields}
        room = room - 1
      end
    end
    if not shelved then return end
  end
end

for i = 1, #KEYS, 2 do
  if room <= 0 then break end
  local topic = (i + 1) / 2
  take_shelved(topic, KEYS[i], KEYS[i + 1])
  local failure = take_new(topic, KEYS[i], KEYS[i + 1])
  if failure then return failure end
end
if #out > 0 then return {out, -1, {}} end

local due, last_ids = -1, {}
for i = 1, #KEYS, 2 do
  local first = redis.call('ZRANGE', KEYS[i + 1], 0, 0, 'WITHSCORES')
  if first[2] and (due < 0 or tonumber(first[2]) < due) then due = tonumber(first[2]) end
  local last = '0-0'
  for _, info in ipairs(redis.call('XINFO', 'GROUPS', KEYS[i])) do
    local mine, id = false, '0-0'
    for j = 1, #info, 2 do
      if info[j] == 'name' then mine = info[j + 1] == group end
      if info[j] == 'last-delivered-id' then id = info[j + 1] end
    end
    if mine then last = id end
  end
  last_ids[#last_ids + 1] = last
end
if due < 0 then return {out, -1, last_ids} end
return {out, math.max(0, due - now), last_ids}
"""
)

SHELVE = (
    _ENTRY_IDS
    + """
-- KEYS: stream, shelf. ARGV: group, shelf name, delay in ms, then id and ordering key of each entry.
-- An entry that is no longer pending was acknowledged in the meantime and is passed over.
local stream, shelf = KEYS[1], KEYS[2]
local due = now_ms() + tonumber(ARGV[3])
local count = 0
for i = 4, #ARGV, 2 do
  local id, name = ARGV[i], line_name(ARGV[i], ARGV[i + 1])
  local claimed = redis.pcall('XCLAIM', stream, ARGV[1], ARGV[2], 0, id, 'JUSTID')
  if claimed.err and not string.find(claimed.err, 'NOGROUP', 1, true) then return claimed end
  if not claimed.err and #claimed > 0 then
    redis.call('ZADD', shelf .. '/' .. name, 0, padded(id))
    redis.call('ZADD', shelf, due, name)
    count = count + 1
  end
end
return count
"""
)

SHELVE_LEFTOVERS = (
    _ENTRY_IDS
    + """
-- KEYS: stream, shelf. ARGV: group, shelf name, idle ms, one consumer or '' for all, limit.
-- Puts what consumers left unfinished on the shelf, due at once. Returns how many entries were found.
local stream, shelf, group, shelf_name = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local limit, now, found = tonumber(ARGV[5]), now_ms(), 0
local consumers = {}
if ARGV[4] ~= '' then
  consumers[1] = ARGV[4]
else
  local known = redis.pcall('XINFO', 'CONSUMERS', stream, group)
  if known.err then
    if string.find(known.err, 'NOGROUP', 1, true) or string.find(known.err, 'no such key', 1, true) then return 0 end
    return known
  end
  for _, info in ipairs(known) do
    local name, pending = nil, 0
    for j = 1, #info, 2 do
      if info[j] == 'name' then name = info[j + 1] end
      if info[j] == 'pending' then pending = info[j + 1] end
    end
    if name ~= shelf_name and pending > 0 then consumers[#consumers + 1] = name end
  end
end
for _, consumer in ipairs(consumers) do
  if found >= limit then return found end
  local rows = redis.pcall('XPENDING', stream, group, 'IDLE', ARGV[3], '-', '+', limit - found, consumer)
  if rows.err then
    if string.find(rows.err, 'NOGROUP', 1, true) then return 0 end
    return rows
  end
  for _, row in ipairs(rows) do
    local id = row[1]
    local entry = redis.call('XRANGE', stream, id, id)[1]
    if entry then
      local name = line_name(id, key_of(entry[2]))
      redis.call('XCLAIM', stream, group, shelf_name, 0, id, 'JUSTID')
      redis.call('ZADD', shelf .. '/' .. name, 0, padded(id))
      redis.call('ZADD', shelf, 'NX', now, name)
    else
      redis.call('XACK', stream, group, id)
    end
    found = found + 1
  end
end
return found
"""
)

TRIM = (
    _ENTRY_IDS
    + """
-- KEYS: stream. ARGV: retention in ms, entries kept while no group exists, idle ms after which a consumer is forgotten,
-- shelf name.
-- Removes what every group has acknowledged and what is older than the retention. Returns how many entries went.
local stream = KEYS[1]
local groups = redis.pcall('XINFO', 'GROUPS', stream)
if groups.err then
  if string.find(groups.err, 'no such key', 1, true) then return 0 end
  return groups
end
local oldest_kept = padded(string.format('%.0f', math.max(0, now_ms() - tonumber(ARGV[1]))) .. '-0')
if #groups == 0 then
  local gone = redis.call('XTRIM', stream, 'MINID', plain(oldest_kept))
  return gone + redis.call('XTRIM', stream, 'MAXLEN', ARGV[2])
end
local floor = nil
for _, info in ipairs(groups) do
  local name, last = nil, '0-0'
  for j = 1, #info, 2 do
    if info[j] == 'name' then name = info[j + 1] end
    if info[j] == 'last-delivered-id' then last = info[j + 1] end
  end
  local ms, seq = string.match(last, '^(%d+)-(%d+)$')
  local mine = padded(ms .. '-' .. string.format('%.0f', tonumber(seq) + 1))
  local pending = redis.call('XPENDING', stream, name)
  if pending[1] > 0 then mine = padded(pending[2]) end
  if floor == nil or mine < floor then floor = mine end
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', stream, name)) do
    local who, open, idle = nil, 0, 0
    for j = 1, #consumer, 2 do
      if consumer[j] == 'name' then who = consumer[j + 1] end
      if consumer[j] == 'pending' then open = consumer[j + 1] end
      if consumer[j] == 'idle' then idle = consumer[j + 1] end
    end
    if open == 0 and idle > tonumber(ARGV[3]) and who ~= ARGV[4] then
      redis.call('XGROUP', 'DELCONSUMER', stream, name, who)
    end
  end
end
if floor < oldest_kept then floor = oldest_kept end
return redis.call('XTRIM', stream, 'MINID', plain(floor))
"""
)
