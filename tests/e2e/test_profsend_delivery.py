"""How profsend is configured, delivers, reports on itself, and which rights it keeps."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import urllib.request

import pytest
from hanging import ends_without_the_disk, hanging  # noqa: F401 (hanging is a fixture)
from profiles import started
from programs import BUILD, PATIENCE, ROOT, Process, captures, free_port, running, wait_for
from sink import Sink, plain
from test_profsend_kinds import Kinds, truth  # noqa: F401 (truth is a fixture)
from unanswered import unanswered

NEEDED = {"CAP_BPF": 39, "CAP_PERFMON": 38, "CAP_SYS_PTRACE": 19, "CAP_DAC_READ_SEARCH": 2, "CAP_CHECKPOINT_RESTORE": 40,
          "CAP_SYSLOG": 34}


def start(*arguments, **options):
    sender = Process([BUILD / "profsend", "--protocol", "http/protobuf", "--interval", "1s", *arguments], **options)
    started(sender)
    return sender


def taken(sender):
    """(samples, lost, sent, unsent) by its last line."""
    last = [line for line in sender.log().splitlines() if "own use:" in line][-1]
    return tuple(int(re.search(rf"\b{word}=(\d+)", last).group(1)) for word in ("samples", "lost", "sent", "unsent"))


def figure(port, name):
    """Of the status page."""
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE).read().decode()
    return float(re.search(re.escape(name) + r"\s+(\S+)", page).group(1))


def spooled(folder):
    """(requests, samples) in the spool of a profsend that has ended."""
    with contextlib.closing(sqlite3.connect(folder / "profsend.sqlite")) as db:
        return db.execute("SELECT count(*), ifnull(sum(items), 0) FROM record WHERE id > 0").fetchone()


def test_what_few_need_is_not_loaded_for_all(truth):
    """Names, requests in gzip and all: no TLS, no spool, no file of options."""
    if "asan" in subprocess.run(["ldd", BUILD / "profsend"], capture_output=True, text=True).stdout:
        pytest.skip("with sanitizers libraries are linked")
    busy = Process([truth, "spin", "600"])
    with Kinds() as receiver, running(busy):
        sender = start("--endpoint", receiver.url)
        with running(sender):
            wait_for(lambda: receiver.total(busy.pid, "samples/count") > 0, "samples")
            mapped = pathlib.Path(f"/proc/{sender.pid}/maps").read_text()
            assert sender.stop() == 0, sender.log()
    assert "/libbpf." in mapped and not re.search(r"/lib(ssl|crypto|sqlite3|snappy|stdc\+\+|yaml)\b", mapped), mapped


def test_a_receiver_that_is_away_costs_nothing_with_a_spool(truth, tmp_path):
    """Away, and profsend killed meanwhile: what was in windows that had ended arrives, with the next start."""
    spool = tmp_path / "spool"
    port, status = free_port(), free_port()
    busy = Process([truth, "spin", "600"])
    with running(busy):
        first = start("--endpoint", f"http://127.0.0.1:{port}", "--spool", spool, "--frequency", "97", "--status",
                      f"127.0.0.1:{status}")
        with running(first):
            wait_for(lambda: figure(status, "profsend.spool.files") >= 3, "windows on disk")
            first.process.kill()
            first.process.wait()
        waiting, samples = spooled(spool)
        assert waiting >= 3  # the figure counts what was synced
        with Kinds() as receiver:
            second = start("--endpoint", receiver.url, "--spool", spool)
            with running(second):
                wait_for(lambda: len(receiver.hits) >= samples, "what waited to be sent")
                assert second.stop() == 0, second.log()
            assert spooled(spool) == (0, 0)


def size_of(folder):
    """The bytes in its files, of which some may go meanwhile."""
    found = 0
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):
            found += path.stat().st_size
    return found


def test_a_full_spool_drops_the_oldest_and_says_so(truth, tmp_path):
    status = free_port()
    spool = tmp_path / "spool"
    busy = [Process([truth, "spin", "600"]) for _ in range(2)]
    with running(*busy):
        sender = start("--endpoint", f"http://127.0.0.1:{free_port()}", "--spool", spool, "--spool-size", "1MiB", "--off-cpu",
                       "--off-cpu-min", "0ms", "--off-cpu-share", "100%", "--frequency", "997", "--status", f"127.0.0.1:{status}")
        with running(sender):
            wait_for(lambda: figure(status, "profsend.lost{reason=spool_full}"), "the spool to be full")
            assert figure(status, "profsend.spool.size") <= 1 << 20
            assert size_of(spool) <= 16 << 20  # with SQLite's pages and log
            sender.stop()


def test_a_spool_that_hangs_stops_neither_profiling_nor_the_end(truth, hanging, tmp_path):  # noqa: F811
    """The disk says nothing more: what it has and what waits are told apart, samples go on, memory is bounded, no reload ends it,
    and the end comes and says what was lost."""
    mount, server = hanging
    status = free_port()
    busy = [Process([truth, "spin", "600"]) for _ in range(2)]
    with running(*busy):
        sender = start("--endpoint", f"http://127.0.0.1:{free_port()}", "--spool", mount, "--spool-size", "1MiB", "--off-cpu",
                       "--off-cpu-min", "0ms", "--off-cpu-share", "100%", "--frequency", "997", "--status", f"127.0.0.1:{status}")
        with running(sender), contextlib.ExitStack() as stack:
            wait_for(lambda: figure(status, "profsend.spool.files") >= 1, "a window on disk")
            server.process.send_signal(signal.SIGSTOP)
            stack.callback(server.process.send_signal, signal.SIGCONT)  # whatever happens: who waits there cannot be killed
            wait_for(lambda: figure(status, "profsend.spool.waiting") >= 1, "a window that waits")
            on_disk = figure(status, "profsend.spool.files")
            copy = shutil.copytree(tmp_path / "source", tmp_path / "copy")
            assert on_disk <= spooled(copy)[0]  # a commit that is not synced may be there, too
            wait_for(lambda: figure(status, "profsend.lost{reason=spool_full}"), "no more room for what waits")
            samples = figure(status, "profsend.samples")
            wait_for(lambda: figure(status, "profsend.samples") > samples + 1000, "more samples")
            assert figure(status, "profsend.spool.files") == on_disk and sender.rss_kib() < 64 << 10
            wait_for(lambda: "the spool's disk does not answer: " in sender.log(), "that is said")
            sender.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "nothing was changed: the spool's disk does not answer" in sender.log(), "no reload")
            assert ends_without_the_disk(sender, server) == 1, sender.log()
            lost = int(re.search(r"the spool does not answer: (\d+) samples", sender.log()).group(1))
            assert lost > 0 and taken(sender)[3] == lost and "samples were dropped: the spool does not take them" in sender.log()


def test_what_an_earlier_version_left_is_said_and_can_be_sent(tmp_path):
    """It kept a file a request, which nothing reads by itself."""
    spool = tmp_path / "spool"
    spool.mkdir()
    for i, path in enumerate(captures()[:2]):
        shutil.copy(path, spool / f"{i + 42:016x}-317.otlp")
    with running(start("--endpoint", "http://127.0.0.1:1", "--spool", spool)) as sender:
        assert sender.stop() == 0
        said = re.search(r"(\d+) requests that an earlier version left .*: (profgate replay --endpoint) URL (.*) sends", sender.log())
    assert said and said.group(1) == "2", sender.log()
    with Kinds() as receiver:
        done = subprocess.run(f"{BUILD}/{said.group(2)} {receiver.url} --protocol http {said.group(3)}", shell=True, text=True,
                              capture_output=True, timeout=PATIENCE)
    assert done.returncode == 0 and done.stdout == "2 requests acknowledged\n" and not list(spool.glob("*.otlp")), done


class MetricsSink(Sink):
    """Takes OTLP metrics over HTTP; values by (name, attribute)."""

    def __init__(self):
        super().__init__()
        self.values, self.units = {}, {}

    def take(self, path, headers, body):
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
        request = service.ExportMetricsServiceRequest.FromString(plain(headers, body))
        for metric in (m for r in request.resource_metrics for s in r.scope_metrics for m in s.metrics):
            for point in (metric.sum.data_points or metric.gauge.data_points):
                self.values[(metric.name, *(a.value.string_value for a in point.attributes))] = point.as_double
                self.units[metric.name] = metric.unit


def test_it_reports_on_itself(truth):
    with Kinds() as receiver, MetricsSink() as sink:
        busy = Process([truth, "spin", "600"])
        with running(busy):
            sender = start("--endpoint", receiver.url, "--metrics-endpoint", sink.url, "--status", "127.0.0.1:0",
                           "--frequency", "97")
            with running(sender):
                port = wait_for(lambda: re.search(r"status page at port (\d+)", sender.log()), "the status page").group(1)
                wait_for(lambda: sink.values.get(("profsend.samples",), 0) > 200, "figures")
                page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE).read().decode()
                assert sender.stop() == 0
                samples, lost, _, _ = taken(sender)
        assert sink.values[("profsend.samples",)] == samples and sink.values[("profsend.lost", "ring_full")] == lost
        assert sink.values[("process.cpu.time",)] > 0 and sink.values[("process.memory.usage",)] > 1e6
        # CPU seconds a sample, what the start took included: hence 200 of them
        assert 0 < sink.values[("profsend.cost",)] < 0.1 and sink.units["profsend.cost"] == "s"
        assert sink.values[("profsend.unwind.stacks", "complete")] > 0
        for name in ("profsend.samples", "profsend.lost{reason=ring_full}", "profsend.unwind.stacks{end=complete}",
                     "process.memory.usage", "profsend.cost"):
            assert name in page, page


@pytest.mark.parametrize("who", ["receiver", "debuginfod", "kubelet"])
def test_a_name_that_nobody_resolves_does_not_keep_it_from_ending(tmp_path, who):
    if who == "debuginfod" and not list(pathlib.Path("/usr/lib").glob("*/libdebuginfod.so.1")):
        pytest.skip("no libdebuginfod here (apt-get install libdebuginfod1)")
    environment = unanswered(tmp_path)
    if who == "debuginfod":
        environment["DEBUGINFOD_URLS"] = "http://debuginfod.invalid/"
        environment["DEBUGINFOD_CACHE_PATH"] = str(tmp_path / "cache")
    to = {"receiver": ["--endpoint", "http://receiver.invalid:4318"], "debuginfod": ["--print"],
          "kubelet": ["--print", "--kubernetes", "http://kubelet.invalid:10255"]}[who]
    (tmp_path / "busy.c").write_text("int main(void) { for (;;); }")  # without names, so that there is something to ask for
    subprocess.run(["gcc", "-s", "-Wl,--build-id", "busy.c", "-o", "busy"], check=True, cwd=tmp_path)
    sender, busy = Process([BUILD / "profsend", *to, "--interval", "1s"], env=environment), Process([tmp_path / "busy"])
    with running(sender, busy):
        wait_for(lambda: {"asked", "sampling"} <= set(sender.log().split()) or not sender.alive(), "a name that is asked for")
        assert sender.stop() == (1 if who == "receiver" else 0), sender.log()
        assert ("could not be delivered" in sender.log()) == (who == "receiver")


def test_a_stalled_visitor_keeps_nobody_out():
    sender = start("--endpoint", "http://127.0.0.1:1", "--status", "127.0.0.1:0")
    with running(sender):
        port = int(wait_for(lambda: re.search(r"status page at port (\d+)", sender.log()), "the status page").group(1))
        stalled = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=PATIENCE).read().decode()
        assert "profsend.samples" in page
        for s in stalled:
            s.close()
        sender.stop()


def test_a_file_configures_and_sighup_reads_it_again(truth, tmp_path):
    file = tmp_path / "profsend.yaml"
    with Kinds() as receiver:
        file.write_text(f"endpoint: {receiver.url}\nprotocol: http/protobuf\ninterval: 1s\nfrequency: 50\n"
                        "include: [ executable=pg-truth ]\n")
        busy, naps = Process([truth, "spin", "600"]), Process([truth, "naps", "600"])
        with running(busy, naps):
            sender = Process([BUILD / "profsend", "--config", file])
            with running(sender):
                started(sender)
                wait_for(lambda: any(p[2] == 20000000 for p in receiver.profiles), "profiles at 50 Hz")
                file.write_text("frequency: fast\n")
                sender.process.send_signal(signal.SIGHUP)
                wait_for(lambda: "nothing was changed" in sender.log(), "the refusal")
                assert f"{file}:1: frequency" in sender.log()
                file.write_text("endpoint: https://localhost:1\nca-file: /no/such\n")
                sender.process.send_signal(signal.SIGHUP)
                wait_for(lambda: "nothing was changed: /no/such: No such file" in sender.log() or not sender.alive(), "another one")
                file.write_text("status: nowhere\n")
                sender.process.send_signal(signal.SIGHUP)
                wait_for(lambda: 'status: "nowhere" is not ADDRESS:PORT' in sender.log() or not sender.alive(), "a third one")
                file.write_text(f"endpoint: {receiver.url}\nprotocol: http/protobuf\ninterval: 1s\nfrequency: 100\n"
                                "include: [ executable=pg-truth ]\noff-cpu: { min: 2ms, share: 50% }\n")
                sender.process.send_signal(signal.SIGHUP)
                wait_for(lambda: any(p[2] == 10000000 for p in receiver.profiles), "profiles at 100 Hz")
                wait_for(lambda: any(p[3].get("profsend.sampling.probability") == "0.5" for p in receiver.profiles), "waits")
                wait_for(lambda: "Z" not in states_of_children(sender.pid), "an end of all who ran errands for it before")
                assert sender.stop() == 0, sender.log()
        assert {about["process.executable.name"] for pid, about in receiver.resources.items() if pid == busy.pid} == {"pg-truth"}


def test_a_file_that_it_cannot_start_with_ends_nothing(tmp_path):
    """What only a start shows: it goes on with the file it had, and with the next one that is right."""
    file, taken = tmp_path / "profsend.yaml", socket.create_server(("127.0.0.1", 0))
    no_folder = tmp_path / "file"
    no_folder.write_text("")
    good = "endpoint: http://127.0.0.1:1\nfrequency: {}\n"
    file.write_text(good.format(50))
    with running(Process([BUILD / "profsend", "--config", file])) as sender, taken:
        started(sender)
        for line, why in ((f"status: 127.0.0.1:{taken.getsockname()[1]}", "address already in use"),
                          (f"spool: {no_folder}", f"spool folder {no_folder}: "),
                          ("probe: /no/such:function", "/no/such")):
            before = sender.log().count("CPUs at 50 Hz")
            file.write_text(good.format(100) + line + "\n")
            sender.process.send_signal(signal.SIGHUP)
            wait_for(lambda: sender.log().count("CPUs at 50 Hz") > before or not sender.alive(), "its going on")
            told = sender.log().rsplit("SIGHUP: starting anew", 1)[1]
            assert sender.alive() and why in told and "going on with what it had" in told, sender.log()
        file.write_text(good.format(100))
        sender.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "CPUs at 100 Hz" in sender.log() or not sender.alive(), "a start with what is right")
        assert not [o for o in pathlib.Path(f"/proc/{sender.pid}/fd").iterdir() if "memfd" in os.readlink(o)], "texts that stay"
        sender.stop()


def states_of_children(pid):
    tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
    children = [child for task in tasks for child in (task / "children").read_text().split()]
    return [stat.rpartition(")")[2].split()[0] for child in children
            if (stat := contents(pathlib.Path(f"/proc/{child}/stat")))]


def contents(path):
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""


# The search for leaks is a process that traces: a build with AddressSanitizer has no filter of system calls.
SANITIZED = b"__asan_init" in (BUILD / "profsend").read_bytes()


def capabilities(pid, task):
    status = pathlib.Path(f"/proc/{pid}/task/{task}/status").read_text()
    return {name: int(re.search(rf"^{name}:\s+([0-9a-f]+)$", status, re.M).group(1), 16) for name in ("CapEff", "CapPrm", "CapBnd")}, \
        int(re.search(r"^NoNewPrivs:\s+(\d)$", status, re.M).group(1))


def test_it_keeps_only_the_rights_it_uses(truth):
    allowed = sum(1 << bit for bit in NEEDED.values())
    with Kinds() as receiver:
        sender = start("--endpoint", receiver.url, "--frequency", "97")
        with running(sender):
            wait_for(lambda: receiver.hits, "samples")
            for task in pathlib.Path(f"/proc/{sender.pid}/task").iterdir():
                own, no_new = capabilities(sender.pid, task.name)
                assert own["CapEff"] & ~allowed == 0 and own["CapPrm"] & ~allowed == 0, (task.name, own)
                assert own["CapBnd"] & ~(allowed | 1 << 21) == 0, (task.name, own)  # but CAP_SYS_ADMIN, for a reload
                assert no_new == 1, task.name
                status = pathlib.Path(f"/proc/{sender.pid}/task/{task.name}/status").read_text()
                assert SANITIZED or re.search(r"^Seccomp:\s+2$", status, re.M), (task.name, status)
            assert sender.stop() == 0


def test_with_exactly_these_rights_it_does_all(truth, tmp_path):
    """Not root, and the capabilities of the systemd unit: samples of other users' processes, by name, kernel names."""
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv here")
    caps = ",".join("+" + name[4:].lower() for name in NEEDED)
    program = tmp_path.parent / "profsend-for-nobody"
    shutil.copy(BUILD / "profsend", program)
    for folder in [program.parent, *program.parent.parents][:-2]:
        folder.chmod(folder.stat().st_mode | 0o055)
    with Kinds() as receiver:
        busy, naps = Process([truth, "spin", "600"]), Process([truth, "naps", "600"])
        command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", f"-all,{caps}",
                   "--inh-caps", f"-all,{caps}", "--ambient-caps", f"-all,{caps}", program, "--protocol", "http/protobuf",
                   "--endpoint", receiver.url, "--interval", "1s", "--frequency", "97", "--off-cpu",
                   "--include", "executable=pg-truth"]
        with running(busy, naps):
            sender = Process(command)
            with running(sender):
                wait_for(lambda: "sampling" in sender.log() or not sender.alive(), "profsend at work")
                if not sender.alive():
                    assert "setpriv" in sender.log(), sender.log()
                    pytest.skip(f"setpriv cannot do it here: {sender.log()[-200:]}")
                wait_for(lambda: any("spinning" in hit.names for hit in receiver.of(busy.pid, "samples/count")), "named frames")
                wait_for(lambda: any("__schedule" in hit.names for hit in receiver.hits), "kernel names")
                assert receiver.resources[busy.pid]["process.executable.name"] == "pg-truth"
                assert sender.stop() == 0, sender.log()


