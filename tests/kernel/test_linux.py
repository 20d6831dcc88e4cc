"""profsend on the oldest kernel it promises to run on, 5.10, and on others up to Debian's newest, booted under qemu without KVM.

The guest is ten to thirty times slower than this machine and its two CPUs share ours with everybody, so what is checked is
what does not depend on speed: what adds up to what programs say of themselves, who has a name. Prints
(pytest -s, or PG_KERNEL_TABLE=FILE) the table of known stacks.
"""
import collections
import contextlib
import math
import os
import pathlib
import re
import subprocess

import pytest
from guest import HOST, PATIENCE, Guest, Image, vmlinuz
from profiles import Receiver
from programs import BUILD
from test_profsend_delivery import NEEDED
from test_profsend_kinds import SOURCE as TRUTH
from test_profsend_kinds import Kinds
from test_unwind import SOURCE as CORPUS
from test_unwind import holds, judge, rows

pytestmark = pytest.mark.soak

HERE = pathlib.Path(__file__).resolve().parent
RELEASES = ("5.10", "6.1", "6.12", "7.2")  # of tests/kernel/fetch
COOKIES = (5, 15)  # several events and probes, allocators
MEMLOCK = (5, 11)  # before, BPF's memory is charged to RLIMIT_MEMLOCK
# Of tests/e2e/test_unwind.py's table. Builds that differ only in what the compiler made are left to the faster machine.
STACKS = ("gcc -O2", "clang -O2", "gcc -O2 frame pointer", "gcc -O2 no-pie", "gcc -O2 realigned", "gcc -O2 deep 300",
          "gcc -O2 static", "gcc -O2 static-pie", "gcc -O2 stripped", "gcc -O2 signal", "gcc -O2 signal on its own stack",
          "gcc -O2 libc, vDSO, system calls", "gcc -O2 thread", "gcc -O2 dlopen, dlclose", "gcc -O2 generated code",
          "gcc -O2 coroutine", "g++ -O2 exceptions, templates", "musl -O2 static", "rust -O", "go")
STACKS_FREQUENCY = 97
STACKS_HITS = 100  # of each program, settled, before it is judged: three wrong ones are what STACKS_LEAST allows
# Seconds within which tables of new programs must be there. Compiling them takes the emulated machine two to four, beside all
# of the programs, and longer by as much as our machine does something else.
STACKS_FIRST = 20
STACKS_LEAST = 0.97  # whole, of each program; exact, of each with known names
STACKS_AIM = 0.99    # whole, over all
# Of what the program itself finds (naps.c): 2 % on a real machine, and the time between its look at the clock and the
# scheduler's is longer here.
OFF_CPU_TOLERANCE = 0.04
# A tick that is due while our machine does something else than emulate is no tick: the guest's clock skips it (the kernel's
# hrtimer_forward). Measured: 0.4 to 0.8 of those expected, 0.3 with 20 others at work here.
TICKS_LEAST = 0.1
# Standard deviations by which what was counted by chance may be off: one run in a million fails for nothing.
SIGMAS = 5
FOREVER = 36000  # seconds, of what is ended by its test
CAPABILITIES = ",".join("+" + name[4:].lower() for name in NEEDED)


UNLIMITED = "/usr/bin/prlimit --memlock=unlimited:unlimited "


def unprivileged(capabilities=CAPABILITIES):
    return (f"/usr/bin/setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set -all,{capabilities} "
            f"--inh-caps -all,{capabilities} --ambient-caps -all,{capabilities} ")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """[(row, path)] of the programs with known stacks that can be built here, and the folder."""
    folder = tmp_path_factory.mktemp("corpus")
    for i in (1, 2):
        subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", f"-DPAD={i}", "-o", folder / f"plugin-{i}.so",
                        CORPUS / "plugin.c"], check=True)
    made = []
    for row in (row for row in rows() if row["name"] in STACKS):
        path = folder / f"k{len(made)}"
        command, source = row["command"], []
        if command[0] == "go":  # wants -o before the source
            command, source = ["/usr/local/go/bin/go" if os.path.exists("/usr/local/go/bin/go") else "go", *command[1:-1]], \
                command[-1:]
        try:
            done = subprocess.run([*command, "-o", path, *source], capture_output=True, text=True)
        except FileNotFoundError:
            continue
        if done.returncode == 0:
            made.append((row, path))
        else:
            assert command[0] in ("rustc", "musl-gcc") or command[0].endswith("go"), (row["name"], done.stderr)
    assert len(made) >= len(STACKS) - 3, [row["name"] for row, _ in made]
    return folder, made


