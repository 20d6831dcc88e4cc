"""profsend's own unwinder over programs whose stacks are known, built with every compiler and flag that matters.

Prints (pytest -s, or PG_UNWIND_TABLE=FILE) a table: per program the samples, the share of complete stacks from the program's
first sample on and once it is known, of stacks whose every frame has a name (if its file has symbols anywhere on this machine),
and of stacks that are exactly as they must be.
With PG_UNWIND_TABLE `perf record --call-graph dwarf` looks at the same processes at the same time, and what is known of
opentelemetry-ebpf-profiler (measured on such a machine, not run here) stands beside.
"""
import collections
import ctypes
import functools
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess

import pytest
from profiles import Receiver, seen, started
from programs import BUILD, ROOT, Process, running, wait_for

SOURCE = ROOT / "tests/unwind"
FREQUENCY = 999
SECONDS = float(os.environ.get("PG_UNWIND_SECONDS", "1" if "PG_SOAK" in os.environ else "0.5"))  # of CPU time each program is given
FIRST = 0.3  # seconds within which a new program's tables must be there, on a busy machine
AIM = 0.995  # the share of stacks that must be whole then, over all programs
NAMED = 0.99  # the share of stacks that have all their names, over all programs that have symbols
LEAST = 0.97  # and of each, whose few hundred samples have a few that strayed (between two libraries, in the loader)

CHAIN = ("spin", "chain_c", "chain_b", "chain_a")
MAIN = CHAIN + ("main",)


# opentelemetry-ebpf-profiler b442421 at 97 Hz: complete stacks by what kind of program it is, as recorded; it names no
# native function.
PEER = {"gcc": "99.6-100", "clang": "99.6-100", "g++": "99.6-100", "clang++": "99.6-100", "rustc": "99.6-100", "go": "99.4",
        "static": "99.8"}


def c(name, flags, *, source="plain.c", chain=MAIN, compiler="gcc", arguments=(), link=(), after=None, named=True):
    """A row of the table: how a program is built, and the names its spinning stacks hold, leaf first. `named`: every function it
    runs has a symbol somewhere."""
    return dict(name=name, command=[compiler, *flags.split(), f"-I{ROOT}", SOURCE / source, *link], chain=chain, arguments=arguments,
                after=after, named=named)


def tool(*command):
    """One step after building, on {} for the program."""
    def run(path):
        subprocess.run([str(part).replace("{}", str(path)) for part in command], check=True, cwd=path.parent)
    return run


def split_debug(path):
    """As distributions ship programs: debug information in a file of its own, found by .gnu_debuglink."""
    tool("objcopy", "--only-keep-debug", "{}", "{}.debug")(path)
    tool("strip", "-s", "{}")(path)
    tool("objcopy", "--add-gnu-debuglink={}.debug", "{}")(path)


def no_section_headers(path):
    """As sstrip does: only the program headers are left to go by."""
    data = bytearray(path.read_bytes())
    data[0x28:0x30] = bytes(8)
    data[0x3a:0x40] = bytes(6)
    path.write_bytes(data)


