"""Whose stacks are whole: profsend, `perf record --call-graph dwarf` and opentelemetry-ebpf-profiler over the programs of this
folder, looking at the same processes at the same time.

`scripts/bench-sender --stacks [REGEX]` starts it: no test of the everyday suite, but it runs as one, to share programs and judges
with tests/e2e/test_unwind.py. PG_PEER names the peer's program; without it its column is empty, and test_unwind.py says what is
on record.

The peer names no native function: where its stacks end is looked up here, in the symbols of the files it names. As for perf, a
stack is complete if a thread's first functions are among its last three frames; in a stripped program the entry point will do.
For profsend it must say so itself besides.
"""
import bisect
import collections
import contextlib
import functools
import os
import pathlib
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "scripts")]
os.environ.setdefault("PG_UNWIND_TABLE", os.devnull)  # perf looks too
import test_unwind  # noqa: E402
from bench_sender import profilers  # noqa: E402
from bench_sender.hits import hits_of, is_profiles, plain  # noqa: E402
from bench_sender.sink import Sink  # noqa: E402
from profiles import Receiver  # noqa: E402
from programs import BUILD, Process, running, wait_for  # noqa: E402
from test_unwind import FIRST, FREQUENCY, Perf, built, judge, run  # noqa: E402,F401 (built is a fixture)

PEER_HZ = 199  # enough stacks of a program, and not too many of everybody else's: it samples the whole machine
LAST_S = profilers.peer("").last_s
# Where threads begin, besides Perf.ROOTS: clone(2)'s in C libraries, Go's own.
ROOTS = tuple(root.lstrip("_") for root in Perf.ROOTS + ("clone3", "start", "_start_c", "runtime.mstart", "runtime.rt0_go", "rt0_go",
                                                         "runtime.main", "runtime.mcall", "runtime.systemstack"))
