"""profsend's own unwinder over programs whose stacks are known, built with every compiler and flag that matters.

Prints (pytest -s, or PG_UNWIND_TABLE=FILE) a table: per program the samples, the share of complete stacks from the program's
first sample on and once it is known, and of stacks that are exactly as they must be.
"""
import os
import pathlib
import shutil
import subprocess
import time

import pytest
from profiles import Receiver
from programs import BUILD, ROOT, Process, running, wait_for

SOURCE = ROOT / "tests/unwind"
FREQUENCY = 999
SECONDS = float(os.environ.get("PG_UNWIND_SECONDS", "1"))
FIRST = 0.3  # seconds within which a new program's tables must be there, on a busy machine
AIM = 0.995  # the share of stacks that must be whole then, over all programs
LEAST = 0.97  # and of each, whose few hundred samples have a few that strayed (between two libraries, in the loader)

CHAIN = ("spin", "chain_c", "chain_b", "chain_a")
MAIN = CHAIN + ("main",)


def c(name, flags, *, source="plain.c", chain=MAIN, compiler="gcc", arguments=(), link=(), after=None):
    """A row of the table: how a program is built, and the names its spinning stacks hold, leaf first."""
    return dict(name=name, command=[compiler, *flags.split(), f"-I{ROOT}", SOURCE / source, *link], chain=chain, arguments=arguments,
                after=after)


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
    yield c("gcc -O2 stripped", "-O2 -s", chain=None)
    yield c("gcc -O2 no section headers", "-O2 -s", chain=None, after=no_section_headers)
    yield c("gcc -O2 static stripped", "-O2 -static -s", chain=None)
    yield c("gcc -O2 signal", "-O2", source="signal.c", chain=CHAIN + ("handler", None, "interrupted", "main"))
    yield c("gcc -O2 signal on its own stack", "-O2", source="altstack.c",
            chain=CHAIN + ("handler", None, "interrupted", "main"))
    yield c("gcc -O2 libc, vDSO, system calls", "-O2", source="library.c", chain=CHAIN + ("compare",))
    yield c("gcc -O2 lazy PLT", "-O2 -Wl,-z,lazy", source="library.c", chain=CHAIN + ("compare",))
    yield c("gcc -O2 thread", "-O2", source="threads.c", chain=CHAIN + ("thread",), link=["-lpthread"])
    yield c("gcc -O2 dlopen, dlclose", "-O2", source="late.c", chain=CHAIN + ("plugin_enter", "main"), link=["-ldl"],
            arguments=("plugin-1.so", "plugin-2.so"))
    yield c("gcc -O2 generated code", "-O2", source="jit.c", chain=CHAIN + (None, "main"))
    yield c("gcc -O2 coroutine", "-O2", source="coroutine.c", chain=CHAIN + ("body",))
    yield c("g++ -O2 exceptions, templates", "-O2", source="throw.cc", chain=CHAIN, compiler="g++")
    yield c("clang++ -O2 exceptions, templates", "-O2", source="throw.cc", chain=CHAIN, compiler="clang++")
    yield c("musl -O2", "-O2", compiler="musl-gcc")
    yield c("musl -O2 static", "-O2 -static", compiler="musl-gcc")
    yield c("musl -O2 signal", "-O2", source="signal.c", compiler="musl-gcc",
            chain=CHAIN + ("handler", None, "interrupted", "main"))
    for name, flags in (("debug", ""), ("-O", "-O"), ("-O panic=abort", "-O -C panic=abort"),
                        ("-O stripped", "-O -C strip=symbols")):
        yield dict(name=f"rust {name}", command=["rustc", *flags.split(), SOURCE / "chain.rs"],
                   chain=None if "stripped" in name else CHAIN, arguments=(), after=None)
    for name, flags in (("", ()), ("stripped", ("-ldflags=-s -w",))):
        yield dict(name=f"go {name}".strip(), command=["go", "build", *flags, SOURCE / "chain.go"],
                   chain=tuple(f"main.{name}" for name in MAIN), arguments=(), after=None)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """name → (row, path), and the names of what cannot be built here."""
    folder = tmp_path_factory.mktemp("unwind")
    for i, pad in (("1", 1), ("2", 2)):
        subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", f"-DPAD={pad}", "-o",
                        folder / f"plugin-{i}.so", SOURCE / "plugin.c"], check=True)
    programs, missing = [], []
    for i, row in enumerate(rows()):
        command = row["command"]
        compiler = shutil.which(command[0]) or (command[0] == "go" and "/usr/local/go/bin/go")
        path = folder / f"p{i}"
        if not compiler or not os.path.exists(compiler):
            missing.append(row["name"])
            continue
        # go wants -o before the source
        done = subprocess.run([compiler, *command[1:-1 if command[0] == "go" else None], "-o", path,
                               *([command[-1]] if command[0] == "go" else [])], capture_output=True, text=True)
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
    """Shares of one program's user stacks: (hits, whole of all, whole once settled, of those that spin exact)."""
    count = dict.fromkeys(("all", "whole", "late", "late whole", "spinning", "exact"), 0)
    for stack, n in stacks.items():
        names = [name for name, kind in zip(stack.names, stack.kinds) if kind != "kernel"]
        if not names or "__x64_sys_execve" in stack.names or stack.names == ("0x0",):
            continue  # in exec or exit: there is no user stack
        whole = stack.incomplete is None
        count["all"] += n
        count["whole"] += n * whole
        if stack.first:
            continue
        count["late"] += n
        count["late whole"] += n * whole
        if chain and names[0] == chain[0]:
            count["spinning"] += n
            count["exact"] += n * holds(names, chain)
    return (count["all"], count["whole"] / max(count["all"], 1), count["late whole"] / max(count["late"], 1),
            count["exact"] / count["spinning"] if count["spinning"] else None)