def rows():
    for compiler in ("gcc", "clang"):
        for level in ("-O0", "-O1", "-O2", "-O3", "-Os"):
            yield c(f"{compiler} {level}", f"{level} -fomit-frame-pointer", compiler=compiler)
        yield c(f"{compiler} -O2 frame pointer", "-O2 -fno-omit-frame-pointer", compiler=compiler)
        yield c(f"{compiler} -O2 no-pie", "-O2 -no-pie", compiler=compiler)
        yield c(f"{compiler} -O2 realigned", "-O2", source="realign.c", compiler=compiler, chain=CHAIN + ("aligned", "sized", "main"))
        yield c(f"{compiler} -O2 deep 300", "-O2 -fno-optimize-sibling-calls", source="deep.c", compiler=compiler,
                chain=CHAIN + ("deeper",) * 300)
    yield c("gcc -O2 LTO", "-O2 -flto")
    yield c("gcc -O2 sections by function", "-O2 -ffunction-sections -Wl,--gc-sections")
    yield c("gcc -O2 static", "-O2 -static")
    yield c("gcc -O2 static-pie", "-O2 -static-pie")
    yield c("gcc -O2 stripped", "-O2 -s", chain=None, named=False)
    yield c("gcc -O2 no section headers", "-O2 -s", chain=None, after=no_section_headers, named=False)
    yield c("gcc -O2 static stripped", "-O2 -static -s", chain=None, named=False)
    yield c("gcc -O2 -g", "-O2 -g")
    yield c("gcc -O2 .debug_frame", "-O2 -g -fomit-frame-pointer -fno-asynchronous-unwind-tables")
    yield c("gcc -O2 debug file", "-O2 -g", after=split_debug)
    yield c("gcc -O2 debug file, packed", "-O2 -g -gz", after=split_debug)
    yield c("gcc -O2 split units (.dwo)", "-O2 -g -gsplit-dwarf")
    yield c("gcc -O2 split units (.dwp)", "-O2 -gdwarf-4 -gsplit-dwarf", after=tool("dwp", "-e", "{}", "-o", "{}.dwp"))
    yield c("clang -O2 split units (.dwo)", "-O2 -g -gsplit-dwarf", compiler="clang")
    yield c("gcc -O2 signal", "-O2", source="signal.c", chain=CHAIN + ("handler", None, "interrupted", "main"))
    yield c("gcc -O2 signal on its own stack", "-O2 -DOWN_STACK", source="signal.c",
            chain=CHAIN + ("handler", None, "interrupted", "main"))
    yield c("gcc -O2 signals that do little", "-O2", source="raise.c", chain=("kill", "raises", "main"))
    yield c("gcc -O2 libc, vDSO, system calls", "-O2", source="library.c", chain=CHAIN + ("compare",))
    yield c("gcc -O2 lazy PLT", "-O2 -Wl,-z,lazy", source="library.c", chain=CHAIN + ("compare",))
    for linker in ("bfd", "gold", "lld", "mold"):
        if shutil.which(f"ld.{linker}"):
            yield c(f"gcc -O2 stubs of {linker}", f"-O2 -fomit-frame-pointer -fno-builtin -Wno-unused-function -fuse-ld={linker}", source="stub.c",
                    chain=("labs@plt", "calls", "main"))
            yield c(f"gcc -O2 no frame information, {linker}", f"-O2 -fomit-frame-pointer -fno-asynchronous-unwind-tables -fuse-ld={linker}")
    yield c("gcc -O2 thread", "-O2", source="threads.c", chain=CHAIN + ("thread",), link=["-lpthread"])
    yield c("gcc -O2 dlopen, dlclose", "-O2", source="late.c", chain=CHAIN + ("plugin_enter", "main"), link=["-ldl"],
            arguments=("plugin-1.so", "plugin-2.so"))
    yield c("gcc -O2 generated code", "-O2", source="jit.c", chain=CHAIN + (None, "main"), named=False)
    for linker in ("bfd", "lld"):
        if shutil.which(f"ld.{linker}"):
            yield c(f"gcc -O2 moved code, {linker}", f"-O2 -fomit-frame-pointer -fuse-ld={linker}", source="moved.c")
    yield c("gcc -O2 moved code, no-pie", "-O2 -fomit-frame-pointer -no-pie", source="moved.c")
    yield c("gcc -O2 coroutine", "-O2", source="coroutine.c", chain=CHAIN + ("body",))
    yield c("gcc -O2 coroutine made by hand", "-O2 -fomit-frame-pointer -falign-functions=1", source="handmade.c",
            chain=CHAIN + ("body", "nobody_calls"))
    yield c("gcc -O2 other stacks", "-O2 -fomit-frame-pointer", source="switched.c",
            chain=CHAIN + ("inner", "call_on", "outer", "call_on", "main"))
    yield c("gcc -O2 call of NULL", "-O2 -fomit-frame-pointer", source="nothing.c", chain=CHAIN + ("handler", None, "calls_nothing", "main"))
    yield c("g++ -O2 greenlet", "-O2 -rdynamic", source="greenlet.cc", chain=CHAIN + ("greenlet::UserGreenlet::g_initialstub(void*)",), compiler="g++")
    yield c("g++ -O2 exceptions, templates", "-O2", source="throw.cc", chain=CHAIN, compiler="g++")
    yield c("clang++ -O2 exceptions, templates", "-O2", source="throw.cc", chain=CHAIN, compiler="clang++")
    for compiler in ("g++", "clang++"):
        yield c(f"{compiler} -O2 destructors while unwinding", "-O2", source="cleanup.cc", chain=CHAIN, compiler=compiler)
        yield c(f"{compiler} -O2 coroutines", "-O2 -std=c++20" + (" -fcoroutines" if compiler == "g++" else ""), source="resume.cc",
                chain=CHAIN, compiler=compiler)
    yield c("g++ -O2 exceptions, templates, LTO", "-O2 -flto", source="throw.cc", chain=CHAIN, compiler="g++")
    yield c("g++ -O2 exceptions, static", "-O2 -static", source="throw.cc", chain=CHAIN, compiler="g++")
    yield c("g++ -O0 coroutines", "-O0 -std=c++20 -fcoroutines", source="resume.cc", chain=CHAIN, compiler="g++")
    yield c("gcc -O2 assembly", "-O2 -fomit-frame-pointer", source="assembly.c", chain=("grind", "called_by_hand", "calls", "main"))
    yield c("musl -O2", "-O2", compiler="musl-gcc")
    yield c("musl -O2 libc", "-O2", source="library.c", compiler="musl-gcc", chain=CHAIN + ("compare",), named=False)
    yield c("musl -O2 static", "-O2 -static", compiler="musl-gcc")
    yield c("musl -O2 static libc", "-O2 -static", source="library.c", compiler="musl-gcc", chain=CHAIN + ("compare",))
    yield c("musl -O2 signal", "-O2", source="signal.c", compiler="musl-gcc",
            chain=CHAIN + ("handler", None, "interrupted", "main"))
    for name, flags in (("debug", ""), ("-O", "-O"), ("-O panic=abort", "-O -C panic=abort"),
                        ("-O stripped", "-O -C strip=symbols")):
        yield dict(name=f"rust {name}", command=["rustc", *flags.split(), SOURCE / "chain.rs"],
                   chain=None if "stripped" in name else CHAIN, arguments=(), after=None, named="stripped" not in name)
    for name, flags in (("", ()), ("stripped", ("-ldflags=-s -w",))):
        yield dict(name=f"go {name}".strip(), command=["go", "build", *flags, SOURCE / "chain.go"],
                   chain=tuple(f"main.{name}" for name in MAIN), arguments=(), after=None, named=True)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """name → (row, path), and the names of what cannot be built here."""
    folder = tmp_path_factory.mktemp("unwind")
    for i, pad in (("1", 1), ("2", 2)):
        subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", f"-DPAD={pad}", "-o",
                        folder / f"plugin-{i}.so", SOURCE / "plugin.c"], check=True)
    programs, missing = [], []
    only = os.environ.get("PG_UNWIND_ONLY", "")  # to look at some rows alone
    for i, row in enumerate(row for row in rows() if re.search(only, row["name"])):
        command = row["command"]
        compiler = shutil.which(command[0]) or (command[0] == "go" and "/usr/local/go/bin/go")
        path = folder / f"pg-unwind-{i}"
        if not compiler or not os.path.exists(compiler):
            missing.append(row["name"])
            continue
        # go wants -o before the source
        done = subprocess.run([compiler, *command[1:-1 if command[0] == "go" else None], "-o", path,
                               *([command[-1]] if command[0] == "go" else [])], capture_output=True, text=True,
                              cwd=folder)  # clang leaves a .dwo there
        if done.returncode != 0 and command[0] in ("rustc", "go", "musl-gcc"):
            missing.append(f"{row['name']} ({command[0]} does not work here)")
            continue
        assert done.returncode == 0, (row["name"], done.stderr)
        if row["after"]:
            row["after"](path)
        programs.append((row, path))
    return folder, programs, missing


