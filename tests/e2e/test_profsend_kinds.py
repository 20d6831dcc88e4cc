"""profsend's kinds of samples against programs that measure themselves: what it says adds up to what they say."""
import collections
import contextlib
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import pytest
from machine import libc
from profiles import Receiver
from programs import BUILD, PATIENCE, ROOT, Process, running, wait_for

SOURCE = ROOT / "tests/sender"
# Standard deviations by which what was counted by chance may be off. The suite has fifty such comparisons: at four a right
# program would fail one run in three hundred, at five one in thirty thousand.
SIGMAS = 5
Hit = collections.namedtuple("Hit", "pid kind value names attributes")


RAW = "raw address"


class Kinds(Receiver):
    """Keeps every hit with its kind ("type/unit"), weight and attributes."""

    def __init__(self):
        super().__init__()
        self.hits = []
        self.resources = {}
        self.profiles = []

    def _add(self, request):
        d = request.dictionary

        def value(v):
            kind = v.WhichOneof("value")
            return getattr(v, kind) if kind else None

        def attributes(indices):
            return {d.string_table[d.attribute_table[i].key_strindex]: value(d.attribute_table[i].value) for i in indices}

        # inlined calls are several lines of one location, innermost first; a frame in no file is none that anybody could name
        names = [tuple(d.string_table[d.function_table[line.function_index].name_strindex] for line in l.lines) or ("" if l.mapping_index else RAW,)
                 for l in d.location_table]
        for resource in request.resource_profiles:
            about = {a.key: value(a.value) for a in resource.resource.attributes}
            pid = about.get("process.pid")
            self.resources[pid] = about
            for profile in (p for scope in resource.scope_profiles for p in scope.profiles):
                kind = "/".join(d.string_table[i] for i in (profile.sample_type.type_strindex, profile.sample_type.unit_strindex))
                self.profiles.append((pid, kind, profile.period, attributes(profile.attribute_indices)))
                for sample in profile.samples:
                    stack = tuple(name for i in d.stack_table[sample.stack_index].location_indices for name in names[i])
                    for weight in sample.values or [1] * len(sample.timestamps_unix_nano):
                        self.hits.append(Hit(pid, kind, weight, stack, attributes(sample.attribute_indices)))

    def of(self, pid, kind):
        return [hit for hit in self.hits if hit.pid == pid and hit.kind == kind]

    def total(self, pid, kind):
        return sum(hit.value for hit in self.of(pid, kind))


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    program = tmp_path_factory.mktemp("truth") / "pg-truth"
    subprocess.run(["gcc", "-O2", "-g", "-fno-builtin", "-fno-ipa-icf", SOURCE / "truth.c", "-o", program, "-lpthread"], check=True)
    return program


def profiled(receiver, arguments, *programs):
    """Runs the programs under profsend, which is ended when all have ended; what each printed."""
    sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "1s",
                      *arguments])
    with running(sender):
        wait_for(lambda: "sampling" in sender.log() or not sender.alive(), "profsend at work")
        if not sender.alive() and sender.wait() == 3 and "probing" not in sender.log():
            pytest.skip(f"profiling is not permitted here: {sender.log().strip()[-200:]}")
        at_work = [Process(program) for program in programs]
        with running(*at_work):
            for process in at_work:
                assert process.wait(5 * PATIENCE) == 0, process.log()  # some take seconds of CPU time
            said = [(p.pid, dict((k, float(v)) for k, v in re.findall(r"(\w+)=(\S+)", p.log()))) for p in at_work]
        assert sender.stop() == 0, sender.log()
        print(sender.log())
        receiver.lost, receiver.pending = map(int, re.search(r"own use: .* lost=(\d+) pending=(\d+)", sender.log()).groups())
    assert not receiver.errors, receiver.errors[0]
    return said