@contextlib.contextmanager
def booted(release, folder, paths=()):
    """A Guest with that kernel, profsend, what looks at it and its BPF programs, and the paths."""
    fetched = subprocess.run([HERE / "fetch", release], capture_output=True, text=True)
    if fetched.returncode == 77:
        pytest.skip(fetched.stderr.strip().splitlines()[-1])
    assert fetched.returncode == 0, fetched.stderr
    root = pathlib.Path(fetched.stdout.strip())
    subprocess.run(["gcc", "-O2", HERE / "programs.c", "-o", folder / "programs", "-lbpf"], check=True)
    subprocess.run(["gcc", "-O2", "-g", "-fno-builtin", "-fno-ipa-icf", TRUTH / "truth.c", "-o", folder / "pg-truth", "-lpthread"],
                   check=True)
    subprocess.run(["gcc", "-O2", "-g", HERE / "naps.c", "-o", folder / "pg-naps"], check=True)
    image = Image(root)
    for path in (BUILD / "profsend", folder / "programs", folder / "pg-truth", folder / "pg-naps"):
        image.add(path, f"bin/{path.name}")
    for path in ("/usr/bin/setpriv", "/usr/bin/prlimit", *paths):
        image.add(path)
    image.write(folder / "initramfs")
    with Guest(vmlinuz(root), folder / "initramfs", folder) as machine:
        assert machine.check("uname -r").startswith(release + "."), machine.check("uname -r")
        machine.release = tuple(int(part) for part in release.split("."))
        yield machine


@pytest.fixture(scope="module", params=RELEASES)
def guest(request, corpus, tmp_path_factory):
    folder, made = corpus
    with booted(request.param, tmp_path_factory.mktemp("guest"),
                [path for _, path in made] + sorted(folder.glob("*.so"))) as machine:
        yield machine


def start(guest, receiver, *arguments, prefix=""):
    port = receiver.url.rsplit(":", 1)[1]
    sender = guest.start(f"{prefix}profsend --endpoint http://{HOST}:{port} --protocol http/protobuf --interval 1s "
                         + " ".join(arguments))
    guest.wait_for(lambda: "sampling" in sender.log() or not sender.alive(), "profsend at work", PATIENCE)
    assert sender.alive(), sender.log()
    return sender


def profiled(guest, receiver, arguments, *commands, first=None, seen=None):
    """Runs the commands under profsend, which is ended when all have ended: [(pid, what it said of itself)].

    first: a command that runs again and again before, until a function of the name `seen` is below another one in a hit: until
    the tables are there by which programs of its files are unwound.
    """
    sender = start(guest, receiver, *arguments)
    if first:
        def known():
            guest.check(first)
            return any(seen in hit.names[1:] for hit in list(receiver.hits))
        until(guest, known, f"{seen} in a stack")
    at_work = [guest.start(command) for command in commands]
    for program in at_work:
        if program.command.endswith(" stay"):  # profsend sends once more what it has when it is stopped, before they are
            until(guest, lambda: "=" in program.log(), f"the result of {program.command}")
        else:
            assert program.wait() == 0, program.log()
    said = [(p.pid, {k: float(v) for k, v in re.findall(r"(\w+)=(\S+)", p.log())}) for p in at_work]
    assert sender.stop() == 0, sender.log()
    guest.sweep()
    assert not receiver.errors, receiver.errors[0]
    return said


def until(guest, condition, what):
    guest.wait_for(condition, what, PATIENCE)


def named(guest, receiver, program, *arguments, prefix=""):
    """A program that spins is sampled, with the names of its functions and its own; profsend's log."""
    sender = start(guest, receiver, "--frequency 97", *arguments, prefix=prefix)
    busy = guest.start(f"{program} spin {FOREVER}")
    until(guest, lambda: any("spinning" in hit.names for hit in receiver.of(busy.pid, "samples/count")), "named frames")
    guest.check(f"kill {busy.pid}")
    assert sender.stop() == 0, sender.log()
    assert receiver.resources[busy.pid]["process.executable.name"] == program.rsplit("/", 1)[-1]
    return sender.log()