def holds(names, chain):
    """Whether the stack begins with the chain; None in it is any one frame."""
    return len(names) >= len(chain) and all(want is None or want == got for want, got in zip(chain, names))


def judge(stacks, chain):
    """Shares of one program's user stacks: (hits, whole of all, whole once settled, of those with every name, of those that
    spin exact)."""
    count = dict.fromkeys(("all", "whole", "late", "late whole", "named", "spinning", "exact"), 0)
    for stack, n in stacks.items():
        names = [name for name, kind in zip(stack.names, stack.kinds) if kind != "kernel"]
        files = [file for file, kind in zip(stack.files, stack.kinds) if kind != "kernel"]
        if not names or "__x64_sys_execve" in stack.names or stack.names == ("0x0",):
            continue  # in exec or exit: there is no user stack
        whole = stack.incomplete is None
        count["all"] += n
        count["whole"] += n * whole
        if stack.first:
            continue
        count["late"] += n
        count["late whole"] += n * whole
        count["named"] += n * all(not name.startswith("0x") or not has_symbols(file) for name, file in zip(names, files))
        if chain and names[0] == chain[0]:
            count["spinning"] += n
            count["exact"] += n * holds(names, chain)
    return (count["all"], count["whole"] / max(count["all"], 1), count["late whole"] / max(count["late"], 1),
            count["named"] / max(count["late"], 1), count["exact"] / count["spinning"] if count["spinning"] else None)


