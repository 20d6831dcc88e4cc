"""PHP programs whose stacks are known (tests/runtimes/chains.php), seen by profsend: attached to while they run, and begun while it
samples; as they are interpreted, and compiled by opcache.
"""
import collections
import re
import shutil
import subprocess
import urllib.request

import pytest
from profiles import Receiver, are_named, beside_a_liar, judged, names_of, nearly_all, profsend, say, seen, seen_from_its_begin, started
from programs import ROOT, Process, free_port, running, wait_for

PROGRAM = ROOT / "tests/runtimes/chains.php"
OWN = shutil.which("php8.2")
LATE = 0.999  # of the samples of a program that runs already are exact, complete and named
FIRST = 1.0  # seconds within which its place must be known, on a machine that eight others use
CALLED = 0.9995  # of one whose functions C calls
AFTER = 0.99  # of one that begins
JIT = ["-d", "opcache.enable_cli=1", "-d", "opcache.jit_buffer_size=16M", "-d"]
# PCRE compiles patterns to code that nobody knows a way out of.
PCRE = ["-d", "pcre.jit=0"]
MODES = {"interpreted": ["-d", "opcache.enable_cli=0"], "opcache": ["-d", "opcache.enable_cli=1"],
         "tracing": [*JIT, "opcache.jit=tracing"], "functions": [*JIT, "opcache.jit=function"]}

# Each chain of functions there can be from `work` on, root first, without the namespace; what is a prefix of one can be seen, too, but
# hardly ever below `slow`.
CHAINS = [
    ["objects", "Worker::method"] + ["recurse"] * 9 + ["spin"],
    ["objects", "Worker::__construct", "Base::__construct", "spin"],
    ["objects", "Worker::__construct", "spin"],
    ["objects", "Base::shared", "spin"],
    ["objects", "Base::__get", "spin"],
    ["objects", "Base::__call", "spin"],
    ["objects", "Base::absent"],  # before it is __call
    ["objects", "Base::__callStatic", "spin"],
    ["objects", "Worker::gone"],
    ["objects", "Base::__toString", "spin"],
    ["objects", "Base::__destruct", "spin"],
    ["Base::__destruct", "spin"],  # of a local variable: its function has been left
    ["Worker::make", "spin"],
    ["sorted", "usort", "Sorter::compare", "spin"],
    ["sorted", "range"],
    ["mapped", "array_map", "{closure}", "spin"],
    ["replaced", "preg_replace_callback", "replacement", "spin"],
    ["native", "str_repeat"],
    ["native", "explode"],
    ["native", "count"],
    ["consume", "outer", "middle", "inner", "spin"],
    ["consume", "outer", "middle", "spin"],
    ["catching", "raising", "spin"],
    ["catching", "raising", "Exception::__construct"],
    ["catching", "spin"],
    ["evaluated", "eval()", "spin"],
    ["included", str(PROGRAM.parent / "included.php"), "spin"],
    ["included", "include", "spin"],  # one that is not there any more, and its name with it
    ["fiber", "Fiber::__construct"],
    ["fiber", "Fiber::start", "{closure}", "spin"],
    ["fiber", "Fiber::start", "{closure}", "Fiber::suspend"],
    ["fiber", "Fiber::resume", "{closure}", "spin"],
    ["fiber", "Fiber::resume", "{closure}", "Fiber::suspend"],
    ["bound", "Closure::fromCallable"],
    ["bound", "Worker::make", "spin"],
    ["Größe", "spin"],
    ["anonymous", "class@anonymous::run", "spin"],
]
WHOLE = {("work", *chain) for chain in CHAINS}
POSSIBLE = {whole[:n] for whole in WHOLE for n in range(len(whole) + 1)}


def needs_php():
    return OWN or pytest.skip("no PHP here (php8.2-cli and php8.2-opcache)")


def is_exact(names, is_in_c):
    if names[:2] != ("{main}", "run"):
        return names == ("{main}",)
    if names[2:3] == ("slow",):  # `spin` calls nothing
        return names[3:] in (POSSIBLE if is_in_c else WHOLE)
    return names[2:] in POSSIBLE or names[2:] == ("hrtime",)