def test_a_report_lasts_as_long_as_was_sampled():
    """What it took to load and attach before is no part of the first one: who divides by its duration would have too little."""
    class Durations(Kinds):
        spans = frozenset()

        def _add(self, request):
            super()._add(request)
            self.spans |= {(profile.time_unix_nano, profile.duration_nano) for resource in request.resource_profiles
                           for scope in resource.scope_profiles for profile in scope.profiles}

    with Durations() as receiver, contextlib.ExitStack() as stack:
        for cpu in os.sched_getaffinity(0):  # a CPU of a virtual machine that sleeps has no ticks, not even for perf(1)
            stack.enter_context(running(Process(["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"])))
        sender = stack.enter_context(running(Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf",
                                                      "--frequency", "97", "--idle", "--duration", "2s"])))
        if sender.wait(5 * PATIENCE) == 3:
            pytest.skip(f"profiling is not permitted here: {sender.log().strip()[-200:]}")
        log = sender.log()
    (_, duration), = receiver.spans
    cpus = int(re.search(r"sampling (\d+) CPUs", log).group(1))
    ticks = len([hit for hit in receiver.hits if hit.kind == "samples/count"])
    assert ticks >= 0.93 * 97 * cpus * duration / 1e9, (ticks, cpus, duration, log)


@pytest.mark.parametrize("how", [[], ["--off-cpu-at-leave"]], ids=["at return", "at leave"])
def test_time_off_the_cpu_adds_up(truth, how):
    with Kinds() as receiver:
        (pid, said), = profiled(receiver, ["--no-cpu", "--off-cpu", "--off-cpu-min", "0ms", "--off-cpu-share", "100%",
                                           "--include", "executable=pg-truth", *how], [truth, "sleep", "3"])
        own = [hit for hit in receiver.of(pid, "off_cpu/nanoseconds") if "wait_here" in hit.names]
        slept = sum(hit.value for hit in own if hit.attributes["profsend.off_cpu.state"] == "sleep") / 1e9
        waited = sum(hit.value for hit in own) / 1e9  # with what it lost to others inside the call
        others = [(hit.value, hit.names) for hit in receiver.of(pid, "off_cpu/nanoseconds") if "wait_here" not in hit.names]
        lost = receiver.lost * max(hit.value for hit in own) / 1e9
        assert said["waited"] * 0.98 - lost <= waited <= said["waited"] * 1.02, (slept, waited, said, others)
        assert len(own) + receiver.lost > 0.98 * said["naps"] and receiver.lost < 0.2 * said["naps"], (len(own), receiver.lost)
        assert slept > 0.5 * said["waited"], (slept, said)
        assert all(hit.names[0] == "__schedule" for hit in own), own[0]
        assert {a["profsend.sampling.probability"] for p, k, _, a in receiver.profiles if k == "off_cpu/nanoseconds"} == {"1"}