def cpu_seconds(pid):
    """What a process has used of the CPU."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return SECONDS  # it ended: whoever asks next finds that out
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@functools.cache
def has_symbols(name):
    """Whether a library's functions, the local ones too, have names somewhere on this machine."""
    for folder in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-musl", "/lib64"):
        path = pathlib.Path(folder) / name
        if not path.exists():
            continue
        text = subprocess.run(["readelf", "-nSW", path], capture_output=True, text=True).stdout
        build_id = text.partition("Build ID: ")[2].split("\n")[0]
        debug = f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
        return ".symtab" in text or ".gnu_debugdata" in text or (bool(build_id) and os.path.exists(debug))
    return True


class Perf:
    """perf record --call-graph dwarf over some processes; shares() gives the share of complete stacks of each."""

    ROOTS = ("_start", "__libc_start_main", "__libc_start_call_main", "main", "start_thread", "clone", "runtime.goexit",
             "__start_context", "_dl_start_user", "libc_start_main")

    def __init__(self, folder, pids):
        self.data = folder / f"perf-{pids[0]}.data"
        self.process = Process(["perf", "record", "-q", "-e", "cpu-clock:u", "-F", "99", "--call-graph", "dwarf,16384", "-o", self.data,
                                "-p", ",".join(map(str, pids))])

    def shares(self):
        self.process.process.send_signal(signal.SIGINT)
        self.process.wait()
        self.process.close()
        text = subprocess.run(["perf", "script", "-i", self.data, "--no-inline", "-F", "pid,ip,sym"], capture_output=True, text=True).stdout
        self.data.unlink(missing_ok=True)
        count = collections.defaultdict(lambda: [0, 0])
        for block in text.split("\n\n"):
            lines = [line.split(None, 1) for line in block.strip().splitlines()]
            if len(lines) < 2:
                continue
            names = [(line[1] if len(line) > 1 else "").partition("@")[0] for line in lines[1:]]
            count[int(lines[0][0])][0] += 1
            count[int(lines[0][0])][1] += any(n.lstrip("_").startswith(tuple(r.lstrip("_") for r in self.ROOTS)) for n in names[-3:])
        return {pid: whole / hits for pid, (hits, whole) in count.items()}


def run(receiver, folder, programs):
    """Runs the programs two at a time; their pids, and what perf has seen whole of them."""
    pids, perfs = [], {}
    with_perf = os.environ.get("PG_UNWIND_TABLE") and shutil.which("perf")
    for at in range(0, len(programs), 2):
        pair = [Process([path, *[folder / a for a in row["arguments"]]]) for row, path in programs[at:at + 2]]
        with running(*pair):
            perf = Perf(folder, [p.pid for p in pair]) if with_perf else None
            wait_for(lambda: all(cpu_seconds(p.pid) >= SECONDS for p in pair), "their CPU time")
            assert all(p.alive() for p in pair), [row["name"] for row, _ in programs[at:at + 2]]
            pids += [p.pid for p in pair]
            if perf:
                perfs.update(perf.shares())
    return pids, perfs


def test_known_stacks_are_seen_whole(built):
    folder, programs, missing = built
    ours = [argument for _, path in programs for argument in ("--include", f"executable={path.name}")]  # not what else runs here
    with Receiver(first=FIRST) as receiver:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", FREQUENCY,
                          "--interval", "1s", *ours])
        with running(sender):
            started(sender)
            pids, perfs = run(receiver, folder, programs)
            assert sender.stop() == 0, sender.log()
            log = sender.log()
    assert not receiver.errors, receiver.errors[0]
    lines = [f"{'program':36} {'samples':>7} {'from the first':>14} {'settled':>8} {'named':>8} {'exact':>8} {'perf':>8} {'otel':>9}"]
    bad, settled, with_names, judged = [], [], [], 0
    for (row, _), pid in zip(programs, pids):
        stacks = receiver.of(pid)
        hits, whole, late, named, exact = judge(stacks, row["chain"])
        peer = PEER.get("static" if "static" in row["name"] else row["command"][0], "")
        lines.append(f"{row['name']:36} {hits:7} {whole:14.2%} {late:8.2%} {named:8.2%} " +
                     (f"{exact:8.2%}" if exact is not None else " " * 8) +
                     (f" {perfs[pid]:8.2%}" if pid in perfs else " " * 9) + f" {peer:>9}")
        settled.append(late)
        if row["named"]:
            with_names.append(named)
        judged += exact is not None
        if hits < FREQUENCY * SECONDS / 20 or late < LEAST or (exact is not None and exact < LEAST):
            odd = [(n, s.incomplete, s.names[:14], s.names[-3:]) for s, n in sorted(stacks.items(), key=lambda x: -x[1])
                   if not s.first and (s.incomplete or (row["chain"] and not holds(
                       [n for n, k in zip(s.names, s.kinds) if k != "kernel"], row["chain"])))][:3]
            bad.append((lines[-1], odd))
    lines.append(f"{'all':36} {'':7} {'':14} {sum(settled) / len(settled):8.2%} {sum(with_names) / len(with_names):8.2%}" +
                 (f" {'':8} {sum(perfs.values()) / len(perfs):8.2%}" if perfs else ""))
    lines += [f"{name:36} not built here" for name in missing]
    table = "\n".join(lines + log.strip().splitlines()[-2:])
    print("\n" + table)
    if os.environ.get("PG_UNWIND_TABLE"):
        pathlib.Path(os.environ["PG_UNWIND_TABLE"]).write_text(table + "\n")
    assert judged >= len(programs) / 2, table
    assert not bad, "\n".join(f"{line}\n    " + "\n    ".join(map(str, odd)) for line, odd in bad)
    assert sum(settled) / len(settled) >= AIM, table
    assert sum(with_names) / len(with_names) >= NAMED, table


