"""What an operator does to a gateway under load: many reloads a second, and a stop in the middle of one. Sums are exact."""
import itertools
import os
import pathlib
import random
import re
import signal
import subprocess
import threading
import time

import attack_content as hostile
import pytest
from programs import BUILD, PATIENCE, Gateway, Process, captures, running, wait_for
from test_load import load, result, samples_in
from test_reload import outcome, reload, rules_taken, total_of

FILES = captures("ebpf-*.pb")[:4]
RULES = """rules 1
pack mine
counter mine.all    { unit "1" on "samples/count" value one }
counter mine.NAME { unit "1" on "samples/count" value one }
"""
RELOADS, A_SECOND, FIRST = 200, 20, 50
KEPT = 8 << 10  # KiB that memory may grow by after FIRST reloads: 55 KiB for each of the others


def write_rules(folder, name, more=""):
    """At once: a reload may read while this is written."""
    (folder / "new.rules").write_text(RULES.replace("NAME", name) + more)
    (folder / "new.rules").replace(folder / "mine.rules")


def start(folder, more=""):
    write_rules(folder, "even", more)
    return Gateway(listen=1, config=f"rules: {{ files: [{folder}/mine.rules] }}\nservice: {{ shutdown_timeout: {PATIENCE}s }}\n"
                   "metrics: { flush_interval: 200ms, exporters: [prometheus, file/out] }\n"
                   f"exporters: {{ file/out: {{ path: {folder}/out.jsonl }} }}\n")


def descriptors(gateway):
    return len(os.listdir(f"/proc/{gateway.pid}/fd"))


def turning(n):
    return "odd" if n % 2 else "even"


def test_twenty_reloads_a_second(tmp_path):
    per_file = samples_in(FILES)
    seconds = RELOADS // A_SECOND
    with running(start(tmp_path)) as gateway:
        sending = load(gateway, "--protocol", "grpc", "--connections", 8, "--requests", 400 * (seconds + 1), "--rate", 400, files=FILES)
        wait_for(lambda: gateway.total("profgate_connections") == 8, "all connections")
        begin, first = time.monotonic(), None
        for i in range(1, RELOADS + 1):
            write_rules(tmp_path, turning(i))
            if i % 2:
                gateway.process.send_signal(signal.SIGHUP)
            else:
                assert reload(gateway)[0] in (200, 202)
            if i == FIRST:
                first = descriptors(gateway), gateway.rss_kib("VmRSS")
            time.sleep(max(0, begin + i / A_SECOND - time.monotonic()))
        last = descriptors(gateway), gateway.rss_kib("VmRSS")
        print("descriptors, KiB:", first, last, "taken:", rules_taken(gateway))
        good = result(sending)
        assert good["errors"] == 0
        samples = sum(n * each for n, each in zip(good["acknowledged"], per_file))
        # Two that are asked for at once are one: on a slow machine fewer are done, and still many.
        assert rules_taken(gateway) > FIRST and "refused" not in gateway.log()
        # One of the pages, asked for the moment before, may still be closing.
        assert last[0] <= first[0] + 2 and last[1] < first[1] + KEPT
        was = outcome(gateway)
        assert was[0] == 1
        (tmp_path / "mine.rules").write_text("nonsense")
        gateway.process.send_signal(signal.SIGHUP)
        wait_for(lambda: outcome(gateway) == (0, was[1]), "the bad one told")
        assert gateway.stop() == 0
    totals = total_of(tmp_path / "out.jsonl")
    assert totals["mine.all"] == samples == totals["mine.even"] + totals["mine.odd"]
    assert min(totals["mine.even"], totals["mine.odd"]) > 0


class Clients:
    """Send without a pause until they are refused; n counts what was acknowledged."""

    def __init__(self, gateway, bodies):
        self.n = [0] * len(bodies)
        self.threads = [threading.Thread(target=self.send, args=(gateway, i, body)) for i, body in enumerate(bodies)]
        for thread in self.threads:
            thread.start()

    def send(self, gateway, i, body):
        try:
            while gateway.post(body)[0] == 200:
                self.n[i] += 1
        except OSError:  # nobody listens any more
            pass

    def acknowledged(self):
        for thread in self.threads:
            thread.join()
        return self.n


# Much to read and compile, so that a reload takes longer than it does with two metrics.
SLOW = "".join(f'counter mine.n{i} {{ unit "1" on "samples/count" value one where any frame is (go and "nobody{i}.*") }}\n' for i in range(900))


@pytest.mark.parametrize("seed", range(4))
def test_a_stop_during_a_reload_and_a_reload_during_a_stop(tmp_path, seed):
    """Whichever comes in the middle of the other, it ends in time, with 0, and what was acknowledged is delivered."""
    per_file, r = samples_in(FILES), random.Random(f"stop {seed}")
    with running(start(tmp_path, SLOW)) as gateway:
        clients = Clients(gateway, [path.read_bytes() for path in FILES])
        wait_for(lambda: min(clients.n) > 0, "every client heard")
        write_rules(tmp_path, "odd", SLOW)
        gateway.process.send_signal(signal.SIGHUP)
        time.sleep(r.uniform(0, 0.2))
        gateway.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + PATIENCE
        while gateway.alive() and time.monotonic() < end:
            gateway.process.send_signal(signal.SIGHUP)
            time.sleep(0.001)
        assert gateway.wait(0) == 0
        samples = sum(n * each for n, each in zip(clients.acknowledged(), per_file))
    totals = total_of(tmp_path / "out.jsonl")
    assert totals["mine.all"] == samples == totals.get("mine.even", 0) + totals.get("mine.odd", 0)


