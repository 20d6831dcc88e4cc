"""Python programs whose stacks are known (tests/runtimes/chains.py), seen by profsend: attached to while they run, and begun while it
samples; by the machine's own CPython and, with --soak, by each version that is to be had here.
"""
import ast
import collections
import os
import pathlib
import re
import subprocess
import sys

import pytest
from profiles import Receiver, are_named, beside_a_liar, busy, judged, names_of, nearly_all, profsend, say, seen, seen_from_its_begin, started
from programs import BUILD, ROOT, Process, running, wait_for

PROGRAM = ROOT / "tests/runtimes/chains.py"
sys.path.insert(0, str(PROGRAM.parent))
import chains  # noqa: E402

OWN = pathlib.Path("/usr/bin/python3").resolve()
LIBRARIES = [BUILD / f"{folder}/libpg_{folder.replace('/', '_')}.a"
             for folder in ("sender/runtimes/cpython", "sender/symbolize/elf", "sender/foreign", "proto/base")]
LATE = 0.999  # of the samples of an interpreter that runs already are exact, complete and named
FIRST = 1.0  # seconds within which its place must be known, on a machine that eight others use
AFTER = 0.99  # of one that begins
# What is below `run`, in the main thread or in others.
ROOTS = {("<module>",), ("Thread._bootstrap", "Thread._bootstrap_inner", "Thread.run"), ("_bootstrap", "_bootstrap_inner", "run")}


def versions():
    """The machine's own; with --soak one of each version."""
    yield pytest.param("own", id=OWN.name)
    for version in range(8, 15):
        yield pytest.param(version, id=f"3.{version}", marks=pytest.mark.soak)


def interpreter(version):
    """Its path; the version's newest of pyenv, or as PG_PYTHONS names it."""
    if version == "own":
        return OWN
    found = [pathlib.Path(p) for p in os.environ.get("PG_PYTHONS", "").split() if f"3.{version}" in p]
    found += [f / "bin/python3" for f in sorted(pathlib.Path.home().glob(f".pyenv/versions/3.{version}.*"), reverse=True)]
    return next((p for p in found if p.exists()), None) or pytest.skip(f"no CPython 3.{version} here (pyenv, or PG_PYTHONS)")