def run(receiver, folder, programs):
    """Runs the programs two at a time; their pids."""
    pids = []
    for at in range(0, len(programs), 2):
        pair = [Process([path, *[folder / a for a in row["arguments"]]]) for row, path in programs[at:at + 2]]
        with running(*pair):
            time.sleep(SECONDS)  # how long it is sampled, not a wait for something
            assert all(p.alive() for p in pair), [row["name"] for row, _ in programs[at:at + 2]]
            pids += [p.pid for p in pair]
    return pids


def test_known_stacks_are_seen_whole(built):
    folder, programs, missing = built
    with Receiver(first=FIRST) as receiver:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", FREQUENCY,
                          "--interval", "1s"])
        with running(sender):
            wait_for(lambda: "sampling" in sender.log() or not sender.alive(), "profsend at work", 30)
            if not sender.alive() and sender.wait() == 3:
                pytest.skip(f"profiling is not permitted here: {sender.log().strip()[-200:]}")
            pids = run(receiver, folder, programs)
            assert sender.stop() == 0, sender.log()
            log = sender.log()
    assert not receiver.errors, receiver.errors[0]
    lines, bad, settled = [f"{'program':36} {'samples':>7} {'from the first':>14} {'settled':>8} {'exact':>8}"], [], []
    named = 0
    for (row, _), pid in zip(programs, pids):
        stacks = receiver.of(pid)
        hits, whole, late, exact = judge(stacks, row["chain"])
        lines.append(f"{row['name']:36} {hits:7} {whole:14.2%} {late:8.2%} " + (f"{exact:8.2%}" if exact is not None else ""))
        settled.append(late)
        named += exact is not None
        if hits < FREQUENCY * SECONDS / 20 or late < LEAST or (exact is not None and exact < LEAST):
            odd = [(n, s.incomplete, s.names[:14], s.names[-3:]) for s, n in sorted(stacks.items(), key=lambda x: -x[1])
                   if not s.first and (s.incomplete or (row["chain"] and not holds(
                       [n for n, k in zip(s.names, s.kinds) if k != "kernel"], row["chain"])))][:3]
            bad.append((lines[-1], odd))
    lines.append(f"{'all':36} {'':7} {'':14} {sum(settled) / len(settled):8.2%}")
    lines += [f"{name:36} not built here" for name in missing]
    table = "\n".join(lines + log.strip().splitlines()[-2:])
    print("\n" + table)
    if os.environ.get("PG_UNWIND_TABLE"):
        pathlib.Path(os.environ["PG_UNWIND_TABLE"]).write_text(table + "\n")
    assert named >= len(programs) / 2, table
    assert not bad, "\n".join(f"{line}\n    " + "\n    ".join(map(str, odd)) for line, odd in bad)
    assert sum(settled) / len(settled) >= AIM, table


def test_a_stack_that_is_too_deep_says_so(tmp_path):
    program = tmp_path / "endless"
    subprocess.run(["gcc", "-O2", "-fno-optimize-sibling-calls", f"-I{ROOT}", SOURCE / "endless.c", "-o", program], check=True)
    busy = Process([program])
    with Receiver() as receiver, running(busy):
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", "97",
                          "--interval", "1s", "--duration", "3s"])
        with running(sender):
            if sender.wait(60) == 3:
                pytest.skip(f"profiling is not permitted here: {sender.log().strip()[-200:]}")
        cut = [s for s in receiver.of(busy.pid) if s.incomplete == "depth"]
        assert cut and all(sum(k != "kernel" for k in s.kinds) == 512 for s in cut), receiver.of(busy.pid)


def test_another_process_s_stack_without_bpf(tmp_path):
    """tests/unwind/record.c: the kernel side's stepping code and the compiled rows, over ptrace(2), as anybody may."""
    recorder, program = tmp_path / "record", tmp_path / "realign"
    libraries = [BUILD / f"{folder}/libpg_{folder.split('/')[-1]}.a"
                 for folder in ("sender/unwind", "sender/procs", "sender/symbolize", "proto/base")]
    subprocess.run(["gcc", "-std=gnu17", "-D_GNU_SOURCE", f"-I{ROOT}", SOURCE / "record.c", *libraries, "-o", recorder,
                    "-lcrypto"], check=True)
    subprocess.run(["gcc", "-O2", f"-I{ROOT}", SOURCE / "realign.c", "-o", program], check=True)
    busy = Process([program])
    with running(busy):
        def deep():
            done = subprocess.run([recorder, str(busy.pid)], capture_output=True, text=True)
            if "cannot look" in done.stderr:
                pytest.skip(f"ptrace(2) is not permitted here: {done.stderr}")
            return done.stdout if done.stdout.count("frame ") >= 10 else None
        text = wait_for(deep, "a whole stack below spin", 30)
    assert "\nend 1\n" in text, text