def test_code_that_was_moved_before_we_came_is_known(tmp_path):
    """Its file is in no mapping, and nothing has met it: it is the process's executable."""
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", f"-I{ROOT}", SOURCE / "moved.c", "-o", tmp_path / "moved"], check=True)
    program = Process([tmp_path / "moved"])
    stacks = seen(program, 100, first=FIRST).of(program.pid)
    hits = sum(n for s, n in stacks.items() if not s.first)
    good = sum(n for s, n in stacks.items() if not s.first and not s.incomplete and
               holds([name for name, kind in zip(s.names, s.kinds) if kind != "kernel"], MAIN))
    assert good >= LEAST * hits, stacks


def test_a_stack_that_is_too_deep_says_so(tmp_path):
    program = tmp_path / "endless"
    subprocess.run(["gcc", "-O2", "-DDEPTH=700", "-fno-optimize-sibling-calls", f"-I{ROOT}", SOURCE / "deep.c", "-o", program],
                   check=True)
    busy = Process([program])
    with Receiver() as receiver, running(busy):
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", "97",
                          "--interval", "1s", "--duration", "3s"])
        with running(sender):
            if sender.wait() == 3:
                pytest.skip(f"profiling is not permitted here: {sender.log().strip()[-200:]}")
        cut = [s for s in receiver.of(busy.pid) if s.incomplete == "depth"]
        assert cut and all(sum(k != "kernel" for k in s.kinds) == 512 for s in cut), receiver.of(busy.pid)


def test_a_library_is_not_taken_for_the_one_before(tmp_path):
    """Where one is unloaded and another loaded at its address nothing in a stack says so: the kernel's count of changes does."""
    for i in ("1", "2"):
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", f"-DPAD={i}", "-o", tmp_path / f"plugin-{i}.so", SOURCE / "plugin.c"],
                       check=True)
    subprocess.run(["gcc", "-O2", f"-I{ROOT}", SOURCE / "late.c", "-o", tmp_path / "pg-late", "-ldl"], check=True)
    if tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < (6, 4):
        pytest.skip("this kernel counts no changes of mappings (6.4)")
    busy = Process([tmp_path / "pg-late", tmp_path / "plugin-1.so", tmp_path / "plugin-2.so", "3000"])
    with Receiver() as receiver, running(busy):
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", "97",
                          "--interval", "1s", "--include", "executable=pg-late"])

        def shares():
            if not sender.alive() and sender.wait() == 3:
                pytest.skip(f"profiling is not permitted here: {sender.log().strip()[-200:]}")
            count = collections.Counter()
            for stack, n in receiver.of(busy.pid).items():
                count.update({file: n for name, file in zip(stack.names, stack.files) if name == "plugin_enter"})
            return count

        def is_even():
            """They run for as long as each other, seconds at a time; a sample is drained a quarter of a second later, perhaps behind a change."""
            count = shares()
            return min(count["plugin-1.so"], count["plugin-2.so"]) >= max(100, 0.25 * sum(count.values()))

        with running(sender):
            wait_for(is_even, "samples in both libraries")


