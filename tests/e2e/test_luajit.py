"""Lua programs whose stacks are known (tests/runtimes/chains.lua), run by LuaJIT and seen by profsend: attached to while they run, and
begun while it samples; interpreted and compiled. PG_LUAJITS names other LuaJITs (as "COMMAND:…"), which --soak tries.
"""
import os
import pathlib
import re
import shutil

import pytest
from profiles import are_named, beside_a_liar, judged, names_of, nearly_all, say, seen, seen_from_its_begin
from programs import ROOT, Process

PROGRAM = ROOT / "tests/runtimes/chains.lua"
LINES = PROGRAM.read_text().splitlines()
OWN = shutil.which("luajit")
LATE = 0.999  # of the samples of a program that runs already are exact, complete and named
FIRST = 1.0  # seconds within which its place must be known, on a machine that eight others use
AFTER = 0.99  # of one that begins


def at(text):
    """What is defined in a line, and has no name."""
    return f"<chains.lua:{next(n for n, line in enumerate(LINES, 1) if text in line)}>"


DEEPER = ["recurse"] * 9 + ["spin"]
THREAD, WRAP = at("-- thread"), at("-- wrap")
# Each chain of functions there can be from `work` on, root first; what is a prefix of one can be seen, too, but
# hardly ever below `slow`.
CHAINS = [
    ["objects", "method", *DEEPER],
    *(["objects", name, "spin"] for name in ("__add", "__lt", "__eq", "__concat", "__newindex", "one")),
    ["objects", "setmetatable"],
    ["objects", "__index", "rawget"],
    ["objects", "__index", "spin"],
    ["sorted", "sort", at("spin(60)"), "spin"],
    ["replaced", "gsub", at("'abcab'"), "spin"],
    ["caught", "pcall", at("function raising"), "spin"],
    ["caught", "pcall", at("function raising"), "error"],
    ["caught", "xpcall", at("function raising"), "spin"],
    ["caught", "xpcall", at("function raising"), "error", at("xpcall(raising"), "spin"],
    ["caught", "spin"],
    ["resumed", "create"],
    ["resumed", "spin"],
    ["resumed", "resume", THREAD, "spin"],
    ["resumed", "resume", THREAD, "yield"],
    ["resumed", "resume", THREAD, "pcall", at("function raising"), "spin"],
    ["resumed", "resume", THREAD, "pcall", at("function raising"), "error"],
    ["resumed", "resume", THREAD, *["recurse"] * 3, "spin"],
    ["wrapped", "wrap"],
    ["wrapped", "step", WRAP, "sort", at("-- in a coroutine"), "spin"],
    ["wrapped", "step", WRAP, "yield"],
    ["wrapped", "step", WRAP, "spin"],
    ["variadic", "spin"],
    ["variadic", "select"],
    ["iterated", "each"],
    ["iterated", "(for generator)", "spin"],
    ["iterated", "spin"],
    ["tail"],  # spin, which it has become
    ["closures", "ipairs"],
    ["closures", "(for generator)"],
    ["closures", "one", "spin"],
    ["called_back", "__index"],
    ["called_back", "__newindex"],
    ["called_back", "qsort", at("-- callback"), "spin"],
    ["called_back", "qsort", at("-- callback"), "__index"],
    ["globally", "spin"],
    ["main chunk", "spin"],
]
WHOLE = {("work", *chain) for chain in CHAINS}
POSSIBLE = {whole[:n] for whole in WHOLE for n in range(len(whole) + 1)}


def ways():
    """The LuaJIT here, and PG_LUAJITS'; interpreted, compiled."""
    others = [command for command in os.environ.get("PG_LUAJITS", "").split(":") if command]
    for command in [OWN or "luajit", *others]:
        for option in "-joff", "-jon":
            soak = pytest.mark.soak if command in others else ()
            yield pytest.param((command, option), id=f"{pathlib.Path(command).name}{option}", marks=soak)


def start(way, *arguments):
    command, option = way
    return Process([shutil.which(command) or pytest.skip("no LuaJIT here"), option, PROGRAM, *arguments])


def is_exact(names):
    if names[:2] == ("main chunk", "run"):
        return names[3:] in WHOLE if names[2:3] == ("slow",) else names[2:] in POSSIBLE or names[2:] == ("time",)
    return len(names) <= 1 and names != ("run",)


def judge(stacks):
    """judged(), of a program at work."""
    def verdict(stack):
        names = names_of(stack, "luajit")
        return is_exact(names), stack.incomplete is None, are_named(names)
    return judged(stacks, verdict)


def span(name):
    """The lines of a function of the program."""
    for first, line in enumerate(LINES, 1):
        if found := re.match(rf"( *)(local )?function ([\w.]+:)?{re.escape(name)}\(", line):
            last = first if line.endswith("end") else next(n for n in range(first, len(LINES) + 1) if LINES[n - 1] == found[1] + "end")
            return range(first, last + 1)
    return None