def show(guest, name, text):
    name = f"{name} on {'.'.join(map(str, guest.release))}"
    print(f"\n{name}\n{text}")
    if os.environ.get("PG_KERNEL_TABLE"):
        with open(os.environ["PG_KERNEL_TABLE"], "a", encoding="utf-8") as f:
            f.write(f"{name}\n{text}\n")


def chains(row):
    """What may be found of a program. Where the first alarm comes before main has called `interrupted`, the next one is due when
    its handler has ended, and so on: a slow machine does not get there for a while, or ever."""
    chain = row["chain"]
    if chain and "interrupted" in chain:
        at = chain.index("interrupted")
        return chain, chain[:at] + ("setitimer", "main"), chain[:at] + ("main",)
    return chain,


def wrong(stacks, chains):
    """The most frequent settled stacks that are not whole, or not one of the chains, as text."""
    found = [(n, s.incomplete, *s.names[:16]) for s, n in sorted(stacks.items(), key=lambda x: -x[1])
             if not s.first and (s.incomplete or not any(holds(s.names, chain or ()) for chain in chains))]
    return "\n".join("    " + " ".join(map(str, line)) for line in found[:4])


def test_known_stacks_are_seen_whole(guest, corpus):
    folder, made = corpus
    with Receiver(first=STACKS_FIRST) as receiver:
        sender = start(guest, receiver, f"--frequency {STACKS_FREQUENCY} --interval 5s")
        # They are the machine's load; that a profiler is to get by with a twentieth of a slow machine is not the point here.
        at_work = [guest.start(f"sh -c 'renice -n 15 $$ >/dev/null; exec {path} " +
                               " ".join(str(folder / a) for a in row["arguments"]) + "'") for row, path in made]

        def settled():
            late = collections.Counter()
            for stack, n in list(receiver.stacks.items()):
                late[stack.pid] += n * (not stack.first)
            return all(late[p.pid] >= STACKS_HITS for p in at_work)
        guest.wait_for(settled, f"{STACKS_HITS} hits of each program", 2 * PATIENCE)
        assert all(p.alive() for p in at_work), [(row["name"], p.log()) for (row, _), p in zip(made, at_work)]
        guest.check(f"kill -9 {' '.join(str(p.pid) for p in at_work)}")
        assert sender.stop() == 0, sender.log()
        log = sender.log()
    assert not receiver.errors, receiver.errors[0]
    lines, bad, whole = [f"{'program':36} {'samples':>7} {'settled':>8} {'exact':>8}"], [], []
    for (row, _), program in zip(made, at_work):
        stacks = receiver.of(program.pid)
        judged = [judge(stacks, chain) for chain in chains(row)]  # no stack holds two of them
        hits, _, late, *_ = judged[0]
        exact = None if judged[0][-1] is None else sum(j[-1] for j in judged)
        whole.append(late)
        lines.append(f"{row['name']:36} {hits:7} {late:8.2%} " + (f"{exact:8.2%}" if exact is not None else ""))
        if late < STACKS_LEAST or (exact is not None and exact < STACKS_LEAST):
            bad.append(f"{lines[-1]}\n{wrong(stacks, chains(row))}")
    lines.append(f"{'all':36} {'':7} {sum(whole) / len(whole):8.2%}")
    show(guest, "known stacks", "\n".join(lines + log.strip().splitlines()[-2:]))
    if bad:
        pytest.fail("\n".join(bad))
    assert sum(whole) / len(whole) >= STACKS_AIM, lines