def minor(python):
    return int(subprocess.run([python, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True, check=True).stdout)


def without_a_line(python):
    """Functions of the program with instructions to which this version gives no line (PEP 626: such a frame's f_lineno is None)."""
    said = subprocess.run([python, PROGRAM.parent / "dump_lines.py", PROGRAM], capture_output=True, text=True, check=True).stdout
    return set(said.split())


def possible(qualified, is_whole):
    """Every stack there can be from `work` on, root first; those that end where the time goes alone, or also what they come by."""
    found = set()
    for chain in chains.CHAINS:
        chain = ["work"] + [name if qualified else name.rpartition(".")[2] for name in chain]
        found |= {tuple(chain[:n]) for n in range(len(chain) if is_whole else 0, len(chain) + 1)}
    return found


def is_exact(names, chains_possible, qualified):
    for root in ROOTS:
        if names[:len(root)] == root and names[len(root):len(root) + 1] == ("run",):
            return names[len(root) + 1:] in chains_possible
    return False


def judge(stacks, python_minor, is_whole=False):
    """judged(), of a program at work."""
    qualified = python_minor >= 11
    chains_possible = possible(qualified, is_whole)

    def verdict(stack):
        names = names_of(stack, "cpython")
        return is_exact(names, chains_possible, qualified), stack.incomplete is None, are_named(names)
    return judged(stacks, verdict)


@pytest.mark.parametrize("version", versions())
@pytest.mark.parametrize("threads", [(), ("3",)], ids=["main", "threads"])
def test_an_interpreter_that_runs_is_seen_exactly(version, threads):
    python = interpreter(version)
    python_minor = minor(python)
    program = Process([python, PROGRAM, "60", *threads])
    with Receiver(first=FIRST) as receiver, running(program):
        busy(program)
        sender = profsend(receiver, "--pid", program.pid)
        with running(sender):
            started(sender)
            wait_for(lambda: sum(receiver.of(program.pid).values()) >= 1500, "samples")
            assert sender.stop() == 0, sender.log()
        hits, exact, complete, named, odd = judge(receiver.of(program.pid), python_minor, is_whole=bool(threads))
    text = say(python, hits, exact, complete, named, odd)
    assert not receiver.errors, receiver.errors[0]
    assert min(exact, complete, named) >= nearly_all(LATE, hits), (text, odd[:3])
    functions = {name.rpartition(".")[2] for chain in chains.CHAINS for name in chain if "<" not in name} | {"work", "run"}
    spans = {}
    for node in ast.walk(ast.parse(PROGRAM.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min(part.lineno for part in [node, *node.decorator_list])  # co_firstlineno, that of a call that has just begun
            spans.setdefault(node.name, []).append(range(first, node.end_lineno + 1))
    for name in without_a_line(python):
        spans.setdefault(name, []).append(range(1))
    for (function, kind), places in receiver.places.items():
        short = function.rpartition(".")[2]
        if kind == "cpython" and short in functions and function != "Thread.run" and (threads == () or short != "run"):
            assert all(file == str(PROGRAM) and any(line in span for span in spans[short]) for file, line in places), (function, places)
    assert len(receiver.places["spin", "cpython"]) >= 2  # lines, not functions


@pytest.mark.parametrize("version", [12, *(pytest.param(later, marks=pytest.mark.soak) for later in (13, 14))])
def test_what_is_run_by_trampolines_is_seen_exactly(version):
    """As perf wants it: the frame of each function is run by code of its own, which is in no file."""
    program = Process([interpreter(version), "-X", "perf", PROGRAM, "60"])
    map_of_perf = pathlib.Path(f"/tmp/perf-{program.pid}.map")
    try:
        stacks = seen(program, 800, first=FIRST).of(program.pid)
        assert map_of_perf.exists()  # or there were no trampolines
    finally:
        map_of_perf.unlink(missing_ok=True)
    hits, exact, complete, named, odd = judge(stacks, version)
    text = say(f"3.{version} -X perf", hits, exact, complete, named, odd)
    assert min(exact, complete, named) >= nearly_all(LATE, hits), (text, odd[:3])


@pytest.mark.soak
def test_what_the_jit_has_made_has_its_callers():
    """It has neither frames nor tables, so a stack through it is a guess at best, and says so."""
    python = interpreter(14)
    if subprocess.run(["env", "PYTHON_JIT=1", python, "-c", "import sys; sys.exit(not sys._jit.is_enabled())"]).returncode:
        pytest.skip(f"{python} is built without the JIT")
    program = Process(["env", "PYTHON_JIT=1", python, PROGRAM, "60"])
    stacks = seen(program, 1000, first=FIRST).of(program.pid)
    hits, exact, complete, named, odd = judge(stacks, 14)
    text = say(f"{python}, JIT", hits, exact, complete, named, odd)
    assert min(exact, named) >= nearly_all(LATE, hits), (text, odd[:3])
    assert sum(n for stack, n in stacks.items() if stack.incomplete == "cut") <= hits - nearly_all(LATE, hits), text
    assert complete < hits  # or none of it was compiled


@pytest.mark.parametrize("version", versions())
def test_an_interpreter_that_begins_is_seen_exactly(version):
    python = interpreter(version)
    python_minor = minor(python)
    stacks = seen_from_its_begin(pathlib.Path(python).resolve().name, lambda: Process([python, PROGRAM, "2"]))
    # Until `run` has begun it is the interpreter that begins, and after it that it ends: only what goes on in modules is told.
    at_work = {s: n for s, n in stacks.items() if "run" in s.names or not s.names[-1].startswith("_start")}
    hits, exact, complete, named, odd = judge(at_work, python_minor)
    text = say(f"{python}, of {sum(stacks.values())}", hits, exact, complete, named, odd)
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), (text, odd[:3])


@pytest.mark.parametrize("version", versions())
def test_lines_are_those_that_python_says(version, tmp_path):
    python = interpreter(version)
    program = tmp_path / "lines"
    subprocess.run(["gcc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", f"-I{ROOT}", PROGRAM.parent / "lines.c", *LIBRARIES, "-o", program,
                    "-lmd", "-lz", "-lzstd", "-llzma"], check=True)
    dumped = subprocess.run([python, PROGRAM.parent / "dump_lines.py"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(dumped) > 500
    asked, said = zip(*(line.split(" |") for line in dumped))
    found = subprocess.run([program], input="\n".join(asked) + "\n", capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(found) == len(said)
    for line, want, got in zip(dumped, said, found):
        assert want.split() == got.split(), line


SECOND = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
def first():
    interpreters.run_string(interpreters.create(), '''
def spin():
    return sum(i * i for i in range(3000))
def inner():
    return spin()
while True:
    inner()
''')
first()
"""


@pytest.mark.parametrize("version", versions())
def test_a_second_interpreter_is_told_by_what_runs_there(version):
    program = Process([interpreter(version), "-c", SECOND])
    stacks = seen(program, 800, first=FIRST).of(program.pid)
    names = {stack: names_of(stack, "cpython") for stack in stacks if not stack.first}
    hits = sum(stacks[stack] for stack in names)
    right = sum(stacks[stack] for stack, of in names.items() if of[:1] == ("<module>",) and of[1:2] in ((), ("inner",)))
    assert right >= nearly_all(LATE, hits), (right, hits, set(names.values()))


# In a thread that has not made the interpreter, while another one waits in the first; and likewise, but without the lock.
BESIDE = """
import hashlib, threading
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
made = interpreters.create()
def second():
    interpreters.run_string(made, '''
import hashlib
data = bytes(1 << 20)
def digest():
    hashlib.sha1(data)
def inner():
    sum(i * i for i in range(30000))
    digest()
while True:
    inner()
''')
threading.Thread(target=second).start()
data = bytes(1 << 20)
def mine():
    hashlib.sha1(data)
while True:
    mine()
"""


@pytest.mark.parametrize("version", versions())
def test_threads_in_two_interpreters_are_told_each_by_its_own(version):
    python = interpreter(version)
    if minor(python) < 10:
        pytest.skip("what a thread in a second interpreter does is known from 3.10 on")
    program = Process([python, "-c", BESIDE])
    stacks = {s: n for s, n in seen(program, 1500, first=FIRST).of(program.pid).items() if not s.first}
    told = collections.Counter()
    for stack, n in stacks.items():
        chain, is_first = names_of(stack, "cpython"), stack.names[-1] == "_start"
        told[is_first, chain[:1] == ("<module>",) and chain[1:2] in (((), ("mine",)) if is_first else ((), ("inner",)))] += n
    right, hits = told[True, True] + told[False, True], sum(told.values())
    assert right >= nearly_all(LATE, hits), (told, [(n, s.names) for s, n in stacks.items()][:5])
    assert min(told[True, True], told[False, True]) > 0.1 * hits, told


UNTOLD = """
import ctypes, mmap
# push %rbp; mov $1, %ebp; mov $100000000, %ecx; dec %ecx; jnz -4; pop %rbp; ret
SPINS = bytes.fromhex("55bd01000000b900e1f505ffc975fc5dc3")
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(SPINS.ljust(64) + bytes.fromhex("bd01000000ebfe"))  # without an end
at = ctypes.addressof(ctypes.c_char.from_buffer(code))
thread = ctypes.c_ulong()
ctypes.CDLL(None).pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(at + 64), None)
spins = ctypes.CFUNCTYPE(None)(at)
def inner():
    spins()
def outer(_):
    inner()
while True:
    list(map(outer, [1]))
"""


def test_what_has_no_way_on_has_its_functions():
    """Of code that a library has made nobody knows where it was called from; but what Python functions its thread is in is known."""
    program = Process([OWN, "-c", UNTOLD])
    stacks = seen(program, 1500, first=FIRST).of(program.pid)
    mine, others = (sum(n for s, n in stacks.items() if s.incomplete == "cut" and names_of(s, "cpython") == names)
                    for names in (("<module>", "outer", "inner"), ()))
    hits = sum(n for s, n in stacks.items() if not s.first)
    assert mine + others >= nearly_all(0.98, hits) and min(mine, others) > 0.3 * hits, (mine, others, hits, list(stacks.items())[:5])


def test_ten_thousand_functions_cost_no_sample(tmp_path):
    source = tmp_path / "many.py"
    source.write_text("def spin(n):\n    return sum(i * i for i in range(n))\n" +
                      "".join(f"def function_{i}():\n    return spin(300)\n" for i in range(10000)) +
                      "import time\nfunctions = [globals()[f'function_{i}'] for i in range(10000)]\n"
                      "while True:\n    for function in functions:\n        function()\n")
    program = Process([OWN, source])
    with Receiver(first=FIRST) as receiver, running(program):
        busy(program)
        sender = profsend(receiver, "--pid", program.pid)
        with running(sender):
            started(sender)
            seen = wait_for(lambda: (n := sum(receiver.of(program.pid).values())) >= 3000 and n, "samples")
            assert sender.stop() == 0, sender.log()
            log = sender.log()
        stacks = {s: n for s, n in receiver.of(program.pid).items() if not s.first}
    hits = sum(stacks.values())
    named = sum(n for s, n in stacks.items() if any(re.fullmatch(r"function_\d+|<module>", name) for name in s.names))
    distinct = {name for s in stacks for name in s.names if name.startswith("function_")}
    assert len(distinct) > seen / 4, len(distinct)
    odd = [(n, s.incomplete, s.names) for s, n in stacks.items() if not any(re.fullmatch(r"function_\d+|<module>", name) for name in s.names)]
    assert named >= nearly_all(LATE, hits), (named, hits, odd[:3])
    assert "lost=0 " in log and "dropped=0 " in log, log


def test_a_resource_says_which_python_it_is():
    program = Process([OWN, PROGRAM, "60"])
    with Receiver() as receiver, running(program):
        busy(program)
        sender = profsend(receiver, "--pid", program.pid)
        with running(sender):
            started(sender)
            wait_for(lambda: receiver.resources.get(program.pid, {}).get("process.runtime.name"), "its runtime")
            assert sender.stop() == 0, sender.log()
    version = subprocess.run([OWN, "-c", "import sys; print('.'.join(map(str, sys.version_info[:3])))"], capture_output=True, text=True)
    said = receiver.resources[program.pid]
    assert (said["process.runtime.name"], said["process.runtime.version"]) == ("cpython", version.stdout.strip())


def test_one_that_lies_harms_nobody(tmp_path):
    lies, stacks = beside_a_liar(tmp_path, PROGRAM.parent / "liar.c", lambda: Process([OWN, PROGRAM, "60"]), FIRST,
                                 lambda *both: min(sum(stacks.values()) for stacks in both) >= 150)
    hits, exact, complete, named, odd = judge(stacks, minor(OWN))
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), odd[:3]
    assert any("cpython" in stack.kinds for stack in lies)


def test_a_program_with_libpython_in_it(tmp_path):
    """Frames of the program, of libpython and of Python, one in the other."""
    for config in [OWN.parent / f"{OWN.name}-config", *sorted(pathlib.Path.home().glob(".pyenv/versions/3.11*/bin/python3-config"))]:
        if not config.exists():
            continue
        flags = subprocess.run([config, "--includes", "--ldflags", "--embed"], capture_output=True, text=True).stdout.split()
        folders = [flag[2:] for flag in flags if flag.startswith("-L")]
        built = subprocess.run(["gcc", "-O2", PROGRAM.parent / "embedding.c", "-o", tmp_path / "embedding", *flags,
                                *[f"-Wl,-rpath,{folder}" for folder in folders]], capture_output=True, text=True)
        if built.returncode == 0:
            break
    else:
        pytest.skip("no libpython to link with here")
    program = Process([tmp_path / "embedding"])
    stacks = {s: n for s, n in seen(program, 300, first=FIRST).of(program.pid).items() if not s.first}
    good = sum(n for s, n in stacks.items() if [name for name in s.names if name in ("embedded", "called_by_c", "main")] in
               (["embedded", "called_by_c", "main"], ["called_by_c", "main"]))
    with_python = sum(n for s, n in stacks.items() if "embedded" in s.names)
    assert good >= nearly_all(LATE, sum(stacks.values())) and with_python > 0.9 * good, stacks


# Deeper than a record is long, and in much code that no walk has met before.
DEEP = """
import hashlib, json, random, re, sys, threading, zlib
sys.setrecursionlimit(5000)
threading.stack_size(64 << 20)
data = bytes(range(256)) * 20
works = [lambda: json.loads(json.dumps([{"a": i} for i in range(200)])), lambda: re.findall(r"(a|b)+c?", "abcab" * 200),
         lambda: zlib.compress(data), lambda: zlib.decompress(zlib.compress(data)), lambda: hashlib.sha256(data * 20).digest(),
         lambda: hashlib.md5(data * 20).digest(), lambda: sorted(random.random() for _ in range(500)), lambda: str(3 ** 3000),
         lambda: [repr(i / 7) for i in range(300)], lambda: data.decode("latin-1").encode("utf-16"), lambda: "%s" % {i: {i} for i in range(300)},
         lambda: data.replace(b"a", b"bc").split(b"b"), lambda: eval("1 + 2 * [i for i in range(30)][3]"), lambda: int("7" * 900),
         lambda: [complex(i, i) ** 2 for i in range(300)], lambda: list(zip(*[range(100)] * 5)), lambda: hashlib.blake2b(data * 20).digest()]
def down(n):
    if n:
        return down(n - 1)
    while True:
        for work in works:
            work()
thread = threading.Thread(target=down, args=(1500,))
thread.start()
"""


def test_deep_recursion_cuts_nobodys_stacks(tmp_path):
    source = tmp_path / "deep.py"
    source.write_text(DEEP)
    deep, honest = Process([OWN, source]), Process([OWN, PROGRAM, "60"])
    with Receiver(first=FIRST) as receiver, running(deep), running(honest):
        busy(deep)
        busy(honest)
        sender = profsend(receiver, "--include", f"pid={deep.pid}", "--include", f"pid={honest.pid}")
        with running(sender):
            started(sender)
            wait_for(lambda: sum(receiver.of(deep.pid).values()) >= 300 and sum(receiver.of(honest.pid).values()) >= 2000, "samples of both")
            assert sender.stop() == 0, sender.log()
    hits, exact, complete, named, odd = judge(receiver.of(honest.pid), minor(OWN))
    assert min(exact, complete, named) >= nearly_all(LATE, hits), (hits, exact, complete, named, odd[:3])


def test_children_are_seen_from_their_first_sample_on(tmp_path):
    """By fork: a child of multiprocessing often ends before it was sampled a second time."""
    source = tmp_path / "forks.py"
    source.write_text("import os, time\ndef spin(until):\n    while time.process_time() < until:\n        sum(range(500))\n"
                      "def child():\n    print(os.getpid(), flush=True)\n    spin(time.process_time() + 0.05)\n    os._exit(0)\n"
                      "while True:\n    os.waitpid(os.fork() or child(), 0)\n")
    program = Process([OWN, source])
    with Receiver() as receiver, running(program):
        wait_for(lambda: program.log().count("\n") >= 3, "children")
        sender = profsend(receiver, "--include", f"executable={OWN.name}", "--frequency", "97")
        with running(sender):
            started(sender)
            before = program.log().split()  # these began before it sampled

            def spinning():
                children = set(map(int, program.log().split()[len(before):]))
                return {s: n for s, n in list(receiver.stacks.items()) if s.pid in children and {"spin", "PyEval_EvalCode"} & set(s.names)}
            wait_for(lambda: sum(spinning().values()) >= 150, "samples of children")
            assert sender.stop() == 0, sender.log()
        hits = sum(spinning().values())
        bare = {s: n for s, n in spinning().items() if "cpython" not in s.kinds}
    assert sum(bare.values()) <= 0.03 * hits, (hits, bare)  # the first instructions of a call, and its last


@pytest.mark.parametrize("version", versions())
def test_code_that_is_gone_soon_is_named_and_not_by_what_was_there_before(version, tmp_path):
    """Each function is made for one call, with a name of its own, often in the memory of the one before."""
    source = tmp_path / "passing.py"
    source.write_text("import time\ndef odd(until):\n    while time.process_time() < until:\n        sum(range(500))\n"
                      "def even(until):\n    while time.process_time() < until:\n        sum(range(500))\nn = 10000\n"
                      "while True:\n    n += 1\n    names = {'below': odd if n % 2 else even}\n"
                      "    exec(f'def passing_{n}(until):\\n    below(until)\\n', names)\n"
                      "    names[f'passing_{n}'](time.process_time() + 0.05)\n    names.clear()\n")
    program = Process([interpreter(version), source])
    with Receiver(first=FIRST) as receiver, running(program):
        busy(program)
        sender = profsend(receiver, "--pid", program.pid, "--frequency", "97")
        with running(sender):
            started(sender)
            wait_for(lambda: sum(receiver.of(program.pid).values()) >= 200, "samples")
            assert sender.stop() == 0, sender.log()
        stacks = {s: n for s, n in receiver.of(program.pid).items() if not s.first}
    hits = named = wrong = 0
    for stack, n in stacks.items():
        below = {"odd", "even"} & set(stack.names)
        above = [int(name[8:]) for name in stack.names if name.startswith("passing_")]
        hits += n * bool(below)
        named += n * bool(below and above)
        wrong += n * bool(below and above and below != {"odd" if above[0] % 2 else "even"})
    print(f"\nnamed {named}, wrong {wrong} of {hits}")
    assert wrong == 0
    assert named >= 0.6 * hits, (named, hits)