@pytest.mark.parametrize("way", ways())
def test_a_program_that_runs_is_seen_exactly(way):
    program = start(way, "600")
    receiver = seen(program, 1500, first=FIRST)
    hits, exact, complete, named, odd = judge(receiver.of(program.pid))
    text = say(way, hits, exact, complete, named, odd)
    assert not receiver.errors, receiver.errors[0]
    assert min(exact, complete, named) >= nearly_all(LATE, hits), (text, odd[:3])
    for (name, kind), places in receiver.places.items():
        if kind == "luajit" and name != "tail" and (of := span(name)):
            # What is being begun or left may be taken for one of another kind, of which only the name is known.
            assert all(file == str(PROGRAM) and line in of for file, line in places - {("", 0)}), (name, places)
    assert len(receiver.places["spin", "luajit"]) >= (2 if way[1] == "-joff" else 1)  # lines, not functions
    said = receiver.resources[program.pid]
    assert said["process.runtime.name"] == "luajit" and said["process.runtime.version"].startswith("2.1.")
    # A call from C stands where the machine has it: behind what sort is written in.
    woven = {True: 0, False: 0}
    for stack, n in receiver.of(program.pid).items():
        if not stack.first and at("spin(60)") in stack.names and "sort" in stack.names:
            between = stack.kinds[stack.names.index(at("spin(60)")):stack.names.index("sort")]
            woven[between.count("native") >= 2] += n
    assert woven[True] >= nearly_all(AFTER, sum(woven.values())) > 0, woven


@pytest.mark.parametrize("way", ways())
def test_a_program_that_begins_is_seen_exactly(way):
    name = pathlib.Path(shutil.which(way[0]) or pytest.skip("no LuaJIT here")).resolve().name
    stacks = seen_from_its_begin(name, lambda: start(way, "2"))
    # Until `run` has begun it is LuaJIT that begins, and after it that it ends.
    at_work = {s: n for s, n in stacks.items() if "run" in names_of(s, "luajit")}
    hits, exact, complete, named, odd = judge(at_work)
    text = say(f"of {sum(stacks.values())}", hits, exact, complete, named, odd)
    assert hits > 0.8 * sum(stacks.values()), text
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), (text, odd[:3])


def test_what_the_interpreter_calls_of_its_own_has_its_callers():
    # The remainder of a division is a subroutine of the interpreter's, which returns into it and not to C.
    text = "local function inner() local x = 0 for i = 1, 1e6 do x = x + i % 101 + i % 103 + i % 107 end return x end " \
        "local function outer() local x = inner() return x end while true do outer() end"
    program = Process([OWN or pytest.skip("no LuaJIT here"), "-joff", "-e", text])
    stacks = seen(program, 700, first=FIRST).of(program.pid)
    hits, exact, complete, named, odd = judged(stacks, lambda stack: (
        names_of(stack, "luajit") == ("main chunk", "outer", "inner"), stack.incomplete is None, True))
    assert min(exact, complete) >= nearly_all(LATE, hits), odd[:3]


# A request at a time: its text is loaded anew, and calls by a name of its own what stays.
REQUESTS = """
local function spin(n) local x = 0 for i = 1, n do x = (x + i * i) % 7 end return x end
shared = {odd = function(n) return (spin(n)) end, even = function(n) return (spin(n)) end}
local i = 0
while true do
  i = i + 1
  local name = i % 2 == 0 and 'even' or 'odd'
  local chunk = loadstring(('local function handle_%s(n) local r = shared.%s(n) return r end local r = handle_%s(...) return r')
    :format(name, name, name), '=request')
  local r = chunk(1000)
end
"""


def test_what_is_loaded_anew_is_named_and_not_by_what_was_there_before():
    program = Process([OWN or pytest.skip("no LuaJIT here"), "-joff", "-e", REQUESTS])
    hits = named = wrong = 0
    for stack, n in seen(program, 600, first=FIRST).of(program.pid).items():
        names = names_of(stack, "luajit")
        if not stack.first and len(names) == 5:
            hits += n
            named += n * are_named(names)
            wrong += n * ({"handle_odd", "even"} <= set(names) or {"handle_even", "odd"} <= set(names))
    print(f"\nnamed {named}, wrong {wrong} of {hits}")
    assert wrong == 0 and hits > 400
    assert named >= nearly_all(0.98, hits), (named, hits)


def test_one_that_lies_harms_nobody(tmp_path):
    lies, stacks = beside_a_liar(tmp_path, PROGRAM.parent / "luajit_liar.c", lambda: start((OWN or "luajit", "-joff"), "600"), FIRST,
                                 lambda *both: min(sum(stacks.values()) for stacks in both) >= 150)
    hits, exact, complete, named, odd = judge(stacks)
    assert min(exact, complete, named) >= nearly_all(LATE, hits), odd[:3]
    assert any("luajit" in stack.kinds for stack in lies)