def judge(stacks):
    """judged(), of a program at work."""
    def verdict(stack):
        names = tuple(name.replace("Chains\\", "") for name in names_of(stack, "php"))
        return is_exact(names, stack.kinds[0] != "php"), stack.incomplete is None, are_named(names)
    return judged(stacks, verdict)


def lines_of(program):
    """The lines of each function, by its name; of each, if there are some."""
    spans, lines = {}, program.read_text().splitlines()
    for first, line in enumerate(lines, 1):
        if found := re.match(r"( *)(?:public |static |function )*function (\w+)", line):
            last = next(n for n in range(first, len(lines) + 1) if lines[n - 1].startswith(found[1] + "}"))
            spans.setdefault(found[2], []).append(range(first, last + 1))
    return spans


@pytest.mark.parametrize("mode", [pytest.param(mode, marks=() if mode in ("interpreted", "tracing") else pytest.mark.soak) for mode in MODES])
def test_a_program_that_runs_is_seen_exactly(mode):
    program = Process([needs_php(), *PCRE, *MODES[mode], PROGRAM, "60"])
    receiver = seen(program, 1500, first=FIRST)
    hits, exact, complete, named, odd = judge(receiver.of(program.pid))
    text = say(mode, hits, exact, complete, named, odd)
    assert not receiver.errors, receiver.errors[0]
    assert min(exact, complete, named) >= nearly_all(LATE, hits), (text, odd[:3])
    spans = lines_of(PROGRAM)
    for (name, kind), places in receiver.places.items():
        short = re.split(r"\\|::", name)[-1]
        if kind == "php" and short in spans and ("Chains" in name or "class@" in name):
            assert all(file == str(PROGRAM) and any(line in span for span in spans[short]) for file, line in places), (name, places)
    if "jit" not in " ".join(MODES[mode]):  # compiled code says where it is only before it calls what may ask
        assert len(receiver.places["Chains\\spin", "php"]) >= 2
    version = subprocess.run([OWN, "-n", "-r", "echo PHP_VERSION;"], capture_output=True, text=True, check=True)
    said = receiver.resources[program.pid]
    assert (said["process.runtime.name"], said["process.runtime.version"]) == ("php", version.stdout)


def test_a_program_that_begins_is_seen_exactly():
    stacks = seen_from_its_begin("php8.2", lambda: Process([needs_php(), *PCRE, PROGRAM, "2"]))
    # Until `run` has begun it is PHP that begins, and after it that it ends.
    at_work = {s: n for s, n in stacks.items() if "Chains\\run" in s.names}
    hits, exact, complete, named, odd = judge(at_work)
    text = say(f"of {sum(stacks.values())}", hits, exact, complete, named, odd)
    assert hits > 0.8 * sum(stacks.values()), text
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), (text, odd[:3])


# Fibers that do little else than begin, go to another one and end.
FIBERS = """<?php
function spin($n) { $x = 0; for ($i = 0; $i < $n; $i++) { $x += $i * $i % 7; } return $x; }
function leaf() { spin(20); Fiber::suspend(); spin(20); }
function turn($fibers) { foreach ($fibers as $fiber) { $fiber->resume(); } }
function begin() { for ($i = 0; $i < 20; $i++) { $fiber = new Fiber(leaf(...)); $fiber->start(); $all[] = $fiber; } return $all; }
for (;;) { turn(begin()); }
"""


def test_fibers_are_seen_whole_whatever_they_do(tmp_path):
    (tmp_path / "fibers.php").write_text(FIBERS)
    program = Process([needs_php(), *PCRE, tmp_path / "fibers.php"])
    stacks = {s: n for s, n in seen(program, 2000, first=FIRST).of(program.pid).items() if not s.first}
    hits = sum(stacks.values())
    odd = [(n, s.incomplete, s.names) for s, n in stacks.items() if s.incomplete]
    assert sum(n for n, *_ in odd) <= hits - nearly_all(LATE, hits), odd[:5]
    # One that is being left has been taken from the list of who has resumed it.
    switching = [s.names for s in stacks if s.names[0] == "jump_fcontext" and "Fiber::suspend" not in s.names]
    assert all(names[-1] in ("_start", "{main}", "make_fcontext") for names in switching), switching[:5]
    assert any({"turn", "begin"} & set(names) for names in switching)


