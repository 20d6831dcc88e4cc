"""Perl programs whose stacks are known (tests/runtimes/chains.pl), seen by profsend: attached to while they run, and begun while it
samples. PG_PERLS names other Perls (as "PATH:…", with what they need in PERL5LIB), which --soak tries.
"""
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from profiles import Receiver, are_named, beside_a_liar, judged, names_of, nearly_all, profsend, say, seen, seen_from_its_begin, started
from programs import ROOT, Process, running

PROGRAM = ROOT / "tests/runtimes/chains.pl"
OWN = shutil.which("perl")
LATE = 0.999  # of the samples of a program that runs already are exact, complete and named
FIRST = 1.0  # seconds within which its place must be known, on a machine that eight others use
AFTER = 0.99  # of one that begins

# Each chain of subroutines there can be from `work` on, root first, without main::; what is a prefix of one can be seen, too, but
# hardly ever below `slow`.
CHAINS = [
    ["objects", "Worker::new", "Base::new", "spin"],
    ["objects", "Worker::new", "spin"],
    ["objects", "Worker::method"] + ["recurse"] * 9 + ["spin"],
    ["objects", "Base::AUTOLOAD", "spin"],
    ["objects", "Base::__ANON__", "spin"],
    ["objects", "Base::text", "spin"],
    ["objects", "Base::DESTROY", "spin"],
    ["Base::DESTROY", "spin"],  # of a local variable: its subroutine has been left
    ["sorted", "compare", "spin"],
    ["sorted_block", "spin"],
    ["sorted_last", "ordered", "spin"],
    ["listed", "__ANON__", "spin"],
    ["listed", "__ANON__", "deep", "__ANON__"] + ["recurse"] * 3 + ["spin"],
    ["tied_one", "Tied::TIESCALAR"],
    ["tied_one", "Tied::FETCH", "spin"],
    ["tied_one", "Tied::STORE", "(eval)", "spin"],
    ["tied_one", "Tied::STORE", "spin"],
    ["catching", "(eval)", "raising", "spin"],
    ["catching", "spin"],
    ["evaluated", "(eval)", "spin"],
    ["mapped", "spin"],
    ["closures", "__ANON__", "spin"],
    ["pattern", "spin"],
    ["caught", "(eval)", "raising", "spin"],
    ["caught", "spin"],
    ["replaced", "spin"],
    ["required", "__ANON__"],
    ["required", "require", "spin"],
    ["written", "NULL", "spin"],
    ["Größe", "spin"],
    ["名前", "spin"],
]
WHOLE = {("work", *chain) for chain in CHAINS}
POSSIBLE = {whole[:n] for whole in WHOLE for n in range(len(whole) + 1)}


# What the loop of `spin` is made of: these instructions, which call no others.
LOOP = {"", "lt", "and", "multiply", "modulo", "add", "postinc", "preinc", "unstack", "padsv", "const", "sassign"}


def versions():
    """The Perl here; and PG_PERLS'."""
    others = [path for path in os.environ.get("PG_PERLS", "").split(":") if path]
    return [pytest.param(OWN, id="own"), *(pytest.param(path, id=path, marks=pytest.mark.soak) for path in others)]


def start(perl, *arguments):
    return Process([perl or pytest.skip("no Perl here"), PROGRAM, *arguments])


def is_exact(names, op):
    """`op`: what the innermost subroutine does."""
    names = tuple(name.removeprefix("main::") for name in names)
    if names[:3] == ("<main>", "run", "slow"):
        return names[3:] in (WHOLE if op in LOOP else POSSIBLE)
    return names[:1] == ("<main>",) and (names[1:] in ((), ("run",)) or (names[1] == "run" and names[2:] in POSSIBLE))


def judge(stacks):
    """judged(), of a program at work."""
    def verdict(stack):
        names = names_of(stack, "perl")
        op = next((name[8:] for name, kind in list(zip(stack.names, stack.kinds))[stack.kinds.index("perl") - 1::-1]
                   if name.startswith("Perl_pp_")), "") if names and stack.kinds[0] != "perl" else ""
        return is_exact(names, op), stack.incomplete is None, are_named(names) and "__ANON__" not in names
    return judged(stacks, verdict)


def span(name, lines):
    """The lines of a subroutine of the program."""
    short = re.split("::", name)[-1]
    for first, line in enumerate(lines, 1):
        if found := re.match(rf"( *)sub {re.escape(short)} ", line):
            last = first if line.endswith("}") else next(n for n in range(first, len(lines) + 1) if lines[n - 1] == found[1] + "}")
            return range(first, last + 1)
    return None


