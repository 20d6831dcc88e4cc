# SPDX-License-Identifier: Apache-2.0
"""Python that calls Lua that calls Python: three functions of Python's and two of Lua's by turns, each on the stack at most once."""
import ctypes
import sys
import time

GLOBALS = -10002
lua = ctypes.CDLL("libluajit-5.1.so.2")
lua.luaL_newstate.restype = ctypes.c_void_p
state = ctypes.c_void_p(lua.luaL_newstate())


def called(name):
    lua.lua_getfield(state, GLOBALS, name)
    lua.lua_call(state, 0, 0)


def spin():
    x = 0
    for i in range(2000):
        x += i * i % 7
    return x


def innermost(_):
    spin()
    return 0


def middle(_):
    called(b"lower")
    return 0


def outermost():
    called(b"upper")


function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
kept = [function(innermost), function(middle)]
for name, of in zip((b"innermost", b"middle"), kept):
    lua.lua_pushcclosure(state, of, 0)
    lua.lua_setfield(state, GLOBALS, name)
lua.luaL_loadstring(state, b"function upper() middle() return 1 end function lower() innermost() return 1 end")
lua.lua_call(state, 0, 0)
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end:
    outermost()