@pytest.mark.parametrize("missing", ["bpf", "perfmon"])
def test_a_missing_right_is_named(missing):
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv here")
    caps = ",".join("+" + name[4:].lower() for name in NEEDED if name[4:].lower() != missing)
    done = subprocess.run(["setpriv", "--bounding-set", f"-all,{caps}", "--inh-caps", f"-all,{caps}", BUILD / "profsend",
                           "--print", "--duration", "1s"], capture_output=True, text=True)
    if "setpriv:" in done.stderr:
        pytest.skip(f"setpriv cannot do it here: {done.stderr[-200:]}")
    assert done.returncode == 3 and f"CAP_{missing.upper()}" in done.stderr, (done.returncode, done.stderr)


def test_the_systemd_unit_says_what_was_tested(tmp_path):
    unit = ROOT / "scripts/deploy/profsend.service"
    text = unit.read_text()
    for key in ("AmbientCapabilities", "CapabilityBoundingSet"):
        assert set(re.search(rf"^{key}=(.*)$", text, re.M).group(1).split()) == set(NEEDED), key
    options = subprocess.run([BUILD / "profsend", "--help"], capture_output=True, text=True).stdout
    for flag in re.findall(r"--[a-z-]+", re.search(r"^ExecStart=(.*)$", text, re.M).group(1)):
        assert f"  {flag} " in options, flag
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here")
    here = tmp_path / "profsend.service"
    here.write_text(text.replace("/usr/local/bin/profsend", str(BUILD / "profsend")))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", here], capture_output=True, text=True)
    assert "profsend.service" not in done.stderr, done.stderr
