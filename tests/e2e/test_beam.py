"""An Erlang program whose stacks are known (tests/runtimes/chains.erl), seen by profsend: attached to while it runs, and begun while it
samples. PG_ERLANGS names other Erlangs' `erl` (as "PATH:…"), which --soak tries; 23, which interprets, is none of them.
"""
import os
import re
import shutil
import subprocess

import pytest
from profiles import Receiver, are_named, beside_a_liar, busy, judged, names_of, nearly_all, profsend, say, seen, seen_from_its_begin, started
from programs import ROOT, Process, running, wait_for

PROGRAM = ROOT / "tests/runtimes/chains.erl"
RELOADED = ROOT / "tests/runtimes/reloaded.erl"
OWN = shutil.which("erl")
LATE = 0.99  # of the samples of a program that runs already are exact, complete and named
FIRST = 1.0  # seconds within which its place must be known, on a machine that eight others use
AFTER = 0.99  # of one that begins

# Each chain of the program's functions there can be, root first; what is a prefix of one can be seen, too.
WORK = [
    ["recurse/1"] * 10,
    ["recurse/1"] * 9 + ["spin/2"],
    ["catching/0", "raising/1", "spin/2"],
    ["catching/0", "spin/2"],
    ["listed/0"] + ["'-listed/0-lc$^0/1-0-'/1"] * 20,
    *(["listed/0"] + ["'-listed/0-lc$^0/1-0-'/1"] * n + ["spin/2"] for n in range(1, 20)),
    ["closure/0", "call/1", "'-closure/0-fun-0-'/1", "spin/2"],
    ["mapped/0", "'-mapped/0-fun-0-'/1", "spin/2"],
    ["sorted/0", "'-sorted/0-fun-0-'/2", "spin/2"],
    ["calling/1"],
    ["native/0"],
    ["collected/0", "build/2"],
    ["evaluated/0", "init/1", "spin/2"],
    # Of 5,000 the innermost 64 return addresses that are the same; what is in the callers of the others is "(recursion)".
    *(["deep/0"] + ["deepening/1"] * n + ["spin/2"] for n in range(1, 66)),
]
CHAINS = [["run/2", "work/1", *chain] for chain in WORK] + [
    ["main/1", "runtime/0"],
    ["run/2", "runtime/0"],
    ["spinner/1", "runtime/0"],
    ["spinner/1"] + ["recurse/1"] * 6,
    ["spinner/1"] + ["recurse/1"] * 5 + ["spin/2"],
    ["handle_call/3", "spin/2"],
]
POSSIBLE = {tuple(chain[:n]) for chain in CHAINS for n in range(len(chain) + 1)}
# What others' functions must be there between two of the program's, and before the first one.
BETWEEN = {("mapped/0", "'-mapped/0-fun-0-'/1"): "lists:map/2", ("sorted/0", "'-sorted/0-fun-0-'/2"): "lists:"}
BEFORE = {"run/2": "init:do_boot/3", "handle_call/3": "proc_lib:init_p_do_apply/3"}
# What of the emulator's a function is known to call.
NATIVE = {"native/0": ("term_to_binary_1", "phash2_1", "md5_1"), "build/2": ("erts_garbage_collect_nobump",)}