def off_the_cpu(guest):
    """(what profsend found, what the program itself did), in seconds."""
    with Kinds() as receiver:
        (pid, said), = profiled(guest, receiver, ["--no-cpu --off-cpu --off-cpu-min 0ms --off-cpu-share 100% --include executable=pg-naps"],
                                "pg-naps 4", first="pg-naps 0.5", seen="wait_here")
        own = [hit for hit in receiver.of(pid, "off_cpu/nanoseconds")
               if "wait_here" in hit.names or hit.attributes["profsend.off_cpu.state"] == "sleep"]
    away = sum(hit.value for hit in own) / 1e9
    show(guest, "off the CPU", f"{away:.6f} s of {said}")
    assert all(hit.names[0] == "__schedule" for hit in own), own[0]
    assert sum("wait_here" in hit.names for hit in own) > len(own) * STACKS_LEAST, len(own)
    assert away <= said["passed"], (away, said)  # each wait lies within its call
    return away, said["away"]


def test_time_off_the_cpu_adds_up(guest):
    """Before 6.16 the stack is taken as the thread leaves: there is no sched_exit_tp."""
    # What profsend does wrong it does every time. That our machine leaves the emulated one standing between the scheduler's look
    # at the clock and ours, time and again, it does not.
    found = []
    while not found or abs(found[-1][0] / found[-1][1] - 1) > OFF_CPU_TOLERANCE:
        assert len(found) < 3, found
        found.append(off_the_cpu(guest))


def test_cpu_time_is_shared_as_it_is(guest):
    """By the rounds the program went, not by its clock, which goes on while our machine leaves the emulated one standing."""
    with Kinds() as receiver:
        (pid, said), = profiled(guest, receiver, ["--frequency 97"], "pg-truth half 6",
                                first="pg-truth spin 0.3", seen="spinning")
        expected, got = said["cpu"] * 97, receiver.total(pid, "samples/count")
        hits = [hit for hit in receiver.of(pid, "samples/count") if {"first", "second"} & set(hit.names)]
        first, share = sum("first" in hit.names for hit in hits), said["first_rounds"] / (said["first_rounds"] + said["second_rounds"])
        show(guest, "CPU time", f"{got} samples of {expected:.0f} ticks; {first / max(len(hits), 1):.3f} in first, {share:.3f} by its "
             f"rounds, {said['first'] / (said['first'] + said['second']):.3f} by its clock")
        assert TICKS_LEAST * expected <= got <= expected + SIGMAS * math.sqrt(expected), (got, expected)
        assert len(hits) > 0.9 * got, (len(hits), got)
        assert abs(first - share * len(hits)) <= SIGMAS * math.sqrt(len(hits) * share * (1 - share)) + 1, (first, len(hits), share)


def test_page_faults_allocations_and_calls_are_counted(guest):
    with Kinds() as receiver:
        (touched, pages), (allocating, asked) = profiled(
            guest, receiver, ["--no-cpu --event page-faults/16",
                              "--alloc libc --alloc-interval 64KiB" if guest.release >= COOKIES else "",
                              "--probe /bin/pg-truth:want_memory --include executable=pg-truth"],
            "pg-truth touch 4096 stay", "pg-truth alloc 2000 stay", first="pg-truth alloc 200",
            seen="want_memory" if guest.release >= COOKIES else "main")
        own = sum(hit.value for hit in receiver.of(touched, "page_faults/count") if "touch_pages" in hit.names)
        # A counter is a CPU's: who makes it overflow gets the whole period, whoever else had a part in it. So n faults of a turn
        # on a CPU count as the next multiple of the period above or below, by where the counter stood: with a standard deviation
        # of half a period at most. One period more where touching begins.
        assert abs(own - pages["pages"]) <= 16 / 2 * SIGMAS * math.sqrt(pages["turns"]) + 16, (own, pages)
        if guest.release >= COOKIES:
            taken = [hit for hit in receiver.of(allocating, "alloc_space/bytes") if "want_memory" in hit.names]
            expected = asked["bytes"] / 65536
            assert abs(sum(hit.value for hit in taken) / 65536 - expected) <= SIGMAS * math.sqrt(expected), (len(taken), expected)
        calls = receiver.of(allocating, "events/count")
        assert len(calls) == 2000 and all(hit.names[0] == "want_memory" for hit in calls), len(calls)


