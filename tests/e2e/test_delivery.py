"""What was acknowledged arrives: kill -9, full, damaged and read-only disks; and one harmed destination that harms nobody else."""
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import pytest
import sink as base
from programs import BUILD, PATIENCE, PROFILES_PATH, Gateway, captures, free_port, running, wait_for

SMALL = min(captures("ebpf-*.pb"), key=lambda p: p.stat().st_size).read_bytes()
MARK = 1000  # a top-level field that no schema has: it passes through untouched, and says which request it is


def marked(number):
    """A request that nobody else sends."""
    return SMALL + b"\xc2\x3e\x08" + struct.pack("<Q", number)  # field 1000, length-delimited, 8 bytes


def number_of(body):
    return struct.unpack("<Q", body[-8:])[0]


class Sink(base.Sink):
    """An OTLP/HTTP destination that counts what it took by number."""

    def __init__(self, port=0):
        super().__init__(port)
        self.status, self.asked = 200, 0
        self.taken = {}
        self.lock = threading.Lock()

    def take(self, path, headers, body):
        with self.lock:
            self.asked += 1
            status = self.status() if callable(self.status) else self.status
            if status == 200:
                number = number_of(body)
                self.taken[number] = self.taken.get(number, 0) + 1
        return status, b""


@pytest.fixture()
def sink():
    with Sink() as started:
        yield started


@pytest.fixture()
def folder():
    with tempfile.TemporaryDirectory(prefix="pg-storage-") as path:
        yield pathlib.Path(path)


FAST = "retry_on_failure: { initial_interval: 20ms, max_interval: 100ms }"


def stored(sink, folder, more="", queue="", profiles=""):
    return f"""
profiles: {{ exporters: [otlp/sink]{profiles} }}
exporters:
  otlp/sink: {{ endpoint: 'http://127.0.0.1:{sink.port}', protocol: http, compression: none, {FAST},
               sending_queue: {{ storage: {folder}/storage{queue} }}{more} }}
"""


def files(folder, pattern):
    return sorted((folder / "storage").glob(pattern))


class Load:
    """Producers that send marked requests one after the other and note which were acknowledged."""

    def __init__(self, numbers):
        self.numbers, self.acknowledged, self.refused, self.seconds = numbers, set(), 0, []
        self.lock = threading.Lock()

    def run(self, port, stop, pause=0.0):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        try:
            while not stop.is_set():
                with self.lock:
                    number = next(self.numbers)
                began = time.monotonic()
                connection.request("POST", PROFILES_PATH, marked(number), {"Content-Type": "application/x-protobuf"})
                answer = connection.getresponse()
                answer.read()
                with self.lock:
                    self.seconds.append(time.monotonic() - began)
                    if answer.status == 200:
                        self.acknowledged.add(number)
                    else:
                        self.refused += 1
                time.sleep(pause)
        except (OSError, http.client.HTTPException):
            pass  # it was killed: no answer is no acknowledgement
        finally:
            connection.close()

    def on(self, gateway, seconds, producers=4, pause=0.0):
        """Runs for so long; whoever wants may kill the gateway meanwhile."""
        stop = threading.Event()
        threads = [threading.Thread(target=self.run, args=(gateway.ports[0], stop, pause)) for _ in range(producers)]
        for t in threads:
            t.start()
        time.sleep(seconds)
        return stop, threads

    def end(self, stop, threads):
        stop.set()
        for t in threads:
            t.join()


def counter():
    n = 0
    while True:
        n += 1
        yield n


def test_kill_9_loses_nothing_that_was_acknowledged(sink, folder, request):
    """At random moments, with the destination there, refusing for now, and away in turn."""
    rounds = 200 if request.config.getoption("--soak") else 20
    load, rng = Load(counter()), random.Random(7)
    for i in range(rounds):
        sink.status = [200, 503, lambda: rng.choice([200, 200, 503])][i % 3]
        gateway = Gateway(config=stored(sink, folder))
        try:
            stop, threads = load.on(gateway, rng.uniform(0.02, 0.4))
            os.kill(gateway.pid, signal.SIGKILL)
            gateway.process.wait()
            load.end(stop, threads)
        finally:
            gateway.close()
    sink.status = 200
    assert len(load.acknowledged) > rounds  # on a busy machine, too
    with running(Gateway(config=stored(sink, folder))) as gateway:
        wait_for(lambda: load.acknowledged <= sink.taken.keys(), "everything acknowledged to arrive")
        assert gateway.total("profgate_forward_dropped_samples_total") == 0
        assert gateway.stop() == 0
    twice = sum(n - 1 for n in sink.taken.values())
    print(f"{rounds} rounds: {len(load.acknowledged)} acknowledged, {len(load.acknowledged - sink.taken.keys())} lost, "
          f"{twice} delivered again, {len(sink.taken.keys() - load.acknowledged)} delivered that were not acknowledged")
    with running(Gateway(config=stored(sink, folder))) as gateway:
        assert "sending what an earlier process left" not in gateway.log()