# C that PHP calls by an extension in a file of its own, and that calls PHP: much of the time goes into the calls.
SORTED = r"""<?php
$c = FFI::cdef("void qsort(void *, size_t, size_t, int (*)(const void *, const void *));", "libc.so.6");
function spin($n) { for ($x = 0; $x < $n; $x++); return $x; }
function sorts($c) {
    $of = FFI::new("int[64]");
    for ($i = 0; $i < 64; $i++) $of[$i] = $i * 7919 % 64;
    $c->qsort(FFI::addr($of[0]), 64, 4, function ($a, $b) { return spin(20) - FFI::cast("int *", $b)[0]; });
}
for (;;) sorts($c);
"""


def test_what_c_calls_by_ffi_has_its_callers(tmp_path):
    if "FFI" not in subprocess.run([needs_php(), "-m"], capture_output=True, text=True, check=True).stdout.split():
        pytest.skip("PHP here has no FFI")
    (tmp_path / "sorted.php").write_text(SORTED)
    program = Process([needs_php(), "-d", "ffi.enable=1", tmp_path / "sorted.php"])

    def verdict(stack):
        chain = ">".join(names_of(stack, "php"))
        is_exact = re.fullmatch(r"{main}(>sorts(>FFI::(new|addr)|>qsort(>{closure}(>spin|>FFI::cast)?)?)?)?", chain)
        return is_exact, stack.incomplete is None, are_named(names_of(stack, "php"))
    hits, exact, complete, named, odd = judged(seen(program, 3000, first=FIRST).of(program.pid), verdict)
    text = say("called by FFI", hits, exact, complete, named, odd)
    assert min(exact, complete, named) >= nearly_all(CALLED, hits), (text, odd[:3])


# Likewise, by a library that nobody has seen before, again and again: who walks comes to the loop in user space.
FRESH = """<?php
function runs($c) { $c->calls(20000, function ($i) { return $i; }); }
function fresh($name) { copy(__DIR__ . "/calls.so", $name); return FFI::cdef("void calls(int, int (*)(int));", $name); }
for ($n = 0;; $n++) runs(fresh(__DIR__ . "/calls-$n.so"));
"""
CALLS = "void calls(int n, int (*f)(int)) { for (volatile int i = 0; i < n; i++) f(i); }"


def test_what_a_library_calls_has_its_callers_before_its_rows_are_there(tmp_path):
    if "FFI" not in subprocess.run([needs_php(), "-m"], capture_output=True, text=True, check=True).stdout.split():
        pytest.skip("PHP here has no FFI")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", tmp_path / "calls.so"], input=CALLS, text=True, check=True)
    (tmp_path / "fresh.php").write_text(FRESH)
    program = Process([needs_php(), "-d", "ffi.enable=1", tmp_path / "fresh.php"])

    def verdict(stack):
        chain = ">".join(names_of(stack, "php"))
        is_exact = re.fullmatch(r"{main}(>fresh(>copy|>FFI::cdef)?|>runs(>FFI::new|>calls(>{closure})?)?)?", chain)
        return is_exact, True, are_named(names_of(stack, "php"))  # a library may be gone before its rows are read
    hits, exact, complete, named, odd = judged(seen(program, 3000, first=FIRST).of(program.pid), verdict)
    text = say("called by fresh libraries", hits, exact, complete, named, odd)
    assert min(exact, named) >= nearly_all(CALLED, hits), (text, odd[:3])


# A child runs what its parent has had compiled; of what opcache keeps it has no page but those that it has looked at itself.
FORKED = """<?php
function spin($n) { for ($x = 0, $i = 0; $i < $n; $i++) $x += $i * $i % 7; return $x; }
function mapped() { return array_map(function ($n) { return spin($n); }, [2000]); }
mapped();
if ($child = pcntl_fork()) pcntl_waitpid($child, $status);
else for ($until = hrtime(true) + 5e9; hrtime(true) < $until;) mapped();
"""