@pytest.mark.parametrize("perl", versions())
def test_a_program_that_runs_is_seen_exactly(perl):
    program = start(perl, "60")
    receiver = seen(program, 1500, first=FIRST)
    hits, exact, complete, named, odd = judge(receiver.of(program.pid))
    text = say(perl, hits, exact, complete, named, odd)
    assert not receiver.errors, receiver.errors[0]
    assert min(exact, complete, named) >= nearly_all(LATE, hits), (text, odd[:3])
    lines = PROGRAM.read_text().splitlines()
    for (name, kind), places in receiver.places.items():
        # Where it begins, or has just called, it may be at another one's line; what is anonymous is in many places.
        if kind == "perl" and name.startswith("main::") and name != "main::__ANON__" and (of := span(name, lines)):
            odd = {(file, line) for file, line in places if (file, line) != ("", 0) and (file != str(PROGRAM) or line not in of)}
            assert len({place for place in odd if name[6:] not in lines[place[1] - 1]}) <= 1, (name, places)
    assert len(receiver.places["main::spin", "perl"]) >= 3  # lines, not subroutines
    version = subprocess.run([perl, "-e", "printf '%vd', $^V"], capture_output=True, text=True, check=True)
    said = receiver.resources[program.pid]
    assert (said["process.runtime.name"], said["process.runtime.version"]) == ("perl", version.stdout)
    # A call from C stands where the machine has it, and so does an eval in one: behind pp_sort, and what that and eval call.
    woven = {True: 0, False: 0}
    for stack, n in receiver.of(program.pid).items():
        if not stack.first and "main::raising" in stack.names and "main::caught" in stack.names:
            between = stack.kinds[stack.names.index("(eval)"):stack.names.index("main::caught")]
            woven[between.count("native") >= 3] += n
    assert woven[True] >= nearly_all(AFTER, sum(woven.values())) > 0, woven


@pytest.mark.parametrize("perl", versions())
def test_a_program_that_begins_is_seen_exactly(perl):
    stacks = seen_from_its_begin(pathlib.Path(perl or pytest.skip('no Perl here')).resolve().name, lambda: start(perl, "2"))
    # Until `run` has begun it is Perl that begins, and after it that it ends.
    at_work = {s: n for s, n in stacks.items() if "main::run" in s.names}
    hits, exact, complete, named, odd = judge(at_work)
    text = say(f"of {sum(stacks.values())}", hits, exact, complete, named, odd)
    assert hits > 0.8 * sum(stacks.values()), text
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), (text, odd[:3])


# Modules that compile others, and are of more code than a walk has rows for at first.
COMPILED = "use strict; use POSIX; use Encode; use Storable; use Pod::Simple; use Getopt::Long; use File::Temp; use CPAN;"


def test_what_compiles_has_nothing_below_its_root():
    with Receiver() as receiver:
        sender = profsend(receiver, "--include", f"executable={pathlib.Path(OWN or pytest.skip('no Perl here')).resolve().name}")
        with running(sender):
            started(sender)
            for _ in range(10):
                program = Process([OWN, "-e", COMPILED])
                with running(program):
                    assert program.wait() == 0, program.log()
            assert sender.stop() == 0, sender.log()
    whole = {s: n for s, n in receiver.stacks.items() if "_start" in s.names and s.incomplete is None}
    assert sum(n for s, n in whole.items() if "require" in s.names) > 100
    assert not [(n, s.names) for s, n in whole.items() if s.names[-1] != "_start"][:5]


# A thread of Coro's has a stack of its own, which libcoro has made.
CORO = """use Coro; use strict;
sub spin { my $x = 0; for (my $i = 0; $i < $_[0]; $i++) { $x += $i * $i % 7 } $x }
sub body { while (1) { spin(30); cede } }
for (1 .. 10) { async { body() } }
while (1) { spin(20); cede }
"""


def test_threads_of_coro_end_where_they_begin():
    if not OWN or subprocess.run([OWN, "-MCoro", "-e", "1"], capture_output=True).returncode:
        pytest.skip("no Coro here (libcoro-perl)")
    program = Process([OWN, "-e", CORO])
    stacks = {s: n for s, n in seen(program, 1500, first=FIRST).of(program.pid).items() if not s.first}
    inside = {s: n for s, n in stacks.items() if "main::body" in s.names}
    hits = sum(inside.values())
    whole = sum(n for s, n in inside.items() if s.incomplete is None and names_of(s, "perl")[0] == "Coro::_coro_run")
    # While it switches, Perl's own list is another's.
    assert hits and whole >= nearly_all(AFTER, hits), [(n, s.incomplete, s.names) for s, n in inside.items() if s.incomplete][:5]
    bad = sum(n for s, n in stacks.items() if s.incomplete)  # what Coro compiles to save Perl's variables leads nowhere
    assert bad <= sum(stacks.values()) - nearly_all(AFTER, sum(stacks.values()))


@pytest.mark.parametrize("compiler", ["gcc", "musl-gcc"])
def test_each_thread_has_an_interpreter_of_its_own(compiler, tmp_path):
    """Where a thread has what is its own is the C library's business; of musl's there is no Perl to be had here, but its structures."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    subprocess.run([compiler, "-O2", "-rdynamic", PROGRAM.parent / "perl_threads.c", "-o", tmp_path / "threads", "-lpthread"], check=True)
    program = Process([tmp_path / "threads"])
    stacks = {s: n for s, n in seen(program, 600, first=FIRST).of(program.pid).items() if not s.first}
    chains = [("<main>", f"__ANON__::{name}") for name in ("first", "second")]
    hits = {chain: sum(n for s, n in stacks.items() if names_of(s, "perl") == chain) for chain in chains}
    assert sum(hits.values()) >= nearly_all(LATE, sum(stacks.values())), list(stacks.items())[:5]
    assert min(hits.values()) > 0.2 * sum(hits.values()), hits


def test_one_that_lies_harms_nobody(tmp_path):
    lies, stacks = beside_a_liar(tmp_path, PROGRAM.parent / "perl_liar.c", lambda: start(OWN, "60"), FIRST,
                                 lambda *both: min(sum(stacks.values()) for stacks in both) >= 150)
    hits, exact, complete, named, odd = judge(stacks)
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), odd[:3]
    assert any("perl" in stack.kinds for stack in lies)