def test_what_this_kernel_cannot_give_is_said_and_the_rest_sampled(guest):
    if guest.release >= COOKIES:
        pytest.skip("it can all")
    with Kinds() as receiver:
        (pid, _), = profiled(guest, receiver, ["--frequency 97 --alloc libc --event page-faults/16 --event cpu-migrations"],
                             "pg-truth spin 1 stay")
        assert receiver.of(pid, "samples/count") and not [h for h in receiver.hits if h.kind not in ("samples/count", "page_faults/count")]
    status, output = guest.run("profsend --print --duration 1s --no-cpu --alloc libc")
    assert status == 3 and "alloc_space is not sampled on this kernel" in output and "nothing is left to sample" in output, output


def test_a_limit_of_locked_memory_is_said(guest):
    if guest.release >= MEMLOCK:
        pytest.skip("it is the cgroup's memory")
    guest.check("sysctl -w kernel.perf_event_paranoid=2")
    status, output = guest.run(f"prlimit --memlock=65536:65536 {unprivileged()} profsend --print --duration 1s")
    guest.check("sysctl -w kernel.perf_event_paranoid=3")
    assert status == 3 and "RLIMIT_MEMLOCK is 64 KiB" in output, (status, output)


def test_block_requests_are_timed(guest):
    with Kinds() as receiver:
        (pid, said), = profiled(guest, receiver, ["--no-cpu --block-io --include executable=pg-truth"],
                                "pg-truth direct 50 /dev/vda")
        for direction, call in (("write", "pwrite"), ("read", "pread")):
            own = [h for h in receiver.of(pid, "block_io/nanoseconds") if h.attributes.get("disk.io.direction") == direction
                   and any(call in name for name in h.names)]
            assert len(own) >= 50, (direction, len(own), len(receiver.hits))
            assert 0 < sum(h.value for h in own) / 1e9 <= said[direction], (direction, said)


def test_short_processes_have_names(guest):
    """Each lives for 20 ms of CPU time, of which eight ticks are due, and TICKS_LEAST of these come. Hence as many rounds of them
    as it takes until enough were met, all of which have a name."""
    with Kinds() as receiver:
        sender = start(guest, receiver, "--frequency 397 --include executable=pg-truth")

        def enough():
            guest.check("for i in $(seq 20); do pg-truth spin 0.02 >/dev/null; done")
            inside = {hit.pid for hit in list(receiver.hits) if {"first", "second", "burn"} & set(hit.names)}
            return len(receiver.resources) >= 36 and len(inside) >= 10  # with tables: in the first second there are none yet
        until(guest, enough, "samples of 36 short processes, of 10 with names of functions")
        assert sender.stop() == 0, sender.log()
        assert not receiver.errors, receiver.errors[0]
        assert {about.get("process.executable.name") for about in receiver.resources.values()} == {"pg-truth"}, receiver.resources


def test_filters_choose_whom_to_sample(guest):
    loop = "sh -c 'i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done; echo done=1'"
    with Kinds() as receiver:
        said = profiled(guest, receiver, ["--frequency 97 --exclude executable=pg-truth"], "pg-truth spin 1", loop)
        # before execve it was the shell; in exit there is no executable to go by any more
        assert not [h for h in receiver.of(said[0][0], "samples/count")
                    if h.attributes["thread.name"] == "pg-truth" and "do_exit" not in h.names]
        assert receiver.of(said[1][0], "samples/count")
    guest.check("mkdir -p /sys/fs/cgroup/chosen")
    with Kinds() as receiver:
        said = profiled(guest, receiver, ["--frequency 97 --include cgroup=/chosen"],
                        "sh -c 'echo $$ >/sys/fs/cgroup/chosen/cgroup.procs; exec pg-truth spin 1'", "pg-truth spin 1")
        assert receiver.total(said[0][0], "samples/count") >= TICKS_LEAST * 97 * said[0][1]["cpu"], said
        assert not receiver.of(said[1][0], "samples/count")


