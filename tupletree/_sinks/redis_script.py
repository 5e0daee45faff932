"""The commit of RedisHashes: one Lua script, which Redis runs in isolation.

    KEYS   about  undo  index  staged…
    ARGV   id  txid  attempt  opaque (1 or 0)  prefix
           columns  { name  rule  kind }…          (a count, then that many columns)
           parts…                                  (of each staged key)

The script returns a word and its details:

    done                     the batch is merged, by this call or an earlier one
    stale   txid attempt     the mark, which is of a later transaction or a newer attempt
    another id               the prefix belongs to the pipeline of that id
    unmarked                 opaque, and the txid was committed under the transactional rule: there is no undo list
    missing name             a staged key is gone
    failed  name text        a value cannot be merged; nothing has changed, but see below

Redis runs a script in isolation but does not roll it back on failure. So the script reads the fields of each hash
before the first change, and restores them on failure. The result is S(n - 1), the state before this transaction
(rules.py), even if an older attempt of it was merged: that attempt is over, so its loss does no harm. The undo
list that reverted the older attempt stays, so that the next attempt can apply it once more.

The undo list has the names of the columns and then, for each hash that the transaction has changed, its name and its
previous fields, with false for a missing field.

Numbers in Lua are doubles. So integers are added by HINCRBY and compared by their digits, as are txids and attempts.
Doubles are added as doubles here, since HINCRBYFLOAT rounds to 17 digits after the decimal point. Strings are compared
by bytes: Lua's own ``<`` follows the locale of the server. Only the columns are unpacked; there are few.
"""

from __future__ import annotations  # pure

MERGE = """
if redis.replicate_commands then redis.replicate_commands() end
local about, undo, index = KEYS[1], KEYS[2], KEYS[3]
local at = 0
local function take() at = at + 1; return ARGV[at] end
local id, txid, attempt, opaque, prefix = take(), take(), take(), take() == '1', take()
local names, rules, kinds = {}, {}, {}
for i = 1, tonumber(take()) do names[i], rules[i], kinds[i] = take(), take(), take() end
local staged = {}
for i = 4, #KEYS do staged[i - 3] = {name = KEYS[i], parts = tonumber(take())} end

local less = {}
function less.text(a, b)
  if a == b then return false end
  for i = 1, math.min(#a, #b) do
    local x, y = a:byte(i), b:byte(i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
less.binary = less.text
function less.whole(a, b)
  local minus_a, minus_b = a:sub(1, 1) == '-', b:sub(1, 1) == '-'
  if minus_a ~= minus_b then return minus_a end
  if minus_a then a, b = b:sub(2), a:sub(2) end
  local digits_a, digits_b = #a:match('^%d*'), #b:match('^%d*')
  if digits_a ~= digits_b then return digits_a < digits_b end
  return less.text(a, b)
end
less.decimal = less.whole
local function number(text) return tonumber(text) or error('hash value is not a number', 0) end
function less.double(a, b)
  a, b = number(a), number(b)
  if a ~= a then return false end
  return b ~= b or a < b
end
local function shortest(value)
  if value ~= value then return 'nan' end
  local text
  for digits = 15, 17, 2 do
    text = string.format('%.' .. digits .. 'g', value)
    if tonumber(text) == value then break end
  end
  return text:match('^-?%d+$') and text .. '.0' or text
end

local function put_back(name, columns, values)
  for i, column in ipairs(columns) do
    if values[i] then redis.call('HSET', name, column, values[i]) else redis.call('HDEL', name, column) end
  end
end

local function take_back()
  local columns = cmsgpack.unpack(redis.call('LINDEX', undo, 0))
  for first = 1, redis.call('LLEN', undo) - 1, 1000 do
    for _, packed in ipairs(redis.call('LRANGE', undo, first, first + 999)) do
      local entry = cmsgpack.unpack(packed)
      put_back(entry[1], columns, entry[2])
    end
  end
end

local before, changed = {}, {}
local function merge(name, chunk, start)
  local now, puts = redis.call('HMGET', name, unpack(names)), {}
  if not before[name] then
    before[name] = now
    changed[#changed + 1] = name
  end
  for i, column in ipairs(names) do
    local value, old, rule, kind = chunk[start + i], now[i], rules[i], kinds[i]
    if not value then
      if rule == 'replace' and old then redis.call('HDEL', name, column) end
    elseif rule == 'add' and kind == 'whole' then
      redis.call('HINCRBY', name, column, value)
    else
      if rule == 'add' then value = shortest(number(value) + number(old or '0')) end
      local is_least = rule == 'min' and old and not less[kind](value, old)
      local is_greatest = rule == 'max' and old and not less[kind](old, value)
      if not is_least and not is_greatest then
        puts[#puts + 1] = column
        puts[#puts + 1] = value
      end
    end
  end
  if #puts > 0 then redis.call('HSET', name, unpack(puts)) end
end

local function clear()
  for _, one in ipairs(staged) do
    redis.call('DEL', one.name)
    redis.call('SREM', index, one.name)
  end
end

local owner, mark_txid, mark_attempt = unpack(redis.call('HMGET', about, 'transactional_id', 'txid', 'attempt'))
if owner and owner ~= id then return {'another', owner} end
local again = mark_txid == txid
if mark_txid and less.whole(txid, mark_txid) then return {'stale', mark_txid, mark_attempt} end
if again and opaque and less.whole(attempt, mark_attempt) then return {'stale', mark_txid, mark_attempt} end
if again and (not opaque or mark_attempt == attempt) then clear() return {'done'} end
if again and redis.call('EXISTS', undo) == 0 then return {'unmarked'} end
for _, one in ipairs(staged) do
  if redis.call('HLEN', one.name) ~= one.parts then return {'missing', one.name} end
end

local name = about
local merged, problem = pcall(function()
  if again then take_back() end
  for _, one in ipairs(staged) do
    for part = 0, one.parts - 1 do
      local chunk = cmsgpack.unpack(redis.call('HGET', one.name, part))
      for start = 1, #chunk, #names + 1 do
        name = prefix .. ':' .. chunk[start]
        merge(name, chunk, start)
      end
    end
  end
end)
if not merged then
  for _, one in ipairs(changed) do put_back(one, names, before[one]) end
  return {'failed', name, type(problem) == 'table' and problem.err or tostring(problem)}
end

redis.call('DEL', undo)
if opaque then
  redis.call('RPUSH', undo, cmsgpack.pack(names))
  for _, one in ipairs(changed) do redis.call('RPUSH', undo, cmsgpack.pack({one, before[one]})) end
end
redis.call('HSET', about, 'transactional_id', id)
redis.call('HSET', about, 'txid', txid)
redis.call('HSET', about, 'attempt', attempt)
clear()
return {'done'}
"""
