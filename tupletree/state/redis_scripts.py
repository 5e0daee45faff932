"""Lua scripts that write a state in Redis. Redis runs each script atomically.

    <name>:about          hash: format, owner, token, step, committed, prepared, chunks, moved
    <name>:committed      hash: key -> value
    <name>:prepared:<i>   list: key, "+value" or "-", key, ...; i from 1 to ``chunks``

No script runs long: changes are prepared in chunks, and each chunk is moved to the committed values by a separate
script call.

    prepare   chunk 1 .. chunk n            the script of the last chunk also sets prepared = txid
    commit    committed = txid, moved = 0   from here on txid is committed, even if another owner continues
              move chunk 1 .. move chunk n  the last move removes ``moved`` and ``chunks``

**Invariants.** While ``moved`` exists, chunks moved+1 .. chunks belong to the committed values and are moved before any
other read or write; opening a namespace begins with this. If neither ``moved`` nor ``prepared`` exists, any chunks are
leftovers of an interrupted prepare, and the next prepare removes them.

**Late and repeated writes.** Each write names its owner and a step number. It is executed only if this owner was the
last to open the namespace and the step is above the last executed step. So a command that was stuck in an abandoned
connection changes nothing, and a command that the client repeats after a lost reply is not executed twice.
"""

from __future__ import annotations  # pure

from typing import Final

OPEN: Final = """
local about, committed = KEYS[1], KEYS[2]
local token, format = ARGV[1], tonumber(ARGV[2])
for _, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key)['ok']
  if kind ~= 'none' and kind ~= 'hash' then return {'FOREIGN', key} end
end
local known = tonumber(redis.call('HGET', about, 'format') or '0')
if known > format then return {'NEWER', known} end
if known == 0 then
  for _, key in ipairs(KEYS) do
    if redis.call('EXISTS', key) == 1 then return {'FOREIGN', key} end
  end
end
if redis.call('HGET', about, 'token') ~= token then
  redis.call('HINCRBY', about, 'owner', 1)
  redis.call('HSET', about, 'token', token, 'step', 0, 'format', format)
end
return {'OK', redis.call('HGET', about, 'owner')}
"""
"""Become the owner. KEYS: about, committed. ARGV: token, format. The token identifies a repeated call."""

_BEGIN: Final = """
local about, committed, chunk = KEYS[1], KEYS[2], KEYS[3]
local owner = redis.call('HGET', about, 'owner')
if not owner then return {'GONE'} end
if owner ~= ARGV[1] then return {'OWNER'} end
local step, last = tonumber(ARGV[2]), tonumber(redis.call('HGET', about, 'step'))
local function chunks() return tonumber(redis.call('HGET', about, 'chunks') or '0') end
local function clear()
  for i = 1, chunks() do redis.call('UNLINK', chunk .. i) end
  redis.call('HDEL', about, 'prepared', 'chunks')
end
local function move(i)
  local entries = redis.call('LRANGE', chunk .. i, 0, -1)
  local puts = {}
  for j = 1, #entries, 2 do
    local value = entries[j + 1]
    if string.byte(value) == 43 then
      puts[#puts + 1] = entries[j]
      puts[#puts + 1] = string.sub(value, 2)
      if #puts >= 1000 then redis.call('HSET', committed, unpack(puts)); puts = {} end
    else
      redis.call('HDEL', committed, entries[j])
    end
  end
  if #puts > 0 then redis.call('HSET', committed, unpack(puts)) end
  redis.call('UNLINK', chunk .. i)
  if i >= chunks() then redis.call('HDEL', about, 'moved', 'chunks')
  else redis.call('HSET', about, 'moved', i) end
end
local is_new = step > last
if is_new then redis.call('HSET', about, 'step', step) end
"""
"""Common start of all other scripts.

KEYS: about, committed, the prefix of the chunks' names. ARGV: owner, step, then the arguments of the script.
"""

LOOK: Final = (
    _BEGIN
    + """
return {'OK', unpack(redis.call('HMGET', about, 'committed', 'prepared', 'chunks', 'moved'))}
"""
)
"""Return committed, prepared, chunks and moved. Afterwards no earlier step is executed any more."""

PREPARE: Final = (
    _BEGIN
    + """
if not is_new then return {'OK'} end
if ARGV[3] == 'first' then clear() end
if #ARGV > 4 then
  local name = chunk .. redis.call('HINCRBY', about, 'chunks', 1)
  for i = 5, #ARGV, 1000 do redis.call('RPUSH', name, unpack(ARGV, i, math.min(i + 999, #ARGV))) end
end
if ARGV[4] ~= '' then redis.call('HSET', about, 'prepared', ARGV[4]) end
return {'OK'}
"""
)
"""ARGV: 'first' for the first chunk, else ''; the txid for the last chunk, else ''; the entries of the chunk."""

COMMIT: Final = (
    _BEGIN
    + """
if not is_new then return {'OK'} end
if redis.call('HGET', about, 'prepared') ~= ARGV[3] then return {'CONFLICT'} end
redis.call('HSET', about, 'committed', ARGV[3])
redis.call('HDEL', about, 'prepared')
if chunks() > 0 then
  redis.call('HSET', about, 'moved', 0)
  move(1)
end
return {'OK'}
"""
)
"""ARGV: the txid. Moves the first chunk too."""

MOVE: Final = (
    _BEGIN
    + """
if is_new then move(tonumber(ARGV[3])) end
return {'OK'}
"""
)
"""ARGV: the number of the chunk, which must be the next to move."""

ROLLBACK: Final = (
    _BEGIN
    + """
if is_new then clear() end
return {'OK'}
"""
)
