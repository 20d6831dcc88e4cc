"""Ruby programs whose stacks are known (tests/runtimes/chains.rb), seen by profsend: attached to while they run, and begun while it
samples; by the machine's own Ruby and, with --soak, by those that PG_RUBIES names.
"""
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from profiles import are_named, beside_a_liar, judged, names_of, nearly_all, say, seen, seen_from_its_begin
from programs import BUILD, ROOT, Process

PROGRAM = ROOT / "tests/runtimes/chains.rb"
OWN = shutil.which("ruby")
LIBRARIES = [BUILD / f"{folder}/libpg_{folder.replace('/', '_')}.a"
             for folder in ("sender/runtimes/ruby", "sender/symbolize/elf", "sender/foreign", "proto/base")]
LATE = 0.999  # of the samples of an interpreter that runs already are exact, complete and named
FIRST = 1.0  # seconds within which its place must be known, on a machine that eight others use
AFTER = 0.99  # of one that begins

# Each chain from `work` on that ends in `spin`, or in C; what is a prefix of one can be seen, too, but hardly ever in threads. Names are without "Object#".
CHAINS = [chain.split(" > ") for chain in """
Shop::Worker#recurse > Shop::Worker#recurse > Shop::Worker#recurse > Shop::Worker#recurse > Shop::Worker#recurse > Shop::Worker#recurse > Shop::Worker#recurse > Shop::Worker#recurse > Shop::Worker#recurse > spin
Shop::Worker.build > spin
Shop::Worker.make > spin
Shop::Talks#talk > spin
Shop::Better#talk > Shop::Talks#talk > spin
block in <class:Worker> > spin
Shop::Worker#method_missing > spin
Shop::Worker#yielding > block in work > spin
Shop::Worker#nested > Array#each > block in Shop::Worker#nested > Array#each > block (2 levels) in Shop::Worker#nested > spin
sorting > Enumerable#sort_by > Range#each > block in sorting > spin
comparing > Array#max > Shop::Worker#<=> > spin
comparing > Shop::Worker#<=> > spin
summing > Enumerable#inject > Array#each > block in summing > spin
defaulting > Hash#yield > block in defaulting > spin
defaulting > block in defaulting > spin
rescuing > raising > spin
rescuing > raising > ensure in raising > spin
rescuing > rescue in rescuing > spin
throwing > Kernel#catch > block in throwing > spin
evaluating > Kernel#eval > evaluating > spin
fibers > Fiber#resume
enumerating > Enumerator#next
lambdas > block in lambdas > spin
größe > spin
symbols > Array#each > spin
symbols > Array#map
""".strip().splitlines()]
# A fiber has a stack of its own.
FIBERS = [["block in fibers", "spin"], ["block in enumerating", "spin"], ["block in enumerating", "Enumerator::Yielder#<<"]]
# What is below `work`, in the main thread or in others.
ROOTS = [["<main>", "run"], ["block (2 levels) in <main>", "run"]]
WHOLE = {tuple(whole) for whole in [*([*root, "work", *chain] for root in ROOTS for chain in CHAINS), *FIBERS]}
POSSIBLE = {whole[:n] for whole in WHOLE for n in range(1, len(whole) + 1)}
# What methods written in C are called out of those: they end a stack.
IN_C = re.compile(r"[A-Z]\w*(::[A-Z]\w*)*[#.][^ ]+|proc|lambda")


def versions():
    """The machine's own; with --soak those of PG_RUBIES: programs, perhaps ones that run Ruby elsewhere."""
    yield pytest.param(OWN, id="own")
    for path in os.environ.get("PG_RUBIES", "").split():
        yield pytest.param(path, id=pathlib.Path(path).name, marks=pytest.mark.soak)


def start(ruby, program, *arguments):
    """From PG_RUBIES' our files may not be seen."""
    if not ruby:
        pytest.skip("no Ruby here")
    return Process([ruby, *([program] if ruby == OWN else ["-Ku", "-e", program.read_text()]), *arguments])


def is_exact(names, possible):
    names = [name.replace("Object#", "") for name in names if name != "(garbage collection)"]
    while names and tuple(names) not in possible and IN_C.fullmatch(names[-1]) and "Shop" not in names[-1]:
        names.pop()
    return tuple(names) in possible


def is_timer(stack):
    """The thread that Ruby has from 3.3 on, and what begins a thread: no program's."""
    return "libc.so" in stack.files[-1] and sum("libruby" in file for file in stack.files) <= 1


def judge(stacks, possible=POSSIBLE):
    """judged(), of a program at work."""
    def verdict(stack):
        names = names_of(stack, "ruby")
        return None if not names and is_timer(stack) else (is_exact(names, possible), stack.incomplete is None, are_named(names))
    return judged(stacks, verdict)


