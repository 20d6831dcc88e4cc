-- A program whose stacks are known: what can be on them is in e2e/test_luajit.py. Recursion, methods, metamethods, closures, vararg
-- functions, tail calls, callbacks out of C (sort, gsub) and ffi, errors, coroutines, texts; `spin` is where most of the time goes, and in
-- `slow` nearly all.
local ffi = require('ffi')
ffi.cdef('void qsort(void *, size_t, size_t, int (*)(const int *, const int *));')

local scale = 1

local function spin(n)
    local x = 0
    for i = 1, n * scale do
        x = (x + i * i) % 7
    end
    return x
end

local function recurse(depth)
    if depth == 0 then
        return (spin(1000))
    end
    local deeper = recurse(depth - 1)
    return deeper
end

local Base = {}
Base.__index = function(self, name) -- index
    spin(300)
    return rawget(Base, name)
end
Base.__add = function(a, b) spin(300) return 1 end
Base.__lt = function(a, b) spin(300) return true end
Base.__eq = function(a, b) spin(300) return true end
Base.__concat = function(a, b) spin(300) return 'text' end
Base.__newindex = function(self, name, value) spin(300) end
Base.__call = function(self) spin(300) end

function Base:method()
    recurse(8)
end

local function objects()
    local one, other = setmetatable({}, Base), setmetatable({}, Base)
    one:method()
    local sum, less, same, text = one + other, one < other, one == other, one .. other
    one.field = 1
    one()
end

local function sorted()
    local list = {9, 3, 7, 1, 8, 2}
    table.sort(list, function(a, b) spin(60) return a < b end)
end

local function replaced()
    return (string.gsub('abcab', 'a', function(a) spin(200) return 'b' end))
end

local function raising()
    spin(300)
    error('no')
end

local function caught()
    pcall(raising)
    local ok, text = xpcall(raising, function(text) spin(200) return text end)
    spin(100)
end

local function resumed()
    local thread = coroutine.create(function(n) -- thread
        spin(n)
        coroutine.yield()
        pcall(raising)
        recurse(2)
    end)
    coroutine.resume(thread, 300)
    spin(100)
    coroutine.resume(thread)
end

local function wrapped()
    local step = coroutine.wrap(function() -- wrap
        local list = {3, 1, 2}
        table.sort(list, function(a, b) spin(100) return a < b end) -- in a coroutine
        coroutine.yield()
        spin(200)
    end)
    step()
    step()
end

local function variadic(...)
    spin(300)
    local n = select('#', ...)
    return n
end

local function each(list)
    local i = 0
    return function() -- each
        i = i + 1
        spin(200)
        return list[i]
    end
end

local function iterated()
    for one in each({1, 2}) do
        spin(100)
    end
end

local function tail()
    return spin(500)
end

local made = {}
for i = 1, 2 do
    made[i] = function() spin(300) end
end

local function closures()
    for _, one in ipairs(made) do
        one()
    end
end

local numbers, compare = ffi.new('int[4]'), ffi.cast('int (*)(const int *, const int *)', function(a, b) -- callback
    spin(100)
    return a[0] - b[0]
end)

local function called_back()
    for i = 0, 3 do
        numbers[i] = 4 - i
    end
    ffi.C.qsort(numbers, 4, 4, compare)
end
jit.off(called_back) -- as who is called back has to be

function globally() spin(300) end

local evaluated = assert(loadstring('local spin = ... spin(300) return 1'))

local function work()
    objects()
    sorted()
    replaced()
    caught()
    resumed()
    wrapped()
    local n = variadic(1, 2, 3)
    iterated()
    tail()
    closures()
    called_back()
    globally()
    evaluated(spin)
end

local function slow()
    scale = 2000
    work()
    scale = 1
end

local function run(seconds)
    local finish = os.time() + seconds
    repeat
        for i = 1, 1000 do
            work()
        end
        slow()
    until os.time() >= finish
end

run(tonumber(arg[1] or 1))