def test_a_destination_that_is_away_at_the_end_gets_it_after_the_restart(sink, folder):
    sink.status = 503
    with running(Gateway(config=stored(sink, folder))) as gateway:
        for i in range(30):
            assert gateway.post(marked(i))[0] == 200
        assert gateway.stop() == 0  # and soon: nothing has to be delivered
        assert "stays on disk for the next start destination=otlp/sink requests=30 bytes=" in gateway.log()
        assert gateway.log().count("stays on disk") == 1
    sink.status = 200
    with running(Gateway(config=stored(sink, folder))) as gateway:
        wait_for(lambda: len(sink.taken) == 30, "what was left")
        assert gateway.total("profgate_export_requests_total", signal="profiles", outcome="sent") == 30
    assert set(sink.taken.values()) == {1}


def test_more_than_memory_has_room_for_waits_on_disk_and_arrives_in_order(sink, folder):
    order = []
    sink.status = 503
    with running(Gateway(config=stored(sink, folder, queue=", queue_size: 3, num_consumers: 1"))) as gateway:
        for i in range(50):
            assert gateway.post(marked(i))[0] == 200
        take, sink.take = sink.take, lambda p, h, body: (order.append(number_of(body)), take(p, h, body))[1]
        sink.status = 200
        wait_for(lambda: len(sink.taken) == 50, "all that waited on disk")
        assert order[1:] == sorted(order[1:])
        assert gateway.post(marked(50))[0] == 200  # and then it is passed on at once again
        wait_for(lambda: 50 in sink.taken, "the next one")