LIBRARIES = [pathlib.Path(folder) for folder in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-musl", "/lib64", "/lib")]
ENTRY_BYTES = 64  # of _start where no symbol tells


def lines_of(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True).stdout.splitlines()


@functools.cache
def symbols(path):
    """(addresses, names) of a file's functions, from its own tables and a debug file's; the entry point is one."""
    found = {}
    about = "\n".join(lines_of("readelf", "-nhW", path))
    build_id = about.partition("Build ID: ")[2].split("\n")[0]
    debug = pathlib.Path(f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
    entry = about.partition("Entry point address:")[2].split("\n")[0].strip()
    if entry:
        found[int(entry, 16)] = "_start"
        found[int(entry, 16) + ENTRY_BYTES] = "?"
    for options, file in (("-D", path), ("-n", debug), ("-n", path)):
        for line in lines_of("nm", options, "--defined-only", file):
            fields = line.split()
            if len(fields) == 3 and fields[1] in "tTwWiuV":
                found[int(fields[0], 16)] = fields[2]
    addresses = sorted(found)
    return addresses, [found[a] for a in addresses]


def name_of(frame, program):
    """A frame's name: the profiler's own word, else the symbol at its address."""
    if frame.name:
        return frame.name
    paths = [program] if frame.file == program.name else [folder / frame.file for folder in LIBRARIES if frame.file]
    path = next((path for path in paths if path.exists()), None)
    if not path:
        return ""
    addresses, names = symbols(path)
    at = bisect.bisect_right(addresses, frame.address)
    return names[at - 1] if at else ""


def is_root(name):
    return name.partition("@")[0].lstrip("_").startswith(ROOTS)


def peer_reaches_a_root(frames, program):
    """A coroutine's first function returns to a root's first byte, of which the address, one less for callers, tells nothing."""
    return any(is_root(name_of(frame, program)) or is_root(name_of(frame._replace(address=frame.address + 1), program))
               for frame in frames[-3:])


def peer_shares(hits, program):
    """Of one program's hits: (how many, share complete, share with all names, how many besides say of no frame what file it
    is in, as those do that the peer reads when the process has ended)."""
    n = whole = named = nowhere = 0
    for hit in hits:
        frames = [frame for frame in hit.stack if frame.kind != "kernel"]
        if not frames and hit.stack:
            continue  # in exec or exit, as for profsend
        if frames and not any(frame.file or frame.name for frame in frames):
            nowhere += 1
            continue
        n += 1
        whole += peer_reaches_a_root(frames, program)
        named += bool(frames) and all(frame.name for frame in frames)
    return n, whole / max(n, 1), named / max(n, 1), nowhere


def profsend_shares(stacks):
    """Of one program's settled hits: (share that say they are whole and, where their last frames have names, look it; share with
    all names, whether or not their files have any)."""
    n = whole = named = 0
    for stack, hits in stacks.items():
        names = [name for name, kind in zip(stack.names, stack.kinds) if kind != "kernel"]
        if not names or stack.first or "__x64_sys_execve" in stack.names or stack.names == ("0x0",):
            continue
        n += hits
        looks_it = any(is_root(name) or name.startswith("0x") for name in names[-3:])
        whole += hits * (stack.incomplete is None and looks_it)
        named += hits * all(not name.startswith("0x") for name in names)
    return whole / max(n, 1), named / max(n, 1)


@contextlib.contextmanager
def peer_at_work(program, hits_by_pid):
    """The peer beside whatever runs in the block; its hits by pid afterwards."""
    if not program:
        yield
        return
    peer = profilers.peer(program)
    with Sink() as sink:
        process = Process(peer.argv(peer.program, sink.address, PEER_HZ, "stacks"))
        with running(process):
            wait_for(lambda: peer.at_work in process.log() or not process.alive(), "the peer at work")
            if not process.alive():
                pytest.skip(f"the peer does not run here: {process.log()[-500:]}")
            yield
            reports = len(sink.requests)
            wait_for(lambda: len(sink.requests) >= reports + 2, "the peer's last reports", 4 * LAST_S)
            process.process.send_signal(signal.SIGTERM)
            process.wait()
        assert not sink.errors, sink.errors[0]
        for _, _, compressed, message in sink.requests:
            body = plain(compressed, message)
            for hit in hits_of(body) if is_profiles(body) else ():
                hits_by_pid[hit.pid].append(hit)


def test_whose_stacks_are_whole(built):  # noqa: F811
    folder, programs, missing = built
    ours = [argument for _, path in programs for argument in ("--include", f"executable={path.name}")]
    hits = collections.defaultdict(list)
    with Receiver(first=FIRST) as receiver, peer_at_work(os.environ.get("PG_PEER"), hits):
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", FREQUENCY,
                          "--interval", "1s", *ours])
        with running(sender):
            wait_for(lambda: "sampling" in sender.log() or not sender.alive(), "profsend at work")
            if not sender.alive():
                pytest.skip(f"profiling is not permitted here: {sender.log().strip()[-200:]}")
            pids, perfs = run(receiver, folder, programs)
            assert sender.stop() == 0, sender.log()
    assert not receiver.errors, receiver.errors[0]
    print(f"\n{FREQUENCY} Hz (profsend), 99 (perf), {PEER_HZ} (peer), {test_unwind.SECONDS} s of CPU time each; "
          f"profsend's without each program's first {FIRST} s\n")
    print(f"{'':36} {'profsend':^27} {'perf':^9} {'otel-ebpf-profiler':^27}")
    print(f"{'program':36} {'stacks':>9}{'complete':>9}{'named':>9} {'complete':>9} {'stacks':>9}{'complete':>9}{'named':>9}")
    sums = collections.defaultdict(list)
    for (row, path), pid in zip(programs, pids):
        stacks = receiver.of(pid)
        taken = judge(stacks, row["chain"])[0]
        (ours_whole, named), (n, whole, peer_named, nowhere) = profsend_shares(stacks), peer_shares(hits[pid], path)
        sums["ours"].append(ours_whole)
        sums["named"].append(named)
        if pid in perfs:
            sums["perf"].append(perfs[pid])
        if n:
            sums["peer"].append(whole)
            sums["peer named"].append(peer_named)
        peer = f"{n:9}{whole:9.1%}{peer_named:9.1%}" if n else f"{n:9}" if os.environ.get("PG_PEER") else ""
        perf = f"{perfs[pid]:9.1%}" if pid in perfs else " " * 9
        peer += f" and {nowhere} in no file" if nowhere else ""
        print(f"{row['name']:36} {taken:9}{ours_whole:9.1%}{named:9.1%} {perf} {peer}")
        if "PG_UNWIND_SHOW" in os.environ:  # where the peer's stacks end
            ends = collections.Counter(tuple((name_of(f, path), f.file, hex(f.address)) for f in h.stack[-3:]) for h in hits[pid])
            for stack, n in ends.most_common(3):
                print(" " * 8, n, *stack)

    def mean(what):
        return f"{sum(sums[what]) / len(sums[what]):9.1%}" if sums[what] else " " * 9
    print(f"{'all':36} {'':9}{mean('ours')}{mean('named')} {mean('perf')} {'':9}{mean('peer')}{mean('peer named')}")
    for name in missing:
        print(f"{name:36} not built here")
    assert sums["ours"]
