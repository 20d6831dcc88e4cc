"""What holds of every runtime: code that is gone soon is never told as another's, shares of time are what they are, and many functions
cost little memory. With --soak for as many samples as say something of rare things.
"""
import bisect
import ctypes
import math
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest
from profiles import Receiver, busy, judged, nearly_all, profsend, say, started
from programs import ROOT, Process, running, wait_for

PROGRAMS = ROOT / "tests/runtimes"
NEAR_NS = 5_000_000  # of a change: what a program and profsend call the same time


def needs(command):
    return shutil.which(command) or pytest.skip(f"no {command} here")


def passing_java(folder):
    subprocess.run([needs("javac"), "-d", folder, PROGRAMS / "Passing.java"], check=True)
    return [needs("java"), "-Xmx64m", "-cp", folder, "Passing"]


PASSING = {"java": passing_java, "node": lambda folder: [needs("node"), "--expose-gc", PROGRAMS / "passing.js"],
           "python": lambda folder: ["/usr/bin/python3", PROGRAMS / "passing.py"]}


@pytest.mark.parametrize("hits_wanted", [1500, pytest.param(100_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("runtime", PASSING)
def test_code_that_is_thrown_away_is_never_told_as_another(runtime, hits_wanted, tmp_path):
    """Each function has its number in its name; the program says when which of them began."""
    program = Process(PASSING[runtime](tmp_path))
    with Receiver(first=2.0, times=True) as receiver, running(program):
        busy(program)
        sender = profsend(receiver, "--pid", program.pid)
        with running(sender):
            started(sender)
            wait_for(lambda: sum(receiver.of(program.pid).values()) >= hits_wanted, "samples", 20 * 60)
            assert sender.stop() == 0, sender.log()
        numbers, begins = zip(*(map(int, line.split()) for line in program.log().splitlines() if re.fullmatch(r"\d+ \d+", line)))
    named, wrong, bare = 0, [], 0
    for when, stack in receiver.times:
        told = {int(found[1]) for name in stack.names if (found := re.search(r"passing_(\d{7})$", name))}
        first = bisect.bisect_right(begins, when - NEAR_NS) - 1
        last = bisect.bisect_right(begins, when + NEAR_NS) - 1
        named += bool(told)
        bare += any(name.startswith("0x") and kind not in ("native", "kernel") for name, kind in zip(stack.names, stack.kinds))
        if told and (len(told) > 1 or not told <= set(numbers[max(0, first):last + 1])):
            wrong.append((when, told, numbers[max(0, first)], stack.names))
    hits = len(receiver.times)
    print(f"\n{runtime}: {hits} samples of {numbers[-1]} functions, {named / hits:.1%} named, {bare / hits:.1%} unnamed, {len(wrong)} wrong")
    assert not wrong, (len(wrong), wrong[:3])
    assert named > 0.1 * hits, (named, bare, hits)  # what compiles and collects has samples, too, and some is gone before it is read


HEADLESS = """
import ctypes, threading
def spins():
    while True:
        sum(i * i for i in range(1000))
threading.Thread(target=spins).start()
ctypes.CDLL("libgcc_s.so.1")
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_has_names():
    """Its memory is not under /proc/PID any more, but where its other threads are."""
    program = Process(["/usr/bin/python3", "-c", HEADLESS])
    with Receiver() as receiver, running(program):
        wait_for(lambda: ") Z " in pathlib.Path(f"/proc/{program.pid}/stat").read_text(), "the end of its first thread")
        sender = profsend(receiver, "--pid", program.pid)
        with running(sender):
            started(sender)
            wait_for(lambda: sum(receiver.of(program.pid).values()) >= 1500, "samples")
            assert sender.stop() == 0, sender.log()
        hits = sum(receiver.of(program.pid).values())
        named = sum(n for stack, n in receiver.of(program.pid).items() if "spins" in stack.names)
    assert named >= 0.9 * hits, (named, hits)


# Root first, as tests/runtimes/nested.py has it; what Lua has no name for is "lua".
NESTED = [("<module>", "cpython"), ("outermost", "cpython"), ("called", "cpython"), ("lua", "luajit"), ("middle", "luajit"), ("middle", "cpython"),
          ("called", "cpython"), ("lua", "luajit"), ("innermost", "luajit"), ("innermost", "cpython"), ("spin", "cpython")]


def test_runtimes_that_call_one_another_each_go_on_where_they_were():
    """Not with what the thread is in now: that is told once, where it is."""
    try:
        ctypes.CDLL("libluajit-5.1.so.2")
    except OSError as e:
        pytest.skip(str(e))
    program = Process(["/usr/bin/python3", PROGRAMS / "nested.py", "600"])
    with Receiver(first=2.0) as receiver, running(program):
        busy(program)
        sender = profsend(receiver, "--pid", program.pid)
        with running(sender):
            started(sender)
            wait_for(lambda: sum(hits for stack, hits in receiver.of(program.pid).items() if not stack.first) >= 1000, "samples")
            assert sender.stop() == 0, sender.log()

    def verdict(stack):
        chain = [("lua" if name.startswith("<[string") else name, kind) for name, kind in zip(stack.names, stack.kinds)
                 if kind in ("cpython", "luajit")][::-1]
        # A walk that met code for the first time was ended in user space, which knows of one runtime.
        pythons = [call for call in NESTED if call[1] == "cpython"]
        return chain in (NESTED[:len(chain)], pythons[:len(chain)]), stack.incomplete is None, True
    hits, exact, complete, _, odd = judged(receiver.of(program.pid), verdict)
    say("Python, Lua, Python, Lua, Python", hits, exact, complete, hits, odd)
    assert min(exact, complete) >= nearly_all(0.99, hits), odd[:3]


# A program that exports what one of another runtime does, or of another version.
STRANGER = """
#include <stdint.h>
#define EXPORTED __attribute__((visibility("default")))
#ifdef LATER_PERL
EXPORTED const char *version = "This is perl 5, version 99, subversion 0 (%-p) built for nothing";
EXPORTED uint64_t *PL_op, *PL_curcop, *PL_curstackinfo, *PL_top_env;
EXPORTED unsigned Perl_runops_standard(void) { volatile unsigned x = 0; for (unsigned i = 0; i < 100000; i++) x += i; return x; }
int main(void) { for (;;) Perl_runops_standard(); }
#else
EXPORTED void EXPORTS(void) {}
int main(void) { for (volatile unsigned i = 0;; i++) {} }
#endif
"""


@pytest.mark.parametrize("flag, runtime", [("-DEXPORTS=pypy_main_startup", "PyPy"), ("-DEXPORTS=Py_Main", "CPython"),
                                           ("-DEXPORTS=lua_newstate", "Lua"), ("-DLATER_PERL", "perl")])
def test_a_runtime_that_is_not_known_is_said_once(flag, runtime, tmp_path):
    """For its stacks, whole ones of machine code, do not."""
    (tmp_path / "stranger.c").write_text(STRANGER)
    subprocess.run(["gcc", "-O1", "-rdynamic", flag, tmp_path / "stranger.c", "-o", tmp_path / "stranger"], check=True)
    program = Process([tmp_path / "stranger"])
    with Receiver() as receiver, running(program):
        sender = profsend(receiver, "--pid", program.pid)
        with running(sender):
            started(sender)
            wait_for(lambda: sum(receiver.of(program.pid).values()) >= 1500, "samples")
            assert sender.stop() == 0, sender.log()
            said = [line for line in sender.log().splitlines() if "a runtime is not known" in line and str(tmp_path) in line]
    assert len(said) == 1 and f'runtime="{runtime}" file="{tmp_path}/stranger"' in said[0], sender.log()


# seventy() runs 7 of 10 times, twenty() 2, ten() 1, each as long as the other; by chance, since turns might be as long as what is
# between samples.
SPLIT = {
    "cpython": ("a.py", ["/usr/bin/python3", "{}"], """
def spin(n):
    x = 0
    for i in range(n):
        x = (x * 31 + i) % 1000003
    return x
def seventy(): return spin(2000)
def twenty(): return spin(2000)
def ten(): return spin(2000)
r = 1
while True:
    r = r * 16807 % 2147483647
    seventy() if r % 10 < 7 else twenty() if r % 10 < 9 else ten()
"""),
    "v8js": ("a.js", ["node", "--no-turbo-inlining", "{}"], """
function spin(n) { let x = 0; for (let i = 0; i < n; i++) x = (x * 31 + i) % 1000003; return x; }
function seventy() { return spin(20000); }
function twenty() { return spin(20000); }
function ten() { return spin(20000); }
for (let r = 1;;) { r = r * 16807 % 2147483647; r % 10 < 7 ? seventy() : r % 10 < 9 ? twenty() : ten(); }
"""),
    "ruby": ("a.rb", ["ruby", "{}"], """
def spin(n) = n.times.inject(0) { |x, i| (x * 31 + i) % 1000003 }
def seventy = spin(2000)
def twenty = spin(2000)
def ten = spin(2000)
r = 1
loop { r = r * 16807 % 2147483647; r % 10 < 7 ? seventy : r % 10 < 9 ? twenty : ten }
"""),
    "php": ("a.php", ["php8.2", "{}"], """<?php
function spin($n) { $x = 0; for ($i = 0; $i < $n; $i++) $x = ($x * 31 + $i) % 1000003; return $x; }
function seventy() { return spin(2000); }
function twenty() { return spin(2000); }
function ten() { return spin(2000); }
for ($r = 1;;) { $r = $r * 16807 % 2147483647; if ($r % 10 < 7) seventy(); elseif ($r % 10 < 9) twenty(); else ten(); }
"""),
    "perl": ("a.pl", ["perl", "{}"], """
sub spin { my $x = 0; for (my $i = 0; $i < 2000; $i++) { $x = ($x * 31 + $i) % 1000003 } return $x }
sub seventy { my $x = spin(); return $x }
sub twenty { my $x = spin(); return $x }
sub ten { my $x = spin(); return $x }
my $r = 1;
while (1) { $r = $r * 16807 % 2147483647; $r % 10 < 7 ? seventy() : $r % 10 < 9 ? twenty() : ten() }
"""),
    "luajit": ("a.lua", ["luajit", "{}"], """
local function spin(n) local x = 0 for i = 1, n do x = (x * 31 + i) % 1000003 end return x end
function seventy() local x = spin(20000) return x end
function twenty() local x = spin(20000) return x end
function ten() local x = spin(20000) return x end
local r = 1
while true do r = r * 16807 % 2147483647 if r % 10 < 7 then seventy() elseif r % 10 < 9 then twenty() else ten() end end
"""),
    "jvm": ("A.java", ["java", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,A.spin", "{}"], """
public class A {
    static long spin(int n) { long x = 0; for (int i = 0; i < n; i++) x = (x * 31 + i) % 1000003; return x; }
    static long seventy() { return spin(20000); }
    static long twenty() { return spin(20000); }
    static long ten() { return spin(20000); }
    static long sum;
    public static void main(String[] a) {
        for (long r = 1;;) { r = r * 16807 % 2147483647; sum += r % 10 < 7 ? seventy() : r % 10 < 9 ? twenty() : ten(); }
    }
}
"""),
    "beam": ("a.erl", ["escript", "{}"], """#!/usr/bin/env escript
-module(a).
-mode(compile).
-compile({no_auto_import, []}).
main(_) -> loop(1).
spin(0, X) -> X;
spin(N, X) -> spin(N - 1, (X * 31 + N) rem 1000003).
seventy() -> X = spin(20000, 0), put(x, X).
twenty() -> X = spin(20000, 0), put(x, X).
ten() -> X = spin(20000, 0), put(x, X).
loop(R) ->
    if R rem 10 < 7 -> seventy(); R rem 10 < 9 -> twenty(); true -> ten() end,
    loop(R * 16807 rem 2147483647).
"""),
}
SHARES = {"seventy": 0.7, "twenty": 0.2, "ten": 0.1}


@pytest.mark.parametrize("frequency, hits_wanted", [(997, 500), pytest.param(19, 500, marks=pytest.mark.soak)])
@pytest.mark.parametrize("runtime", SPLIT)
def test_shares_of_time_are_what_they_are(runtime, frequency, hits_wanted, tmp_path):
    """Within five standard deviations of what chance leaves."""
    file, command, source = SPLIT[runtime]
    (tmp_path / file).write_text(source)
    needs(command[0])
    program = Process([argument.format(tmp_path / file) for argument in command])
    with Receiver(first=1.0) as receiver, running(program):
        busy(program, 1.0)
        sender = profsend(receiver, "--pid", program.pid, "--frequency", str(frequency))

        def counted():
            found = dict.fromkeys(SHARES, 0)
            for stack, n in receiver.of(program.pid).items():
                for name, kind in zip(stack.names, stack.kinds):
                    part = re.split(r"[.:#/\\]", name.partition("/")[0])[-1]
                    if kind == runtime and part in SHARES and not stack.first:
                        found[part] += n
                        break
            return found
        with running(sender):
            started(sender)
            wait_for(lambda: sum(counted().values()) >= hits_wanted, "samples", 600)
            assert sender.stop() == 0, sender.log()
        found = counted()
    hits, everything = sum(found.values()), sum(n for stack, n in receiver.of(program.pid).items() if not stack.first)
    print(f"\n{runtime}: {found} of {everything}")
    for name, share in SHARES.items():
        assert abs(found[name] - share * hits) <= 5 * math.sqrt(share * (1 - share) * hits), (name, found)


MANY = 10_000
CLASSES = range(0, MANY, 500)  # the first function of each
MANY_JAVA = "".join(
    f"class M{first} {{ static int call(int n) {{ switch (n) {{ " + "".join(f"case {i}: return function_{i}(); " for i in range(first, first + 500)) +
    "} return 0; } " + "".join(f"static int function_{i}() {{ return Many.spin({i}); }} " for i in range(first, first + 500)) + "}\n"
    for first in CLASSES) + """
public class Many {
    static int spin(int n) { int x = n; for (int i = 0; i < 20000; i++) x = (x * 31 + i) % 1000003; return x; }
    public static void main(String[] a) {
        for (int sum = 0;;) {
            """ + "".join(f"for (int i = {first}; i < {first + 500}; i++) sum += M{first}.call(i); " for first in CLASSES) + """
        }
    }
}
"""
MANY_PYTHON = ("def spin(n):\n    return sum(i * i for i in range(n))\n" +
               "".join(f"def function_{i}():\n    return spin(300)\n" for i in range(MANY)) +
               f"functions = [globals()[f'function_{{i}}'] for i in range({MANY})]\n"
               "while True:\n    for function in functions:\n        function()\n")


def many(runtime, folder):
    if runtime == "java":
        (folder / "Many.java").write_text(MANY_JAVA)
        subprocess.run([needs("javac"), "-d", folder, folder / "Many.java"], check=True)
        return [needs("java"), "-Xmx64m", "-Xint", "-cp", folder, "Many"]
    (folder / "many.py").write_text(MANY_PYTHON)
    return ["/usr/bin/python3", folder / "many.py"]


@pytest.mark.soak
@pytest.mark.parametrize("runtime", ["java", "python"])
def test_all_of_ten_thousand_functions_are_named(runtime, tmp_path):
    program = Process(many(runtime, tmp_path))
    names = set()

    def seen(receiver):
        names.update(name for stack in receiver.of(program.pid) for name in stack.names if "function_" in name)
        return len(names)
    with Receiver(first=2.0) as receiver, running(program):
        busy(program, 1.0)
        sender = profsend(receiver, "--pid", program.pid)
        with running(sender):
            started(sender)
            wait_for(lambda: seen(receiver) >= 0.995 * MANY, "functions", 600)
            assert sender.stop() == 0, sender.log()
            log = sender.log()
    stacks = {s: n for s, n in receiver.of(program.pid).items() if not s.first and any(k in ("jvm", "cpython") for k in s.kinds)}
    bare = sum(n for s, n in stacks.items() if any(name.startswith("0x") and kind in ("jvm", "cpython") for name, kind in zip(s.names, s.kinds)))
    hits = sum(stacks.values())
    print(f"\n{runtime}: {len(names)} functions in {hits} samples, {bare} unnamed")
    assert bare <= 0.001 * hits and "lost=0 " in log and "dropped=0 " in log, (bare, hits, log[-2000:])


@pytest.mark.soak
def test_ten_processes_of_ten_thousand_functions_cost_little_memory(tmp_path):
    """25 MB and 100 bytes a function, however long: at a rate by which most of them are seen."""
    command = many("python", tmp_path)
    programs = [Process(command) for _ in range(10)]
    with Receiver() as receiver, running(*programs):
        for program in programs:
            busy(program)
        sender = profsend(receiver, *(argument for program in programs for argument in ("--include", f"pid={program.pid}")))
        with running(sender):
            started(sender)
            end = time.monotonic() + float(os.environ.get("PG_SOAK_SECONDS", 300))
            most = 0
            while time.monotonic() < end:
                most = max(most, sender.rss_kib("VmRSS"))
                time.sleep(1)
            functions = sum(len({name for s in receiver.of(p.pid) for name in s.names if name.startswith("function_")}) for p in programs)
            assert sender.stop() == 0, sender.log()
    print(f"\n{functions} functions, {most} KiB at most")
    assert most <= 25 * 1024 + 0.1 * functions, (functions, most)