def test_two_gateways_do_not_share_a_folder(sink, folder):
    with running(Gateway(config=stored(sink, folder))) as gateway:
        path = pathlib.Path(gateway.folder.name) / "profgate.yaml"
        done = subprocess.run([BUILD / "profgate", "serve", "--config", path, "--listen", "127.0.0.1:0", "--set",
                               "admin.endpoint=127.0.0.1:0"], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode != 0 and "in use by another process" in done.stderr


def test_what_is_refused_for_good_becomes_a_dead_letter_and_is_sent_again(sink, folder):
    sink.status = 400
    with running(Gateway(config=stored(sink, folder, queue=", dead_letters: true"))) as gateway:
        for i in range(3):
            assert gateway.post(marked(i))[0] == 200
        letters = wait_for(lambda: (f := files(folder, "*.dead/*.pb")) and len(f) == 3 and f, "three dead letters")
        wait_for(lambda: gateway.total("profgate_dead_letters_total") == 3, "them counted")
        assert gateway.total("profgate_forward_dropped_samples_total") == gateway.total("profgate_samples_total")
    assert sorted(p.read_bytes() for p in letters) == [marked(i) for i in range(3)]
    counted = subprocess.run([BUILD / "profgate", "count", letters[0]], capture_output=True, text=True, timeout=PATIENCE)
    assert counted.returncode == 0, counted.stderr
    replay = [BUILD / "profgate", "replay", "--endpoint", f"http://127.0.0.1:{sink.port}", "--protocol", "http", "--remove",
              letters[0].parent]
    refused = subprocess.run(replay, capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode == 1 and "HTTP 400" in refused.stderr and len(files(folder, "*.dead/*.pb")) == 3
    sink.status = 200
    done = subprocess.run(replay, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert set(sink.taken) == {0, 1, 2} and files(folder, "*.dead/*.pb") == []


def test_a_letter_that_could_not_be_kept_is_not_counted(sink, folder):
    sink.status = 400
    with running(Gateway(config=stored(sink, folder, queue=", dead_letters: true"))) as gateway:
        (folder / "storage" / "otlp-sink.profiles.dead").rmdir()
        assert gateway.post(marked(0))[0] == 200
        wait_for(lambda: "a dead letter could not be kept" in gateway.log(), "the loss said")
        wait_for(lambda: gateway.total("profgate_export_queue_bytes") == 0, "the request gone")
        assert gateway.total("profgate_dead_letters_total") == 0


def test_what_storage_does_not_keep_is_said(sink, folder):
    for more, lost in (("", True), (", retry_on_failure: { max_elapsed_time: 0 }", False)):
        config = stored(sink, folder).replace(", " + FAST, more)
        with running(Gateway(config=config)) as gateway:
            assert ("retry_on_failure.max_elapsed_time: 0 keeps it" in gateway.log()) == lost


@pytest.fixture()
def tmpfs(folder):
    """A disk of 4 MiB."""
    place = folder / "storage"
    place.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place]).returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def fill(disk):
    """With one file, `ballast`."""
    try:
        with open(disk / "ballast", "wb") as f:
            while True:
                f.write(bytes(1 << 12))
                f.flush()
    except OSError:
        pass


def test_a_disk_that_stays_full_gives_what_is_on_it_and_lets_the_gateway_end(sink, folder, tmpfs):
    """Deletions need room, too: what is read back does not wait for them."""
    sink.status = 503
    with running(Gateway(config=stored(sink, folder, queue=", queue_size: 2", profiles=", when_full: refuse"))) as gateway:
        for i in range(12):
            assert gateway.post(marked(i))[0] == 200
        fill(tmpfs)
        wait_for(lambda: gateway.post(marked(1000))[0] == 503, "a refusal")
        sink.status = 200
        wait_for(lambda: set(range(12)) <= sink.taken.keys(), "what was acknowledged")
        assert gateway.stop() == 0


def test_a_disk_smaller_than_storage_size_is_used_again_when_all_is_delivered(sink, folder, tmpfs):
    sink.status = 503
    acknowledged = []
    with running(Gateway(config=stored(sink, folder, queue=", queue_size: 2", profiles=", when_full: refuse"))) as gateway:
        while (status := gateway.post(marked(len(acknowledged)))[0]) == 200:
            acknowledged.append(len(acknowledged))
        assert status == 503 and len(acknowledged) > 10
        sink.status = 200
        wait_for(lambda: set(acknowledged) <= sink.taken.keys(), "what was acknowledged")
        wait_for(lambda: gateway.post(marked(1000))[0] == 200, "room again")


@pytest.mark.parametrize("when_full", ["refuse", "drop"])
def test_a_full_disk_is_said_and_over_when_it_is(sink, folder, tmpfs, when_full):
    sink.status = 503
    with running(Gateway(config=stored(sink, folder, queue=", queue_size: 2", profiles=f", when_full: {when_full}"))) as gateway:
        acknowledged, answers = [], []
        for i in range(2000):
            if i == 10:
                fill(tmpfs)
            answers.append(gateway.post(marked(i)))
            acknowledged += [i] * (answers[-1][0] == 200)
            if "the storage takes nothing" in gateway.log():
                break
        assert "the storage takes nothing" in gateway.log()
        wait_for(lambda: gateway.total("profgate_storage_failing") == 1, "it to be shown")
        assert gateway.total("profgate_storage_failures_total") > 0
        assert 0 <= time.time() - gateway.total("profgate_storage_failing_since_timestamp_seconds") < PATIENCE
        if when_full == "refuse":
            status, headers, _ = wait_for(lambda: (a := gateway.post(marked(5000)))[0] == 503 and a, "a refusal")
            assert "retry-after" in headers
        else:
            before = gateway.total("profgate_forward_dropped_samples_total")
            wait_for(lambda: gateway.post(marked(5000))[0] == 200 and
                     gateway.total("profgate_forward_dropped_samples_total") > before, "samples dropped and counted")
        (tmpfs / "ballast").unlink()
        sink.status = 200
        wait_for(lambda: gateway.post(marked(6000))[0] == 200 and 6000 in sink.taken, "requests to be taken again")
        wait_for(lambda: gateway.total("profgate_storage_failing") == 0, "it to be over")
        assert gateway.total("profgate_storage_failing_since_timestamp_seconds") == 0
        if when_full == "refuse":
            wait_for(lambda: set(acknowledged) <= sink.taken.keys(), "what was acknowledged")


def test_a_full_disk_that_refuses_counts_what_it_promised(sink, folder, tmpfs):
    """Whoever is refused comes again, each second or sooner: only the request in which the disk was found out was counted."""
    sink.status = 503
    with running(Gateway(config=stored(sink, folder, queue=", queue_size: 2", profiles=", when_full: refuse"))) as gateway:
        assert gateway.post(marked(0))[0] == 200
        each, taken = gateway.total("profgate_samples_total"), 1
        fill(tmpfs)
        while gateway.post(marked(taken))[0] == 200:
            taken += 1
        failures = gateway.total("profgate_storage_failures_total")
        def tried_again():
            assert gateway.post(marked(taken))[0] == 503
            return gateway.total("profgate_storage_failures_total") > failures + 2
        wait_for(tried_again, "the disk tried again, and again")
        assert gateway.total("profgate_samples_total") == each * (taken + 1)
        (tmpfs / "ballast").unlink()
        wait_for(lambda: gateway.post(marked(taken))[0] == 200, "room again")
        assert gateway.total("profgate_samples_total") == each * (taken + 2)


def test_a_removed_folder_is_noticed_and_made_again(sink, folder):
    sink.status = 503
    with running(Gateway(config=stored(sink, folder, queue=", queue_size: 2", profiles=", when_full: refuse"))) as gateway:
        for i in range(10):
            assert gateway.post(marked(i))[0] == 200
        shutil.rmtree(folder / "storage")
        assert gateway.post(marked(10))[0] == 200
        assert "the storage was removed" in gateway.log()
        os.kill(gateway.pid, signal.SIGKILL)
    sink.status = 200
    with running(Gateway(config=stored(sink, folder))):
        wait_for(lambda: set(range(11)) <= sink.taken.keys(), "what was acknowledged before and after")


@pytest.mark.parametrize("bound", ["storage_size: 4MiB", "queue_bytes: 64KiB"])
def test_what_is_larger_than_there_ever_is_room_for_is_refused_for_good(sink, folder, bound):
    large = SMALL + b"\xc2\x3e\x84\x80\x80\x03" + bytes(6 << 20 | 4)  # field 1000
    config = stored(sink, folder, queue=f", {bound}", profiles=", when_full: refuse")
    if "queue" in bound:
        config = config.replace(f"storage: {folder}/storage, ", "")
    with running(Gateway(config=config)) as gateway:
        status, headers, body = gateway.post(large)
        assert status == 413 and "retry-after" not in headers and b"larger than a destination" in body, (status, body)
        assert gateway.post(marked(1))[0] == (200 if "storage" in bound or len(SMALL) < 65536 else 413)


def test_a_read_only_disk_is_told_at_the_start(sink, folder, tmpfs):
    subprocess.run(["mount", "-o", "remount,ro", tmpfs], check=True)
    path = folder / "profgate.yaml"
    path.write_text(stored(sink, folder))
    done = subprocess.run([BUILD / "profgate", "serve", "--config", path, "--listen", "127.0.0.1:0", "--set",
                           "admin.endpoint=127.0.0.1:0"], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode != 0 and "Read-only file system" in done.stderr, done.stderr


@pytest.mark.parametrize("harm", ["flip", "truncate", "noise"])
def test_a_damaged_file_costs_what_is_damaged_and_the_rest_goes_on(sink, folder, harm):
    sink.status = 503
    with running(Gateway(config=stored(sink, folder))) as gateway:
        for i in range(40):
            assert gateway.post(marked(i))[0] == 200
        gateway.stop()
    path, = files(folder, "*.sqlite")
    data = bytearray(path.read_bytes())
    if harm == "flip":
        data[len(data) // 2] ^= 0xFF
    elif harm == "truncate":
        data = data[:len(data) // 2]
    else:
        data[:] = random.Random(1).randbytes(len(data))
    path.write_bytes(data)
    sink.status = 200
    with running(Gateway(config=stored(sink, folder))) as gateway:
        assert gateway.post(marked(1000))[0] == 200
        wait_for(lambda: 1000 in sink.taken, "a new one")
        wait_for(lambda: gateway.total("profgate_storage_damaged_total") > 0, "the damage counted")
        if harm != "flip":
            aside, = files(folder, "*.damaged-*[0-9]")
            assert aside.name in gateway.log()
        left = {"flip": 39, "truncate": 10, "noise": 0}[harm]
        wait_for(lambda: len(sink.taken) >= left + 1, "what could be read")


# ---- one harmed destination ----


class Hostile:
    """A destination of raw sockets that does to each request what `mode` says."""

    def __init__(self, mode):
        self.mode, self.requests, self.stopping = mode, 0, threading.Event()
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.stopping.is_set():
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        reader = connection.makefile("rb")
        try:
            while self.one(connection, reader):
                pass
        except OSError:
            pass
        finally:
            reader.close()
            connection.close()

    def one(self, connection, reader):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = reader.readline()
            if not line:
                return False
            head += line
        self.requests += 1
        mode = self.mode
        if mode == "flaps":
            mode = ["resets", "refuses", "lies", "500"][self.requests % 4]
        if mode == "hangs":
            self.stopping.wait()
            return False
        if mode == "resets":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        length = int(re.search(rb"content-length: (\d+)", head, re.I).group(1))
        reader.read(length)
        if mode == "slow":
            self.stopping.wait(2)
        status, kind, body = {"slow": (200, "application/x-protobuf", b""), "refuses": (503, "text/plain", b"no"),
                              "lies": (200, "text/html", b"<html>welcome</html>"), "500": (500, "text/plain", b"bad data"),
                              "silent": (200, "application/x-protobuf", b"")}[mode]
        connection.sendall(b"HTTP/1.1 %d x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" %
                           (status, kind.encode(), len(body), body))
        return True

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stopping.set()
        self.socket.close()


def two(good, harmed, folder, durable):
    storage = f"storage: {folder}/storage, " if durable else ""
    exporters = "[otlp/good" + (", otlp/harmed" if harmed else "") + "]"
    text = f"""
profiles: {{ exporters: {exporters} }}
exporters:
  otlp/good: {{ endpoint: 'http://127.0.0.1:{good.port}', protocol: http, compression: none, {FAST},
               sending_queue: {{ {storage}queue_size: 1000 }} }}
"""
    if harmed:
        text += f"""
  otlp/harmed: {{ endpoint: 'http://127.0.0.1:{harmed.port}', protocol: http, compression: none, {FAST}, timeout: 3s,
                 sending_queue: {{ {storage}queue_size: 20 }} }}
"""
    return text


def elsewhere(folder):
    (folder / "elsewhere").mkdir()
    return folder / "elsewhere"


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "storage"])
@pytest.mark.parametrize("mode", ["slow", "hangs", "resets", "refuses", "lies", "500", "silent", "flaps"])
def test_a_harmed_destination_harms_nobody_else(mode, durable, folder):
    """The other one gets everything, and producers wait no longer than without it: both gateways in the same seconds."""
    with Sink() as alone, Sink() as beside, Hostile(mode) as harmed, \
            running(Gateway(config=two(alone, None, elsewhere(folder), durable))) as first, \
            running(Gateway(config=two(beside, harmed, folder, durable))) as second:
        loads = Load(counter()), Load(counter())
        runs = [load.on(gateway, 0, producers=2, pause=0.005) for load, gateway in zip(loads, (first, second))]
        time.sleep(3)
        for load, run in zip(loads, runs):
            load.end(*run)
        for load, sink in zip(loads, (alone, beside)):
            assert load.refused == 0 and len(load.acknowledged) > 20
            wait_for(lambda: sink.taken.keys() == load.acknowledged, "everything where nobody is harmed")
            assert set(sink.taken.values()) == {1}
        assert harmed.requests > 0
        assert second.total("profgate_samples_total") == len(loads[1].acknowledged) * first.total("profgate_samples_total") / len(loads[0].acknowledged)
        usual, harmed_too = (sorted(load.seconds)[len(load.seconds) * 99 // 100] for load in loads)
        # Alone the destination is mostly quicker than the disk; a disk that others write to as well may take seconds for a commit.
        assert harmed_too < 3 * usual + (3 if durable else 0.25), (usual, harmed_too)
        print(f"{mode}: p99 {usual * 1e3:.1f} ms alone, {harmed_too * 1e3:.1f} ms beside it; "
              f"{second.total('profgate_forward_dropped_samples_total'):.0f} samples dropped there")


MORTAL = """
import http.server, os, struct, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        number = struct.unpack("<Q", self.rfile.read(int(self.headers["Content-Length"]))[-8:])[0]
        with open(sys.argv[2], "a") as f:
            f.write(f"{number}\\n")
        if number == 666:
            os._exit(1)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *arguments):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_request_that_ends_its_destination_is_not_repeated_for_ever(folder):
    """And those beside it arrive."""
    port, heard, stopping = free_port(), folder / "heard", threading.Event()
    heard.touch()
    ends = []

    def restart():
        while not stopping.is_set():
            process = subprocess.Popen(["python3", "-c", MORTAL, str(port), heard])
            while process.poll() is None:
                if stopping.wait(0.05):
                    process.kill()
            process.wait()
            ends.append(1)
            stopping.wait(0.3)  # long enough for somebody to knock

    def numbers():
        return [int(line) for line in heard.read_text().splitlines()]

    supervisor = threading.Thread(target=restart)
    supervisor.start()
    try:
        config = f"""
profiles: {{ exporters: [otlp/sink] }}
exporters: {{ otlp/sink: {{ endpoint: 'http://127.0.0.1:{port}', protocol: http, compression: none, {FAST} }} }}
"""
        with running(Gateway(config=config)) as gateway:
            for number in (1, 2, 3, 666, 4, 5, 6):
                assert gateway.post(marked(number))[0] == 200
            wait_for(lambda: "ended again and again" in gateway.log(), "it to be given up")
            for number in (7, 8):
                assert gateway.post(marked(number))[0] == 200
            wait_for(lambda: set(numbers()) >= set(range(1, 9)), "the others")
            wait_for(lambda: gateway.total("profgate_export_requests_total", signal="profiles", outcome="sent") == 8, "them to be taken")
            assert gateway.total("profgate_export_requests_total", signal="profiles", outcome="failed") == 1
            assert numbers().count(666) >= 5
    finally:
        stopping.set()
        supervisor.join()


# ---- metrics ----


class Metrics(base.Sink):
    """Takes OTLP/JSON metrics; sums the deltas of samples by the time of their windows."""

    def __init__(self):
        super().__init__()
        self.status, self.sum, self.windows = 200, 0, []

    def take(self, path, headers, body):
        if self.status == 200:
            for resource in json.loads(base.plain(headers, body))["resourceMetrics"]:
                for scope in resource["scopeMetrics"]:
                    for metric in scope["metrics"]:
                        if metric["name"] != "samples.native.count":
                            continue
                        for point in metric["sum"]["dataPoints"]:
                            self.sum += int(point.get("asInt", 0))
                            self.windows.append((int(point["startTimeUnixNano"]), int(point["timeUnixNano"])))
        return self.status, b""


def metrics_config(sink, folder, temporality="delta", interval="200ms"):
    return f"""
metrics: {{ flush_interval: {interval}, temporality: {temporality}, exporters: [otlp/metrics, prometheus] }}
exporters:
  otlp/metrics: {{ endpoint: 'http://127.0.0.1:{sink.port}', protocol: http, encoding: json, {FAST},
                  sending_queue: {{ storage: {folder}/storage }} }}
"""


def test_the_smallest_storage_has_room_for_metrics(folder):
    """And one that is smaller, in which no window would ever fit, is refused when the configuration is checked."""
    with Metrics() as sink:
        config = metrics_config(sink, folder).replace("/storage }", "/storage, storage_size: %s }")
        (folder / "small.yaml").write_text(config % "3MiB")
        done = subprocess.run([BUILD / "profgate", "validate", folder / "small.yaml"], capture_output=True, text=True,
                              timeout=PATIENCE)
        assert done.returncode != 0 and "storage_size" in done.stdout + done.stderr
        with running(Gateway(config=config % "4MiB")) as gateway:
            assert gateway.post(SMALL)[0] == 200
            wait_for(lambda: sink.sum == native(gateway) > 0, "the window")


def native(gateway):
    return gateway.total("samples_native_count_total")


def test_windows_that_were_flushed_survive_kill_9(folder):
    """The destination is away; what had been flushed comes after the restart, and the open window is said to be lost."""
    with Metrics() as sink:
        sink.status = 503
        gateway = Gateway(config=metrics_config(sink, folder))
        try:
            for _ in range(5):
                assert gateway.post(SMALL)[0] == 200
            counted = native(gateway)
            assert counted > 0
            wait_for(lambda: gateway.total("profgate_export_requests_total", signal="metrics", outcome="retried") > 0, "a try")
            time.sleep(0.5)  # the window is over, and its commit
            os.kill(gateway.pid, signal.SIGKILL)
            gateway.process.wait()
        finally:
            gateway.close()
        sink.status = 200
        with running(Gateway(config=metrics_config(sink, folder))) as again:
            wait_for(lambda: sink.sum == counted, "the windows of the process before")
            assert again.total("profgate_lost_seconds_total") >= 1  # of the window that was open then: 200 ms, rounded up
            assert "up to so many seconds of metrics are lost" in again.log()
            assert again.stop() == 0
        with running(Gateway(config=metrics_config(sink, folder))) as clean:
            assert clean.total("profgate_lost_seconds_total") == 0
        assert sink.sum == counted and all(start < end for start, end in sink.windows)


def test_the_first_window_is_said_to_be_lost_too(folder):
    """Nothing was flushed yet: that the process began is on disk all the same."""
    with Metrics() as sink:
        config = metrics_config(sink, folder, interval="60s")
        with running(Gateway(config=config)) as gateway:
            assert gateway.post(SMALL)[0] == 200
            time.sleep(1)
            os.kill(gateway.pid, signal.SIGKILL)
            gateway.process.wait()
        with running(Gateway(config=config)) as again:
            assert 1 <= again.total("profgate_lost_seconds_total") <= 60


def test_cumulative_streams_begin_anew_after_kill_9_and_say_so(folder):
    with Metrics() as sink:
        before = 0
        for _ in range(2):
            gateway = Gateway(config=metrics_config(sink, folder, "cumulative"))
            try:
                born = time.time_ns()
                assert gateway.post(SMALL)[0] == 200
                # What the one before had on disk comes as well, as it was.
                wait_for(lambda begun=before: any(start > begun for start, _ in list(sink.windows)), "a stream that begins anew")
                os.kill(gateway.pid, signal.SIGKILL)
                gateway.process.wait()
            finally:
                gateway.close()
            before = max(start for start, _ in sink.windows)
            assert before > born - 10_000_000_000


def test_a_full_disk_keeps_the_window_open(folder, tmpfs):
    with Metrics() as sink, running(Gateway(config=metrics_config(sink, folder))) as gateway:
        fill(tmpfs)
        for _ in range(5):
            assert gateway.post(SMALL)[0] == 200
            time.sleep(0.3)
        (tmpfs / "ballast").unlink()
        wait_for(lambda: sink.sum == native(gateway) > 0, "everything that was counted meanwhile")
        wait_for(lambda: gateway.post(SMALL)[0] == 200 and "the storage takes again" in gateway.log(), "the disk to be used again")
        assert gateway.total("profgate_export_points_dropped_total") == 0


SLOW_FSYNC = r"""
#include <unistd.h>
#include <sys/syscall.h>
int fsync(int fd) { usleep(300000); return (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { usleep(300000); return (int)syscall(SYS_fdatasync, fd); }
"""


def test_a_slow_fsync_makes_commits_larger_and_holds_up_nobody_else(sink, folder):
    """0.3 s each: producers wait for theirs, together, while the worker answers others; and what is delivered need not wait."""
    (folder / "slow.c").write_text(SLOW_FSYNC)
    library = folder / "slow.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, folder / "slow.c"], check=True)
    sink.status = 503
    with running(Gateway("--set", "service.workers=1", config=stored(sink, folder),
                         env={**os.environ, "LD_PRELOAD": str(library)})) as gateway:
        load = Load(counter())
        run = load.on(gateway, 0, producers=16)
        waits = []
        for _ in range(30):
            began = time.monotonic()
            assert gateway.post(b"\xff")[0] == 400  # on the one worker, which waits for no disk
            waits.append(time.monotonic() - began)
            time.sleep(0.05)
        load.end(*run)
        assert min(load.seconds) > 0.3
        assert sorted(waits)[len(waits) // 2] < 0.3
        # One fsync after the other, a commit at most each: 16 requests wait for the same ones.
        assert len(load.acknowledged) > 2 * sum(load.seconds) / 16 / 0.3
        sink.status = 200
        wait_for(lambda: load.acknowledged <= sink.taken.keys(), "everything")
        wait_for(lambda: gateway.total("profgate_export_queue_bytes") == 0, "the queue empty")
        began = [time.monotonic()]
        while gateway.post(marked(10_000_000 + len(began)))[0] == 200 and len(began) < 20:
            began.append(time.monotonic())
        assert min(b - a for a, b in zip(began, began[1:])) < 0.3  # delivered before its turn came