@pytest.mark.parametrize("how", ["unlink", "rename", "write", "memfd", "fixed", "remap"])
def test_no_library_is_called_as_another_generation(tmp_path, how):
    """Each of a new library's first samples waits for its tables or for a look at the mappings; by then another one may be there."""
    for i in ("0", "1"):
        subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-fvisibility=hidden", "-shared", "-fPIC", f"-DSHIFT={i}", f"-I{ROOT}", "-o",
                        tmp_path / f"{i}.so", SOURCE / "generation.c"], check=True)
    program = tmp_path / "pg-generations"
    subprocess.run(["gcc", "-O2", f"-I{ROOT}", SOURCE / "generations.c", "-o", program, "-ldl"], check=True)
    with Receiver() as receiver:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", FREQUENCY,
                          "--interval", "1s", "--include", "executable=pg-generations"])
        with running(sender):
            started(sender)
            with running(Process([program, tmp_path / "0.so", tmp_path / "1.so", tmp_path, "20", how])) as busy:
                def told():
                    """Hits by thread's name and those of the generations in it; other threads' names are in none of them."""
                    count = collections.Counter()
                    for stack, n in receiver.of(busy.pid).items():
                        if re.fullmatch(r"g\d{6}", stack.thread):
                            count[stack.thread, frozenset("g" + x[11:17] for x in stack.names if x.startswith("generation_"))] += n
                    return count

                wait_for(lambda: sum(told().values()) >= 2000 and busy.alive(), "samples of the libraries")
            assert sender.stop() == 0, sender.log()
    named = sum(n for (_, names), n in told().items() if names)
    others = {seen: n for seen, n in told().items() if seen[1] - {seen[0]}}
    print(f"{how}: {sum(told().values())} samples, {named} named, {sum(others.values())} by others: {others}")
    assert named >= (1 if how == "write" else 500)
    # What the rest of a walk comes to first when it is looked for is taken for what was there at the sample (run/resumer.c).
    assert sum(others.values()) <= 1, others