MIB = 1 << 20


def in_cgroup(memory_max, *flags):
    """profgate serve where the file that says what the cgroup allows says this; the file alone, as no cgroup is made."""
    place = "mount -t tmpfs tmpfs /sys/fs/cgroup && echo $0 >/sys/fs/cgroup/memory.max"
    if subprocess.run(["unshare", "-m", "sh", "-c", place, "0"], stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("no tmpfs can be mounted over /sys/fs/cgroup here")
    return ["unshare", "-m", "sh", "-c", f'{place} && exec "$@"', memory_max, BUILD / "profgate", "serve", *flags]


@pytest.mark.parametrize("memory_max, flags, memory, largest", [
    (64 * MIB, [], "32MiB", "16MiB"),
    (24 * MIB, [], "16MiB", "8MiB"),
    ("max", [], "512MiB", "64MiB"),
    (64 * MIB, ["--set", "limits.memory=200MiB"], "200MiB", "16MiB"),
    (64 * MIB, ["--set", "limits.request_bytes=40MiB"], "80MiB", "40MiB"),
])
def test_the_default_of_limits_memory_follows_the_cgroup(memory_max, flags, memory, largest):
    argv = in_cgroup(str(memory_max), *flags, "--print-config")
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^limits:\n  request_bytes: (\w+)\n  memory: (\w+)$", said, re.M).groups() == (largest, memory)


@pytest.mark.parametrize("flags, said", [
    ([], f"info  memory limit={32 * MIB} request_bytes={16 * MIB} cgroup={64 * MIB}\n"),
    (["--set", "limits.memory=60MiB"], f"warn  limits.memory={60 * MIB}, and the cgroup allows the whole process {64 * MIB} bytes"),
])
def test_what_the_cgroup_allows_is_said_at_the_start(flags, said):
    here = ["--listen", "127.0.0.1:0", "--set", "admin.endpoint=127.0.0.1:0"]
    with running(Process(in_cgroup(str(64 * MIB), *here, *flags))) as gateway:
        wait_for(lambda: "ready version=" in gateway.log() or not gateway.alive(), "profgate ready")
        assert said in gateway.log()
        assert gateway.stop() == 0


@pytest.fixture()
def cgroup():
    """A memory cgroup (version 1 or 2) that allows 64 MiB: its folder, and how many it has killed."""
    if "asan" in subprocess.run(["ldd", BUILD / "profgate"], capture_output=True, text=True).stdout:
        pytest.skip("with sanitizers memory is another")
    first = pathlib.Path("/sys/fs/cgroup/memory")
    is_first = (first / "memory.limit_in_bytes").exists()
    folder = (first if is_first else first.parent) / f"profgate-test-{os.getpid()}"
    try:
        folder.mkdir()
        try:
            (folder / ("memory.limit_in_bytes" if is_first else "memory.max")).write_text(str(64 * MIB))
        except OSError:
            folder.rmdir()
            raise
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    events = folder / ("memory.oom_control" if is_first else "memory.events")
    yield folder, lambda: int(re.search(r"^oom_kill (\d+)$", events.read_text(), re.M).group(1))
    wait_for(lambda: not (folder / "cgroup.procs").read_text(), "everybody to leave the cgroup")
    folder.rmdir()


def test_a_gateway_in_a_cgroup_refuses_before_the_kernel_ends_it(cgroup, tmp_path):
    """Large, gzipped and hostile requests, much more at once than there is room for: refused, counted, and the end is in order."""
    folder, kills = cgroup
    files = []
    for kind in ("services", "strings", "stacks"):
        for size in (MIB, 8 * MIB):
            files.append(tmp_path / f"{kind}-{size}")
            files[-1].write_bytes(hostile.build(kind, size))
    with running(Gateway(preexec_fn=lambda: (folder / "cgroup.procs").write_text(str(os.getpid())))) as gateway:
        loads = [subprocess.Popen([BUILD / "bench/load", "--port", str(gateway.ports[0]), "--protocol", protocol, "--connections", "4",
                                   "--requests", "60", *(["--gzip", "6"] if protocol == "grpc" else []), path],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                 for path, protocol in zip(files, itertools.cycle(("http", "grpc")))]
        for load in loads:
            load.wait(timeout=5 * PATIENCE)
        assert gateway.alive() and kills() == 0, gateway.log()
        told = {outcome: gateway.total("profgate_requests_total", outcome=outcome) for outcome in ("accepted", "refused", "busy")}
        assert told["accepted"] > 0 and told["refused"] + told["busy"] > 0, told
        wait_for(lambda: gateway.post(captures()[0].read_bytes())[0] == 200, "a small request is taken again")
        assert gateway.stop() == 0
    assert kills() == 0