def versions():
    """The Erlang here; and PG_ERLANGS'."""
    others = [path for path in os.environ.get("PG_ERLANGS", "").split(":") if path]
    return [pytest.param(OWN, id="own"), *(pytest.param(path, id=path, marks=pytest.mark.soak) for path in others)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the programs were compiled to."""
    folder = tmp_path_factory.mktemp("erlang", numbered=True)
    folder.chmod(0o755)
    subprocess.run([shutil.which("erlc") or pytest.skip("no Erlang here"), "-o", folder, PROGRAM, RELOADED], check=True, cwd=ROOT)
    return folder


def begin(erl, folder, *options):
    return Process([erl or pytest.skip("no Erlang here"), "-noshell", "-pa", folder, *options], env={**os.environ, "ERL_AFLAGS": "", "ERL_CRASH_DUMP": "/dev/null"})


def start(erl, folder, seconds, *options):
    return begin(erl, folder, *options, "-s", "chains", "main", seconds)


def is_exact(stack):
    """Whether its Erlang functions can be on one stack, behind what called them and before what they call."""
    names = names_of(stack, "beam")
    own = [i for i, name in enumerate(names) if name.startswith("chains:")]
    chain = tuple(names[i].removeprefix("chains:") for i in own)
    if chain not in POSSIBLE:
        return False
    if chain and chain[0] in BEFORE and BEFORE[chain[0]] not in names[:own[0]]:
        return False
    for (a, b), must in BETWEEN.items():
        for i, j in zip(own, own[1:]):
            if (names[i], names[j]) == (f"chains:{a}", f"chains:{b}") and not any(name.startswith(must) for name in names[i:j]):
                return False
    return True


def judge(stacks):
    """judged(), of its schedulers."""
    def verdict(stack):
        if "beam" not in stack.kinds and not re.search("sched", stack.thread or ""):
            return None
        return is_exact(stack), stack.incomplete is None, are_named(names_of(stack, "beam"))
    return judged(stacks, verdict)


def span(name, lines):
    """The lines of a function of the program; of what is made for it, its own."""
    short = re.match(r"'?-?(\w+)/", name.removeprefix("chains:"))[1]
    first = [n for n, line in enumerate(lines, 1) if line.startswith(f"{short}(")]
    last = next(n for n in range(first[-1], len(lines) + 1) if lines[n - 1].endswith("."))
    return range(first[0], last + 1)


@pytest.mark.parametrize("options", [[], pytest.param(["+JPperf", "true"], marks=pytest.mark.soak)], ids=["plain", "pointers"])
@pytest.mark.parametrize("erl", versions())
def test_a_program_that_runs_is_seen_exactly(erl, options, folder):
    program = start(erl, folder, "60", *options)
    receiver = seen(program, 800, first=FIRST, begun=1.0)
    stacks = receiver.of(program.pid)
    hits, exact, complete, named, odd = judge(stacks)
    text = say(f"{erl} {options}", hits, exact, complete, named, odd)
    assert not receiver.errors, receiver.errors[0]
    assert min(exact, complete, named) >= nearly_all(LATE, hits), (text, odd[:3])
    lines = PROGRAM.read_text().splitlines()
    for (name, kind), places in receiver.places.items():
        if kind == "beam" and name.startswith("chains:"):
            assert all(file.endswith("chains.erl") and line in span(name, lines) for file, line in places if line), (name, places)
    assert len({line for _, line in receiver.places["chains:work/1", "beam"]}) >= 5  # lines, not functions
    said = receiver.resources[program.pid]
    assert said["process.runtime.name"] == "BEAM" and re.fullmatch(r"1\d(\.\d+)+", said["process.runtime.version"])
    # What is too deep to be told has both its ends.
    assert any({"(recursion)", "chains:deep/0", "chains:spin/2"} <= set(stack.names) for stack in stacks)
    # What is in C is under the function that has called it.
    for function, called in NATIVE.items():
        names = [name for stack in stacks if f"chains:{function}" in stack.names for name in stack.names[:stack.names.index(f"chains:{function}")]]
        assert erl != OWN or set(called) & set(names), (function, names)


@pytest.mark.parametrize("erl", versions())
def test_a_program_that_begins_is_seen_exactly(erl, folder):
    stacks = seen_from_its_begin("beam.smp", lambda: start(erl, folder, "1"))
    # Until `main` is called it is Erlang that begins.
    at_work = {s: n for s, n in stacks.items() if any(name.startswith("chains:") for name in s.names)}
    assert at_work, sorted(stacks.items(), key=lambda s: -s[1])[:5]
    hits, exact, complete, named, odd = judge(at_work)
    text = say(f"of {sum(stacks.values())}", hits, exact, complete, named, odd)
    assert hits > 0.3 * sum(stacks.values()), text
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), (text, odd[:3])


@pytest.mark.parametrize("erl", versions())
def test_a_module_that_is_loaded_again_has_its_new_names(erl, folder):
    def hits(name):
        return sum(n for stack, n in receiver.of(program.pid).items() if f"hot:{name}/0" in stack.names)
    file = folder / f"now-{os.getpid()}"
    file.unlink(missing_ok=True)
    with Receiver() as receiver, running(begin(erl, folder, "-run", "reloaded", "main", file)) as program:
        busy(program, 1.0)
        with running(profsend(receiver, "--pid", program.pid)) as sender:
            started(sender)
            wait_for(lambda: hits("first") >= 300, "the first version")
            file.touch()
            wait_for(lambda: hits("other") >= 300, "the other version")
            before = hits("first")
            wait_for(lambda: hits("other") >= 900, "the other version alone")
            assert hits("first") == before
            assert sender.stop() == 0, sender.log()


def test_a_process_that_ends_has_no_callers(tmp_path):
    """What its stack was in is freed as it ends, and somebody else's by then."""
    (tmp_path / "ending.erl").write_text("""
-module(ending).
-export([main/0]).
main() -> deep(20).
deep(0) -> loop(), 0;
deep(N) -> 1 + deep(N - 1).
loop() ->
    [spawn_monitor(fun() -> _ = length(lists:seq(1, 20)) end) || _ <- lists:seq(1, 200)],
    [receive {'DOWN', _, process, _, normal} -> ok end || _ <- lists:seq(1, 200)],
    loop().
""")
    subprocess.run([shutil.which("erlc") or pytest.skip("no Erlang here"), "-o", tmp_path, tmp_path / "ending.erl"], check=True)
    program = begin(OWN, tmp_path, "-s", "ending", "main")
    stacks = seen(program, 2500, first=FIRST, begun=1.0).of(program.pid)
    ending = {s: n for s, n in stacks.items() if not s.first and {"erts_do_exit_process", "erts_continue_exit_process"} & set(s.names)}
    hits, bad = sum(ending.values()), {s: n for s, n in ending.items() if "beam" in s.kinds or s.incomplete is not None}
    print(f"\n{hits} of {sum(stacks.values())} as processes end, {sum(bad.values())} with what was not theirs")
    assert hits >= 100, (hits, stacks)
    assert sum(bad.values()) <= 0.01 * hits, (hits, bad)


def test_one_that_lies_harms_nobody(tmp_path, folder):
    lies, stacks = beside_a_liar(tmp_path, PROGRAM.parent / "beam_liar.c", lambda: start(OWN, folder, "600"), FIRST,
                                 lambda *both: min(sum(stacks.values()) for stacks in both) >= 60, begun=1.0)
    hits, exact, complete, named, odd = judge(stacks)
    assert min(exact, complete, named) >= nearly_all(LATE, hits), odd[:3]
    assert any("beam" in stack.kinds for stack in lies)