@pytest.mark.parametrize("how", ["deleted", "touched"])
def test_a_library_whose_file_was_changed_stays_known(tmp_path, how):
    """As of each program that runs while its libraries are replaced. What the kernel side remembers is each CPU's own: on the next
    one the library is met as if for the first time, as another file."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("a second CPU is needed")
    library = tmp_path / "plugin.so"
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "-DPAD=1", "-o", library, SOURCE / "plugin.c"], check=True)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", f"-I{ROOT}", SOURCE / "late.c", "-o", tmp_path / "pg-replaced", "-ldl"], check=True)
    with Receiver() as receiver:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", "97",
                          "--interval", "1s", "--include", "executable=pg-replaced"])
        with running(sender):
            started(sender)
            with running(Process(["taskset", "-c", str(cpus[0]), tmp_path / "pg-replaced", library, library, "2000000000"])) as busy:
                def spinning():
                    return {stack: n for stack, n in receiver.of(busy.pid).items() if stack.names[0] == "spin"}
                wait_for(lambda: sum(spinning().values()) >= 50, "samples")
                if how == "deleted":
                    library.unlink()
                else:
                    os.utime(library, (0, 0))
                before = spinning()
                os.sched_setaffinity(busy.pid, cpus[1:2])
                wait_for(lambda: sum(spinning().values()) >= sum(before.values()) + 300, "samples on another CPU")
            assert sender.stop() == 0, sender.log()
    late = {stack: n - before.get(stack, 0) for stack, n in spinning().items() if n > before.get(stack, 0)}
    whole = sum(n for stack, n in late.items() if stack.incomplete is None and holds(stack.names, CHAIN + ("plugin_enter", "main")))
    assert whole >= LEAST * sum(late.values()), late


def test_a_library_that_is_written_over_is_read_again(tmp_path):
    """By cp, say: the process runs what is there now, on the CPU that knew it by what was there before."""
    for i in ("1", "2"):
        subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", f"-DPAD={i}", "-o", tmp_path / f"plugin-{i}.so", SOURCE / "plugin.c"],
                       check=True)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", f"-I{ROOT}", SOURCE / "rewritten.c", "-o", tmp_path / "pg-rewritten", "-ldl"], check=True)
    cpu = str(min(os.sched_getaffinity(0)))
    with Receiver() as receiver, running(Process(["taskset", "-c", cpu, tmp_path / "pg-rewritten", tmp_path / "plugin-1.so",
                                                  tmp_path / "plugin-2.so"])) as busy:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", "97",
                          "--interval", "1s", "--include", f"pid={busy.pid}"])

        def exact(caller):
            return sum(n for stack, n in receiver.of(busy.pid).items() if stack.incomplete is None and
                       holds([name for name, kind in zip(stack.names, stack.kinds) if kind != "kernel"], CHAIN + ("plugin_enter", caller, "main")))

        with running(sender):
            started(sender)
            wait_for(lambda: exact("before") >= 100, "samples of the first one")
            os.kill(busy.pid, signal.SIGUSR1)
            wait_for(lambda: exact("after") >= 100, "exact samples of the other")


def test_a_signal_s_handler_of_go_is_no_root(tmp_path):
    """Go ends its own tracebacks there."""
    program = tmp_path / "pg-signalled"
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.path.exists(go):
        pytest.skip("no Go here")
    subprocess.run([go, "build", "-o", program, SOURCE / "signalled.go"], check=True, cwd=tmp_path)
    with Receiver(first=FIRST) as receiver, running(Process([program])) as busy:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", FREQUENCY,
                          "--interval", "1s", "--include", f"pid={busy.pid}"])
        with running(sender):
            started(sender)

            def handling():
                return {stack: n for stack, n in receiver.of(busy.pid).items()
                        if not stack.first and stack.incomplete is None and "runtime.sigtramp" in stack.names}
            wait_for(lambda: sum(handling().values()) >= 20, "samples in the handler")
            assert sender.stop() == 0, sender.log()
    behind = [stack.names[stack.names.index("runtime.sigtramp") + 1:] for stack in handling()]
    assert all(len(names) > 1 and names[0].startswith("runtime.sigreturn") for names in behind), behind


def test_what_a_frame_pointer_says_in_a_file_that_is_none_of_ours_is_a_guess(tmp_path):
    program = tmp_path / "pg-raw"
    subprocess.run(["gcc", "-O2", SOURCE / "raw.c", "-o", program], check=True)
    with Receiver(first=FIRST) as receiver, running(Process([program, tmp_path / "raw"])) as busy:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", "97",
                          "--interval", "1s", "--include", f"pid={busy.pid}"])

        def spinning():
            return {stack: n for stack, n in receiver.of(busy.pid).items() if "main" not in stack.names and not stack.first}
        with running(sender):
            started(sender)
            wait_for(lambda: sum(spinning().values()) >= 100, "samples")
    assert {stack.incomplete for stack in spinning()} <= {"guessed", "cut"}, spinning()


def test_a_frame_pointer_that_generated_code_has_not_made_is_seen(tmp_path):
    """Where such a function begins or ends who calls it is known all the same; one that has none is a guess."""
    program = tmp_path / "pg-generated"
    subprocess.run(["gcc", "-O2", "-fno-omit-frame-pointer", f"-I{ROOT}", SOURCE / "generated.c", "-o", program], check=True)
    with Receiver(first=FIRST) as receiver, running(Process([program])) as busy:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", FREQUENCY,
                          "--interval", "1s", "--include", f"pid={busy.pid}"])
        with running(sender):
            started(sender)

            def hits(begins):
                """Of stacks that lead into generated code: the one behind `begins`, which is called complete or not."""
                found = collections.Counter()
                for stack, n in receiver.of(busy.pid).items():
                    names = [name for name, kind in zip(stack.names, stack.kinds) if kind != "kernel"]
                    at = len(begins)
                    if not stack.first and tuple(names[:at]) == begins and len(names) > at + 1 and names[at].startswith("0x"):
                        found[stack.incomplete is None, names[at + 1]] += n
                return found
            back = CHAIN + ("back",)
            wait_for(lambda: sum(hits(()).values()) >= 200 and sum(hits(back).values()) >= 200, "samples in generated code")
            assert sender.stop() == 0, sender.log()
    assert hits(())[True, "calls_little"] >= LEAST * sum(hits(()).values()), hits(())
    assert not hits(back)[True, "around"], hits(back)


def set_probe(pid, program, symbol, at_end):
    """Has the kernel look when the function of a process begins or ends, as tracers do; a descriptor that keeps it at that."""
    kind, bit = (pathlib.Path("/sys/bus/event_source/devices/uprobe") / name for name in ("type", "format/retprobe"))
    if not bit.exists():
        pytest.skip("this kernel has no probes of programs")
    symbols = subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout
    offset = int(re.search(rf"^(\w+) . {symbol}$", symbols, re.MULTILINE)[1], 16)  # a program that is mapped as it lies in its file
    path = ctypes.create_string_buffer(str(program).encode())
    said = struct.pack("=IIQQQQQIIQQ40x", int(kind.read_text()), 112, at_end << int(bit.read_text().strip().partition(":")[2]), 0, 0, 0, 0, 0, 0,
                       ctypes.addressof(path), offset)
    fd = ctypes.CDLL(None, use_errno=True).syscall(298, ctypes.create_string_buffer(said), pid, -1, -1, 8)  # perf_event_open(2), x86-64
    if fd < 0:
        pytest.skip(f"no probe can be set here: {os.strerror(ctypes.get_errno())}")
    return fd


def test_who_calls_a_function_whose_end_is_probed_is_found(tmp_path):
    """The probe has its own return address where the function's was."""
    program = tmp_path / "pg-probed"
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", f"-I{ROOT}", SOURCE / "plain.c", "-o", program], check=True)
    busy = Process([program])
    with Receiver() as receiver, running(busy):
        probes = [set_probe(busy.pid, program, name, at_end=True) for name in ("chain_a", "chain_b", "spin")]
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", "97",
                          "--interval", "1s", "--include", f"pid={busy.pid}"])
        with running(sender):
            started(sender)

            def spinning():
                return {stack: n for stack, n in receiver.of(busy.pid).items() if stack.names[0] == "spin"}
            wait_for(lambda: sum(spinning().values()) >= 200, "samples")
            assert sender.stop() == 0, sender.log()
        for probe in probes:
            os.close(probe)
    whole = sum(n for stack, n in spinning().items() if stack.incomplete is None and stack.names[:5] == MAIN)
    assert whole >= LEAST * sum(spinning().values()), spinning()


