local long = string.rep("some text ", 10)
local function counter(n) local sum = n; return function(x) sum = sum + x; n = n - 1; return sum, n end end
local Shape = {}; Shape.__index = Shape; Shape.__gc = function() end
kept = {}
for i = 1, 400 do
  local t = setmetatable({ id = i, name = "name " .. i, long = long .. i, list = {} }, Shape)
  for j = 1, i % 37 do t.list[j] = j * 1.5 end
  t.count = counter(i)
  if i % 10 == 0 then
    t.routine = coroutine.create(function(a)
      local x, up = { a }, counter(a)
      return coroutine.yield(function() return x end), up
    end)
    coroutine.resume(t.routine, i)
  end
  if i % 50 == 0 then t.file = io.tmpfile() end
  if i % 20 == 0 then t.made = load("local a = ...; return function(x) return a + x + " .. i .. " end")(1) end
  kept[i], kept["key " .. i] = t, long .. "key " .. i
end
kept.weak = setmetatable({}, { __mode = "k" })
for i = 1, 50 do kept.weak[kept[i]] = i end
for i = 1, 2000 do kept["short" .. i] = i end
kept.words = string.gmatch("a b c", "%a"); kept.words()
collectgarbage()
print("ready"); io.stdout:flush()
io.read()