@pytest.mark.parametrize("how", [[], ["--off-cpu-at-leave"]], ids=["at return", "at leave"])
def test_long_waits_are_likelier_and_sums_stay(truth, how):
    """The default: one hit in a clock's period of time waited; what it estimates is right within the error that this has."""
    with Kinds() as receiver:
        all_said = profiled(receiver, ["--no-cpu", "--frequency", "97", "--off-cpu", "--off-cpu-min", "0ms", "--include",
                                       "executable=pg-truth", *how], *[[truth, "naps", "4"]] * 4, *[[truth, "sleep", "4"]] * 2)
        period = round(1e9 / 97)
        for pids in ([pid for pid, _ in all_said[:4]], [pid for pid, _ in all_said[4:]]):
            own = [hit.value for pid in pids for hit in receiver.of(pid, "off_cpu/nanoseconds") if "wait_here" in hit.names]
            waited, naps, guesses, guessed = (sum(said[what] for pid, said in all_said if pid in pids)
                                              for what in ("waited", "naps", "guesses", "guessed"))
            # A wait of length L that is taken with chance p weighs L / p: the variance is L² (1 - p) / p, and p is L / period. At leave
            # L is not known yet, and p by the longest of the last ones: where a busy machine makes a few of the naps ten times as
            # long, these are taken by chances that were meant for short ones.
            error = SIGMAS * math.sqrt((guessed if how else waited) * period / 1e9)
            assert abs(sum(own) / 1e9 - waited) <= error + 0.02 * waited, (sum(own) / 1e9, waited, error, len(own))
            taken = (guesses if how else waited) / period * 1e9
            assert len(own) <= taken + SIGMAS * math.sqrt(taken), (len(own), taken, waited, naps)
            if not how:  # at leave what a wait stands for is by what the thread's last ones were
                assert min(own) >= period - 1, min(own)
        about = {(p, a["profsend.sampling.probability"]) for _, k, p, a in receiver.profiles if k == "off_cpu/nanoseconds"}
        assert about == {(1000000000 // 97, "min(1, duration/period)")}, about


def test_a_share_of_the_waits_is_scaled_up(truth):
    with Kinds() as receiver:
        (pid, said), = profiled(receiver, ["--no-cpu", "--off-cpu", "--off-cpu-min", "0ms", "--off-cpu-share", "25%",
                                           "--include", "executable=pg-truth"], [truth, "naps", "4"])
        own = [hit for hit in receiver.of(pid, "off_cpu/nanoseconds") if "wait_here" in hit.names]
        waited = sum(hit.value for hit in own) / 1e9
        # Equal naps: the error is that of a binomial count with p = 1/4.
        error = SIGMAS * math.sqrt(3 / said["naps"])
        assert abs(waited / said["waited"] - 1) < error + 0.02, (waited, said, len(own))
        assert {a["profsend.sampling.probability"] for _, k, _, a in receiver.profiles if k.startswith("off")} == {"0.25"}


def test_short_waits_are_left_out(truth):
    with Kinds() as receiver:
        (pid, said), = profiled(receiver, ["--no-cpu", "--off-cpu", "--off-cpu-min", "500ms", "--include",
                                           "executable=pg-truth"], [truth, "naps", "1"])
        assert said["naps"] > 10 and not [h for h in receiver.of(pid, "off_cpu/nanoseconds") if h.value < 5e8]


def test_cpu_time_is_within_the_binomial_error(truth):
    with Kinds() as receiver:
        said = profiled(receiver, ["--frequency", "97", "--include", "executable=pg-truth"], [truth, "spin", "2"],
                        [truth, "half", "2"])
        for pid, own in said:
            expected, got = own["cpu"] * 97, receiver.total(pid, "samples/count")
            assert abs(got - expected) <= SIGMAS * math.sqrt(expected) + 1, (got, expected, own)
        hits = [hit for hit in receiver.of(said[1][0], "samples/count") if {"first", "second"} & set(hit.names)]
        first = sum("first" in hit.names for hit in hits)
        share = said[1][1]["first"] / (said[1][1]["first"] + said[1][1]["second"])
        assert len(hits) > 97
        assert abs(first - share * len(hits)) <= SIGMAS * math.sqrt(len(hits) * share * (1 - share)) + 1, (first, len(hits), share)


# Runs a program and says how often it had to leave its CPU.
COUNT_SWITCHES = ("import resource, subprocess, sys\n"
                  "subprocess.run(sys.argv[1:], check=True)\n"
                  "print(f'switches={resource.getrusage(resource.RUSAGE_CHILDREN).ru_nivcsw}')\n")


def test_page_faults_are_counted_where_they_happen(truth):
    with Kinds() as receiver:
        (_, said), = profiled(receiver, ["--no-cpu", "--event", "page-faults/16", "--include", "executable=pg-truth"],
                              [sys.executable, "-c", COUNT_SWITCHES, truth, "touch", "4096"])
        own = sum(hit.value for hit in receiver.hits if hit.kind == "page_faults/count" and "touch_pages" in hit.names)
        # The counters are one a CPU, and each may keep up to a period. They count everybody's faults: whenever the program had to
        # leave its CPU, where in the period it goes on is chance (two even deviates of a period: variance a sixth of its square).
        error = 16 * (os.cpu_count() + 1) + SIGMAS * 16 * math.sqrt(min(said["switches"], said["pages"] / 16) / 6)
        assert abs(own - said["pages"]) <= error, (own, error, said)


def test_allocations_add_up_to_the_bytes_asked_for(truth):
    with libc(), Kinds() as receiver:
        (pid, said), = profiled(receiver, ["--no-cpu", "--alloc", "libc", "--alloc-interval", "64KiB", "--include",
                                           "executable=pg-truth"], [truth, "alloc", "8000"])
        own = [hit for hit in receiver.of(pid, "alloc_space/bytes") if "want_memory" in hit.names]
        error = SIGMAS * math.sqrt(said["bytes"] / 65536)  # hits of 64 KiB each, taken by chance
        assert abs(sum(h.value for h in own) / 65536 - said["bytes"] / 65536) <= error, (len(own), said)


def test_calls_of_any_function_are_counted(truth):
    with Kinds() as receiver:
        (pid, said), = profiled(receiver, ["--no-cpu", "--probe", f"{truth}:want_memory"], [truth, "alloc", "500"])
        own = receiver.of(pid, "events/count")
        assert len(own) == 500 and all(hit.names[0] == "want_memory" for hit in own), (len(own), said)
        assert {a["profsend.probe"] for _, k, _, a in receiver.profiles if k == "events/count"} == {f"{truth}:want_memory"}


@contextlib.contextmanager
def disk_of_our_own(size):
    """A block device that nobody else writes to: on a shared one a request may be merged into a stranger's, and is none then."""
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        file.truncate(size)
        made = subprocess.run(["losetup", "--find", "--show", "--direct-io=on", file.name], capture_output=True, text=True, check=False)
        if made.returncode:
            pytest.skip(f"no loop device can be made here: {made.stderr.strip()}")
        try:
            yield made.stdout.strip()
        finally:
            subprocess.run(["losetup", "--detach", made.stdout.strip()], check=True)


def test_block_requests_are_timed(truth):
    with disk_of_our_own(8 << 20) as disk, Kinds() as receiver:
        (pid, said), = profiled(receiver, ["--no-cpu", "--block-io", "--include", "executable=pg-truth"],
                                [truth, "direct", "100", disk])
        assert receiver.pending <= 40, "requests whose end the kernel did not tell, as it may not beside other tracers; nor their begin"
        for direction, call in (("write", "pwrite"), ("read", "pread")):
            own = [h for h in receiver.of(pid, "block_io/nanoseconds") if h.attributes.get("disk.io.direction") == direction
                   and any(call in name for name in h.names)]
            assert len(own) + receiver.pending >= 95, (direction, len(own), receiver.pending)
            assert 0 < sum(h.value for h in own) / 1e9 <= said[direction], (direction, said)


def test_more_requests_than_anybody_wants_to_see_add_up(truth):
    """Of a CPU's a thousand a second are taken, and stand for the others: together they say no more than the time there was."""
    with disk_of_our_own(8 << 20) as disk, Kinds() as receiver:
        (pid, said), = profiled(receiver, ["--no-cpu", "--block-io", "--include", "executable=pg-truth"],
                                ["taskset", "-c", str(min(os.sched_getaffinity(0))), truth, "direct", "6000", disk])
        own = [hit.value / 1e9 for hit in receiver.of(pid, "block_io/nanoseconds")]
        took = said["read"] + said["write"]
        assert len(own) < 1100 * took + 5 * 1024, (len(own), said)
        far = SIGMAS * math.sqrt(sum(v * v for v in own))
        # who asked for it may be kept waiting for longer than the device was at it, on a busy machine for most of the time
        assert 0 < sum(own) < took + far, (sum(own), far, len(own), said)


def test_a_request_that_is_merged_ends_there(truth):
    with disk_of_our_own(8 << 20) as disk, Kinds() as receiver:
        about = pathlib.Path("/sys/block", pathlib.Path(disk).name)
        try:
            (about / "queue/scheduler").write_text("mq-deadline", encoding="ascii")  # the one that keeps requests to merge them
            (about / "queue/nr_requests").write_text("1024", encoding="ascii")
        except OSError as e:
            pytest.skip(f"no requests are merged here: {e}")
        (pid, said), = profiled(receiver, ["--no-cpu", "--block-io", "--include", "executable=pg-truth"], [truth, "merge", "150", disk])
        assert said["merged"] >= 150, said
        own = [hit.value / 1e9 for hit in receiver.of(pid, "block_io/nanoseconds")]
        # Its memory serves the next request; who takes that for the first sees it last for the whole rest in between.
        assert len(own) >= 0.7 * said["requests"] and max(own) <= said["longest"], (len(own), max(own), said)


def test_filters_choose_whom_to_sample(truth):
    with Kinds() as receiver:
        said = profiled(receiver, ["--frequency", "97", "--include", "executable=pg-truth", "--include", f"user={os.getuid()}",
                                   "--exclude", "pid=1"], [truth, "spin", "1"], ["sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
        assert receiver.of(said[0][0], "samples/count")
        assert {about["process.executable.name"] for about in receiver.resources.values()} == {"pg-truth"}


def test_an_excluded_program_is_not_sampled(truth):
    with Kinds() as receiver:
        said = profiled(receiver, ["--frequency", "97", "--exclude", "executable=pg-truth"], [truth, "spin", "1"],
                        ["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"])
        # Until it executes the program a process is its parent's copy, and sampled as that.
        own = [h for h in receiver.of(said[0][0], "samples/count") if h.attributes["thread.name"] == "pg-truth"]
        assert not own and receiver.of(said[1][0], "samples/count")


def test_a_cgroup_is_sampled_with_all_below_it(truth):
    root = next((p for p in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified") if os.path.exists(f"{p}/cgroup.procs")
                 and os.path.exists(f"{p}/cgroup.controllers")), None)
    if not root or not os.access(root, os.W_OK):
        pytest.skip("no cgroup of version 2 can be made here")
    group = pathlib.Path(root) / f"pg-test-{os.getpid()}"
    try:
        (group / "below").mkdir(parents=True)
    except OSError as e:
        pytest.skip(f"no cgroup can be made here: {e}")
    try:
        with Kinds() as receiver:
            inside = ["sh", "-c", f"echo $$ > {group}/below/cgroup.procs && exec {truth} spin 1"]
            said = profiled(receiver, ["--frequency", "97", "--include", f"cgroup=/{group.name}"], inside, [truth, "spin", "1"])
            assert receiver.of(said[0][0], "samples/count") and not receiver.of(said[1][0], "samples/count")
    finally:
        (group / "below").rmdir()
        group.rmdir()


@pytest.mark.parametrize("arguments, says", [
    (["--event", "no-such-event"], "page-faults"), (["--no-cpu"], "nothing"), (["--include", "colour=red"], "executable="),
    (["--include", "cgroup=/no/such"], "cgroup"), (["--probe", "nothing"], "FILE:SYMBOL"), (["--off-cpu-share", "0"], "share")])
def test_what_cannot_be_sampled_is_refused_by_name(arguments, says):
    done = subprocess.run([BUILD / "profsend", "--print", "--duration", "1s", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and says in done.stderr, (done.returncode, done.stderr)


def test_a_counter_this_machine_lacks_is_said():
    done = subprocess.run([BUILD / "profsend", "--print", "--duration", "0.3s", "--event", "page-faults", "--event", "LLC-load-misses"],
                          capture_output=True, text=True)
    if done.returncode == 0:
        pytest.skip("this machine has the CPU's counters")
    assert done.returncode == 3 and "opening the counter LLC_load_misses: " in done.stderr and "Linux 5.10" not in done.stderr, done.stderr


def test_a_function_that_is_not_there_is_said(truth):
    done = subprocess.run([BUILD / "profsend", "--print", "--duration", "1s", "--probe", f"{truth}:no_such_function"],
                          capture_output=True, text=True)
    assert done.returncode == 3 and "prob" in done.stderr, (done.returncode, done.stderr)