def test_an_instruction_that_a_probe_stands_at_is_where_it_was(tmp_path):
    """It is run as a copy elsewhere, most of the time of a function that does little."""
    program = tmp_path / "pg-probed-begin"
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", f"-I{ROOT}", SOURCE / "library.c", "-o", program], check=True)
    busy = Process([program])
    with Receiver(first=FIRST) as receiver, running(busy):
        begin = set_probe(busy.pid, program, "spin", at_end=False)  # test %rdi, %rdi: none of those that the kernel does itself
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", FREQUENCY,
                          "--interval", "1s", "--include", f"pid={busy.pid}"])

        def sorting():
            return {stack: n for stack, n in receiver.of(busy.pid).items() if not stack.first and any("uprobe" in name for name in stack.names)}

        with running(sender):
            started(sender)
            wait_for(lambda: sum(sorting().values()) >= 200, "samples in the probe")
            assert sender.stop() == 0, sender.log()
        os.close(begin)
    whole = sum(n for stack, n in sorting().items() if stack.incomplete is None and stack.names[stack.kinds.index("native"):][:5] == CHAIN + ("compare",))
    assert whole >= LEAST * sum(sorting().values()), sorting()


def test_who_calls_what_has_to_be_looked_up_first_is_known(tmp_path):
    """The dynamic linker's way to it has a frame that only a register tells of, which the next function has saved."""
    program, library = tmp_path / "pg-lookup", tmp_path / "lookup.so"
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "-DLIBRARY", f"-I{ROOT}", SOURCE / "lookup.c", "-o", library],
                   check=True)
    subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-Wl,-z,lazy", SOURCE / "lookup.c", library, "-o", program], check=True)
    with Receiver(first=FIRST) as receiver, running(Process([program])) as busy:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", FREQUENCY,
                          "--interval", "1s", "--include", f"pid={busy.pid}"])
        with running(sender):
            started(sender)

            def spinning():
                return {stack: n for stack, n in receiver.of(busy.pid).items() if not stack.first and stack.names[0] == "spin"}
            wait_for(lambda: sum(spinning().values()) >= 200, "samples")
            assert sender.stop() == 0, sender.log()
    whole = sum(n for stack, n in spinning().items() if stack.incomplete is None and holds(stack.names, CHAIN + ("chosen",)) and "main" in stack.names)
    assert whole >= LEAST * sum(spinning().values()), spinning()


def test_another_process_s_stack_without_bpf(tmp_path):
    """tests/unwind/record.c: the kernel side's stepping code and the compiled rows, over ptrace(2), as anybody may."""
    recorder, program = tmp_path / "record", tmp_path / "realign"
    libraries = [BUILD / f"{folder}/libpg_{folder.replace('/', '_')}.a"
                 for folder in ("sender/unwind", "sender/procs", "sender/symbolize/go", "sender/symbolize/elf", "sender/foreign", "proto/wire", "proto/base")]
    subprocess.run(["gcc", "-std=gnu17", "-D_GNU_SOURCE", f"-I{ROOT}", SOURCE / "record.c", *libraries, "-o", recorder,
                    "-lmd", "-lz", "-lzstd", "-llzma"], check=True)
    subprocess.run(["gcc", "-O2", f"-I{ROOT}", SOURCE / "realign.c", "-o", program], check=True)
    busy = Process([program])
    with running(busy):
        def deep():
            done = subprocess.run([recorder, str(busy.pid)], capture_output=True, text=True)
            if "cannot look" in done.stderr:
                pytest.skip(f"ptrace(2) is not permitted here: {done.stderr}")
            return done.stdout if done.stdout.count("frame ") >= 10 else None
        text = wait_for(deep, "a whole stack below spin")
    assert "\nend 1\n" in text, text
