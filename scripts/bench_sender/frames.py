"""What a frame of a runtime's costs: the same program with few and with many frames below the function that it stays in, each
calling the next one; what a tick costs more, by frame. Builds are attached at once, so that they see the same."""
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from bench_sender.accounts import bpf_runs, bpf_stats, cpu_ns, program_names

DEPTHS = (20, 80)
HZ = 4000
OTHERS_NS = 45  # a tick that hits another process
TO_WORK_S, WARM_UP_S = 1, 2  # for the program, before a profiler comes; once that has sampled
AT_WORK_S = 120  # at most, on a busy machine
READS, REPEATS = 1000, 2000  # of reads.bpf.c in one run, and runs of it


def python(n, itself):
    calls = "".join(f"def f{i}(n):\n    return f{0 if itself else i + 1}(n - 1) if n else spin()\n" for i in range(n))
    return f"x = 0\ndef spin():\n    global x\n    while True:\n        for i in range(10000):\n            x += i\n{calls}f0({n - 1})\n"


def javascript(n, unused):
    calls = "".join(f"function f{i}(n) {{ return n ? f{i + 1}(n - 1) + 1 : spin(); }}\n" for i in range(n))
    return f"let x = 0;\nfunction spin() {{ for (;;) for (let i = 0; i < 10000; i++) x += i; }}\n{calls}f0({n - 1});\n"


def java(n, classes):
    """In turns in each of so many classes."""
    def call(i):
        return f"static int f{i}(int n) {{ if (n == 0) Chain.spin(); return C{(i + 1) % classes}.f{i + 1}(n - 1) + 1; }}\n"
    text = [f"class C{c} {{ static int f{n}(int n) {{ return n; }}\n{''.join(map(call, range(c, n, classes)))}}}\n" for c in range(classes)]
    return f"""{''.join(text)}public class Chain {{
static long x;
static void spin() {{ for (;;) for (int i = 0; i < 10000; i++) x += i; }}
public static void main(String[] a) {{ C0.f0({n - 1}); }}
}}
"""


# name: (what runs it, its source by depth and one number, that number, ns a frame that are wanted at most)
COMPILED = ["-Xcomp", "-XX:-Inline", "-XX:TieredStopAtLevel=1", "-XX:CompileCommand=quiet", "-XX:CompileCommand=compileonly,C*::f*"]
KINDS = {
    "python, different functions": (["python3"], "chain.py", python, False, 150),
    "python, one function": (["python3"], "chain.py", python, True, 150),
    "node, different functions": (["node"], "chain.js", javascript, None, 150),
    "java -Xint, one class": (["java", "-Xint"], "Chain.java", java, 1, 300),
    "java -Xint, four classes": (["java", "-Xint"], "Chain.java", java, 4, 300),
    "java, compiled": (["java", *COMPILED], "Chain.java", java, 1, 300),
}


def argv(kind, depth, folder, with_python):
    how, name, source, number, _ = KINDS[kind]
    folder.mkdir()
    (folder / name).write_text(source(depth, number))
    if name.endswith(".java"):
        subprocess.run(["javac", "-d", folder, folder / name], check=True)
        return [*how, "-cp", folder, "Chain"]
    return [with_python if how == ["python3"] else how[0], folder / name]


def ticks_of(pid):
    """(ns, runs) of its on_tick."""
    names = program_names()
    return next(((ns, n) for i, (ns, n) in bpf_runs(pid).items() if names.get(i) == "on_tick"), (0, 0))


def used_by(program):
    """The CPU time of one that is to go on."""
    if program.poll() is not None:
        raise SystemExit(f"{' '.join(map(str, program.args))} ended with {program.returncode}")
    return cpu_ns(program.pid)