def test_a_cpu_that_goes_and_comes_back_is_sampled(guest):
    """Root's, with Debian's kernel.perf_event_paranoid=3: clocks of new CPUs take CAP_SYS_ADMIN there, which is kept for them."""
    cpu1 = "/sys/devices/system/cpu/cpu1/online"
    assert guest.check("cat /proc/sys/kernel/perf_event_paranoid").strip() == "3"
    with Kinds() as receiver:
        sender = start(guest, receiver, "--frequency 97")
        try:
            guest.check(f"echo 0 >{cpu1}")
            gone = guest.start(f"pg-truth spin {FOREVER}")
            until(guest, lambda: receiver.of(gone.pid, "samples/count"), "samples with one CPU")
            guest.check(f"sleep 3; echo 1 >{cpu1}; kill {gone.pid}")  # windows end in between
            busy = guest.start(f"taskset 2 pg-truth spin {FOREVER}")
            until(guest, lambda: len(receiver.of(busy.pid, "samples/count")) > 97, "samples of the CPU that is back")
            guest.check(f"kill {busy.pid}")
        finally:
            guest.run(f"echo 1 >{cpu1}")
        assert sender.stop() == 0, sender.log()
        assert {hit.attributes["cpu.logical_number"] for hit in receiver.of(busy.pid, "samples/count")} >= {1}


def test_six_capabilities_are_enough_where_perf_events_ask_for_no_more(guest):
    """And, before 5.11, LimitMEMLOCK=infinity."""
    guest.check("sysctl -w kernel.perf_event_paranoid=3")
    status, output = guest.run(f"{unprivileged()} profsend --print --duration 2s")
    assert status == 3 and "perf_event_paranoid above 2" in output and "set it to 2" in output, output
    guest.check("sysctl -w kernel.perf_event_paranoid=2")
    try:
        # a busy program of root's that only root may read
        guest.check("cp /bin/pg-truth /tmp/pg-secret; chmod 700 /tmp/pg-secret")
        with Kinds() as receiver:
            assert "missing" not in named(guest, receiver, "/tmp/pg-secret", "--off-cpu", prefix=UNLIMITED + unprivileged())
            assert any("__schedule" in hit.names for hit in receiver.hits)
        # and what it does not have it says: the rest goes on, with whatever /proc hides
        fewer = ",".join(c for c in CAPABILITIES.split(",") if c not in ("+sys_ptrace", "+dac_read_search"))
        guest.check("mount -o remount,hidepid=2 /proc")
        with Kinds() as receiver:
            sender = start(guest, receiver, "--frequency 97", prefix=UNLIMITED + unprivileged(fewer))
            busy = guest.start(f"/tmp/pg-secret spin {FOREVER}")
            until(guest, lambda: receiver.total(busy.pid, "samples/count") > 97, "samples")
            guest.check(f"kill {busy.pid}")
            assert "CAP_SYS_PTRACE is missing" in sender.log() and "CAP_DAC_READ_SEARCH is missing" in sender.log(), sender.log()
            assert sender.stop() == 0, sender.log()
            assert receiver.resources[busy.pid]["process.executable.name"] == "pg-secret"  # execve said so
        with Kinds() as receiver:
            assert "missing" not in named(guest, receiver, "/tmp/pg-secret", prefix=UNLIMITED + unprivileged())
    finally:
        guest.check("mount -o remount,hidepid=0 /proc")
        guest.check("sysctl -w kernel.perf_event_paranoid=3")


def test_without_btf_it_says_so(guest):
    guest.check("mount -t tmpfs none /sys/kernel/btf")
    try:
        status, output = guest.run("profsend --print --duration 1s")
    finally:
        guest.check("umount /sys/kernel/btf")
    assert status == 3 and "CONFIG_DEBUG_INFO_BTF" in output, (status, output)


def test_nobody_may_trace(guest):
    """Which cannot be taken back before the next boot: the last but one."""
    guest.check("sysctl -w kernel.yama.ptrace_scope=3")
    with Kinds() as receiver:
        assert "kernel.yama.ptrace_scope is 3" in named(guest, receiver, "/bin/pg-truth")


def test_lockdown(guest):
    """Integrity lets us work, confidentiality does not, and the refusal says so. Raised for good: the last test."""
    guest.check("echo integrity >/sys/kernel/security/lockdown")
    with Kinds() as receiver:
        named(guest, receiver, "/bin/pg-truth")
    guest.check("echo confidentiality >/sys/kernel/security/lockdown")
    status, output = guest.run("profsend --print --duration 1s")
    assert status == 3 and "lockdown" in output and "confidentiality" in output, (status, output)