def test_a_worker_s_functions_have_names_that_only_its_parent_has_read(tmp_path):
    (tmp_path / "forked.php").write_text(FORKED)
    chains = collections.Counter()
    with Receiver() as receiver:
        sender = profsend(receiver, "--include", "executable=php8.2")
        with running(sender):
            started(sender)
            with running(Process([needs_php(), *MODES["opcache"], tmp_path / "forked.php"])) as program:
                assert program.wait() == 0
            assert sender.stop() == 0, sender.log()
    for stack, n in receiver.stacks.items():
        if "spin" in stack.names and stack.pid != program.pid:
            chains[names_of(stack, "php")] += n
    right = chains["{main}", "mapped", "array_map", "{closure}", "spin"]
    assert right >= nearly_all(AFTER, sum(chains.values())) and right > 200, chains


MATCHES = r"""<?php
function matched($text) { return preg_match('/(a+)+[bc]*(d|e)+x$/', $text); }
function run() { for ($text = str_repeat("a", 18) . "bx";;) matched($text); }
run();
"""


def test_patterns_that_are_compiled_have_their_functions(tmp_path):
    """Not even a frame pointer leads out of PCRE's code; but what PHP is in is known."""
    (tmp_path / "matches.php").write_text(MATCHES)
    program = Process([needs_php(), "-d", "pcre.jit=1", tmp_path / "matches.php"])
    stacks = {s: n for s, n in seen(program, 1000, first=FIRST).of(program.pid).items() if not s.first}
    cut = sum(n for s, n in stacks.items() if s.incomplete)
    whole = sum(n for s, n in stacks.items() if s.incomplete and names_of(s, "php") == ("{main}", "run", "matched", "preg_match"))
    assert cut > 0.3 * sum(stacks.values()), (cut, sum(stacks.values()))
    assert whole >= nearly_all(LATE, cut), (whole, cut, [s for s in stacks if s.incomplete][:5])


def test_one_that_lies_harms_nobody(tmp_path):
    command = [needs_php(), *PCRE, PROGRAM, "60"]
    lies, stacks = beside_a_liar(tmp_path, PROGRAM.parent / "php_liar.c", lambda: Process(command), FIRST,
                                 lambda *both: min(sum(stacks.values()) for stacks in both) >= 150)
    hits, exact, complete, named, odd = judge(stacks)
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), odd[:3]
    assert any("php" in stack.kinds for stack in lies)


# A script for PHP's own web server: each request compiles it anew, and is served by a child.
SERVED = """<?php
if ($child = pcntl_fork()) { pcntl_waitpid($child, $status); return; }
function respond($n) { $x = 0; for ($i = 0; $i < $n; $i++) { $x += $i * $i % 7; } return $x; }
class Page { function __invoke() { return respond(400000); } }
(new Page)();
posix_kill(posix_getpid(), SIGKILL);
"""


def test_requests_and_children_are_seen_from_their_first_sample_on(tmp_path):
    (tmp_path / "index.php").write_text(SERVED)
    address = f"127.0.0.1:{free_port()}"
    server = Process([needs_php(), "-S", address, "-t", tmp_path])

    def served():
        try:
            with urllib.request.urlopen(f"http://{address}/") as answer:
                return answer.status == 200
        except OSError:
            return False

    with Receiver() as receiver, running(server):
        wait_for(served, "the server")
        sender = profsend(receiver, "--include", "executable=php8.2")
        with running(sender):
            started(sender)

            def seen():
                assert served()
                return sum(n for s, n in list(receiver.stacks.items()) if "respond" in s.names) >= 100
            wait_for(seen, "samples of requests")
            assert sender.stop() == 0, sender.log()
        stacks = {s: n for s, n in receiver.stacks.items() if "respond" in s.names}
    names = ["respond", "Page::__invoke", "{main}"]
    good = sum(n for s, n in stacks.items() if [x for x, kind in zip(s.names, s.kinds) if kind == "php"] == names and s.incomplete is None)
    assert good >= nearly_all(AFTER, sum(stacks.values())), stacks
    assert all(file == str(tmp_path / "index.php") for file, _ in receiver.places["Page::__invoke", "php"])