@pytest.mark.parametrize("ruby", versions())
@pytest.mark.parametrize("threads", [(), ("3",)], ids=["main", "threads"])
def test_an_interpreter_that_runs_is_seen_exactly(ruby, threads):
    program = start(ruby, PROGRAM, "60", *threads)
    receiver = seen(program, 1500, first=FIRST)
    hits, exact, complete, named, odd = judge(receiver.of(program.pid), WHOLE if threads else POSSIBLE)
    text = say(ruby, hits, exact, complete, named, odd)
    assert not receiver.errors, receiver.errors[0]
    assert min(exact, complete, named) >= nearly_all(LATE, hits), (text, odd[:3])
    source = ["", *PROGRAM.read_text().splitlines()]
    for (function, kind), places in receiver.places.items():
        if kind != "ruby" or places == {("", 0)}:  # in C
            continue
        if all(file.startswith("<internal:") for file, _ in places):  # in Ruby's own Ruby
            continue
        assert all(file in (str(PROGRAM), "-e", "evaluated") for file, _ in places), (function, places)
        short = re.split("[#. ]", function)[-1]
        begins = [i for i, line in enumerate(source) if re.match(rf" *def (self\.)?{re.escape(short)}\b", line)]
        if begins and short not in ("evaluating", "talk"):  # two of a name; what is evaluated says that it is in line 7
            end = next(i for i in range(begins[0], len(source)) if source[i] == re.match(" *", source[begins[0]])[0] + "end")
            assert all(begins[0] <= line <= end for _, line in places), (function, begins, end, places)
    assert len(receiver.places["Object#spin", "ruby"]) >= 3  # lines, not functions


def test_code_that_yjit_makes_is_walked_through():
    if not OWN or subprocess.run([OWN, "--yjit", "-e", "exit RubyVM::YJIT.enabled?"], capture_output=True).returncode != 0:
        pytest.skip("no Ruby with YJIT here")
    program = Process([OWN, "--yjit", PROGRAM, "60"])
    receiver = seen(program, 600, first=FIRST)
    hits, exact, complete, named, odd = judge(receiver.of(program.pid))
    text = say("it", hits, exact, complete, named, odd)
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), (text, odd[:3])


@pytest.mark.parametrize("ruby", versions())
def test_an_interpreter_that_begins_is_seen_exactly(ruby):
    own = subprocess.run([ruby or pytest.skip("no Ruby here"), "-rrbconfig", "-e", "print File.realpath(RbConfig.ruby)"], capture_output=True, text=True)
    stacks = seen_from_its_begin(pathlib.Path(own.stdout).name, lambda: start(ruby, PROGRAM, "2"))
    # What was cut, on a machine with more to do than CPUs, says so, and is little.
    rootless = {stack: n for stack, n in stacks.items() if stack.kinds[-1] == "ruby"}
    whole = [stack for stack in rootless if stack.incomplete != "cut"]
    assert not whole, "somebody calls the interpreter: " + str(whole[0])
    assert sum(rootless.values()) <= 0.002 * sum(stacks.values()), rootless
    # Until `run` has begun it is the interpreter that begins, and after it that it ends.
    at_work = {s: n for s, n in stacks.items() if {"Object#run", "block in Object#fibers", "block in Object#enumerating"} & set(s.names)}
    hits, exact, complete, named, odd = judge(at_work)
    text = say(f"{ruby}, of {sum(stacks.values())}", hits, exact, complete, named, odd)
    assert hits >= 1000  # of two seconds
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), (text, odd[:3])


@pytest.mark.parametrize("ruby", versions())
def test_lines_are_those_that_ruby_says(ruby, tmp_path):
    reader = tmp_path / "ruby_lines"
    subprocess.run(["gcc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", f"-I{ROOT}", ROOT / "tests/runtimes/ruby_lines.c", *LIBRARIES, "-o", reader,
                    "-lmd", "-lz", "-lzstd", "-llzma"], check=True)
    source = (ROOT / "tests/runtimes/lines.rb").read_text()
    with subprocess.Popen([ruby or pytest.skip("no Ruby here"), "-e", source], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        version = subprocess.run([ruby, "-e", "print RUBY_VERSION[0] + RUBY_VERSION[2]"], capture_output=True, text=True, check=True).stdout
        said = []
        while (line := program.stdout.readline()) not in ("end\n", ""):
            said.append(line)
        found = subprocess.run([reader, str(program.pid), version], input="".join(said), capture_output=True, text=True, check=True).stdout
        program.stdin.close()
    assert sum(line.count(":") for line in said) > 1500  # beyond the first 54, and the first block of 512
    assert found.splitlines(keepends=True) == said


def test_a_resource_says_which_ruby_it_is():
    program = start(OWN, PROGRAM, "60")
    receiver = seen(program, 50, first=FIRST)
    version = subprocess.run([OWN, "-e", "print RUBY_VERSION"], capture_output=True, text=True, check=True).stdout
    said = receiver.resources[program.pid]
    assert (said["process.runtime.name"], said["process.runtime.version"]) == ("ruby", version)


def test_one_that_lies_harms_nobody(tmp_path):
    lies, stacks = beside_a_liar(tmp_path, ROOT / "tests/runtimes/ruby_liar.c", lambda: start(OWN, PROGRAM, "60"), FIRST,
                                 lambda *both: min(sum(stacks.values()) for stacks in both) >= 150)
    hits, exact, complete, named, odd = judge(stacks)
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), odd[:3]
    assert any("ruby" in stack.kinds for stack in lies)