def tick_ns(program, builds, seconds):
    """What a tick in the program costs each of the builds."""
    started = subprocess.Popen(["taskset", "-c", "0", *program], stdout=subprocess.DEVNULL)
    at_work = []
    try:
        time.sleep(TO_WORK_S)
        for build in builds:
            at_work.append(subprocess.Popen(["taskset", "-c", "1", build, "--pid", str(started.pid), "--frequency", str(HZ), "--print",
                                             "--interval", "60s"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        end = time.monotonic() + AT_WORK_S
        while not all(ticks_of(p.pid)[1] for p in at_work) and time.monotonic() < end and started.poll() is None:
            time.sleep(0.1)
        time.sleep(WARM_UP_S)
        before, cpu = [ticks_of(p.pid) for p in at_work], used_by(started)
        time.sleep(seconds)
        after, cpu = [ticks_of(p.pid) for p in at_work], used_by(started) - cpu
        if not cpu:
            raise SystemExit(f"{' '.join(map(str, program))} waits: no CPU time in {seconds} s")
        ticks = cpu / 1e9 * HZ
        result = [(ns - was_ns - OTHERS_NS * max(0, n - was_n - ticks)) / ticks for (was_ns, was_n), (ns, n) in zip(before, after)]
        return result
    finally:
        for process in at_work:
            process.terminate()
        for process in at_work:
            process.wait()
        started.kill()
        started.wait()


def read_ns(folder):
    """What it costs a BPF program here to read a word of a process's memory: the least for a frame that has to be looked at."""
    source = pathlib.Path(__file__).with_name("reads.bpf.c")
    program, packet, pinned = folder / "reads.o", folder / "packet", f"/sys/fs/bpf/pg-reads-{os.getpid()}"
    packet.write_bytes(bytes(64))
    subprocess.run(["clang", "-O2", "-g", "-target", "bpf", "-mcpu=v3", f"-I/usr/include/{os.uname().machine}-linux-gnu", "-c", source,
                    "-o", program], check=True)
    subprocess.run(["bpftool", "prog", "load", program, pinned, "type", "classifier"], check=True)
    try:
        said = subprocess.run(["bpftool", "prog", "run", "pinned", pinned, "data_in", packet, "repeat", str(REPEATS)], check=True,
                              capture_output=True, text=True).stdout
    finally:
        os.unlink(pinned)
    result, ns = map(int, re.search(r"Return value: (\d+), duration \(average\): (\d+)ns", said).groups())
    if result:
        raise SystemExit(f"reads.bpf.c cannot read: {result}")
    return ns / READS


def table(builds, only, rounds, seconds, with_python):
    """False: one of them, of the last build, costs more than is wanted."""
    kept = True
    with tempfile.TemporaryDirectory(prefix="pg-bench-") as folder:
        print(f"A read of a word of a process's memory takes {read_ns(pathlib.Path(folder)):.0f} ns here.\n")
    print(f"| ns a frame (of {DEPTHS[1] - DEPTHS[0]}, {HZ} Hz, {rounds} × {seconds} s) | wanted | "
          + " | ".join(str(b) for b in builds) + " |\n|---|" + "---|" * (len(builds) + 1))
    for kind in KINDS:
        if not re.search(only, kind) or not shutil.which(KINDS[kind][0][0]):
            continue
        slopes = [[] for _ in builds]
        with tempfile.TemporaryDirectory(prefix="pg-bench-") as folder, bpf_stats():
            programs = [argv(kind, depth, pathlib.Path(folder) / str(depth), with_python) for depth in DEPTHS]
            for turn in range(rounds):
                order = list(range(len(builds)))[::-1 if turn % 2 else 1]
                few, many = [tick_ns(program, [builds[i] for i in order], seconds) for program in programs]
                for at, i in enumerate(order):
                    slopes[i].append((many[at] - few[at]) / (DEPTHS[1] - DEPTHS[0]))
        cost = [statistics.median(each) for each in slopes]
        kept &= cost[-1] <= KINDS[kind][4]
        print(f"| {kind} | {KINDS[kind][4]} | "
              + " | ".join(f"{c:.0f} ({', '.join(f'{s:.0f}' for s in each)})" for c, each in zip(cost, slopes)) + " |", flush=True)
    return kept
