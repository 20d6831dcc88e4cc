"""Half an hour of everything at once, churn of names, scrapes that are read or not, reloads and a destination that flaps with it:
memory and descriptors stay flat, every sample is counted, and its counts are where they belong, by scrape and by OTLP. By itself:

  tests/run-python /tmp/results --soak -k half_an_hour         (the gateway of PG_BUILD or build/)

or with all other tests by ./scripts/test --soak. Every minute it says how much memory is resident, and in the end the slope of
a straight line through the least of each minute after the warm-up, with its standard error; if that is above
SLOPE_KIB_A_MINUTE by more than two errors it fails. PG_SOAK_SECONDS shortens it, for trying, or makes it two hours (7200);
a third of the time is warm-up, up to five minutes.
"""
import contextlib
import gzip
import http.client
import json
import math
import os
import pathlib
import random
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import attack_content as hostile
import pytest
from programs import BUILD, PATIENCE, PROFILES_PATH, Gateway, captures, running, wait_for

SECONDS = float(os.environ.get("PG_SOAK_SECONDS", 30 * 60))
WARM_UP = min(SECONDS / 3, 300)
# 100 KiB a minute would be 140 MiB a day, and is what an allocator that settles may still take in half an hour.
SLOPE_KIB_A_MINUTE = 100
# A run too short to be warm is only tried, not judged: this much more.
COLD_KIB = 16 << 10 if SECONDS < 600 else 0
SHOW_SECONDS = min(60, SECONDS / 5)
FDS_NOISE = 4
FILES = captures("ebpf-*.pb")[:4]
LEGACY = sorted((pathlib.Path(__file__).parents[1] / "fuzz/corpus/legacy").glob("layout-*"))


class SlowReceiver(threading.Thread):
    """Takes raw profiles by HTTP, a request every tenth of a second at most, and refuses some."""

    def __init__(self):
        super().__init__(daemon=True)
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port, self.taken, self.stopping = self.socket.getsockname()[1], 0, False

    def run(self):
        while not self.stopping:
            try:
                connection = self.socket.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        # A sender that goes away in the middle, as by a reload, is none of the receiver's business.
        with contextlib.suppress(ConnectionError), connection, connection.makefile("rb") as stream:
            while not self.stopping and stream.readline().startswith(b"POST "):
                length = 0
                while (line := stream.readline()) not in (b"\r\n", b""):
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                stream.read(length)
                self.taken += 1
                time.sleep(0.1)
                status = b"503 Service Unavailable" if self.taken % 20 == 0 else b"200 OK"
                connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n")

    def close(self):
        self.stopping = True
        self.socket.close()


class Sender(threading.Thread):
    """Does `step` until the end, and keeps the first failure for the test to raise."""

    def __init__(self, step, pause, until):
        super().__init__(daemon=True)
        self.step, self.pause, self.until = step, pause, until
        self.failure, self.steps = None, 0

    def run(self):
        try:
            while time.monotonic() < self.until:
                self.step()
                self.steps += 1
                time.sleep(self.pause)
        except BaseException as e:
            self.failure = e


class Flapping(SlowReceiver):
    """Takes metrics, but is gone for five seconds in every twenty: what comes then is refused for now."""

    def serve(self, connection):
        with contextlib.suppress(ConnectionError), connection, connection.makefile("rb") as stream:
            while not self.stopping and stream.readline().startswith(b"POST "):
                length = 0
                while (line := stream.readline()) not in (b"\r\n", b""):
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                body = stream.read(length)
                is_away = time.monotonic() % 20 < 5
                if not is_away:
                    self.add(body)
                status = b"503 Service Unavailable\r\nRetry-After: 1" if is_away else b"200 OK"
                connection.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")

    def __init__(self):
        super().__init__()
        self.lock, self.sum = threading.Lock(), 0.0

    def add(self, body):
        """All deltas of the metric."""
        metrics = (m for r in json.loads(body).get("resourceMetrics", []) for s in r["scopeMetrics"] for m in s["metrics"])
        new = sum(int(p["asInt"]) for m in metrics if m["name"] == COUNTED for p in m["sum"]["dataPoints"])
        with self.lock:
            self.sum += new


class Reader:
    """A scraper with a memory: what it knows of each series, where one that begins anew is another one."""

    def __init__(self):
        self.last, self.before = {}, 0.0

    def read(self, gateway):
        """OpenMetrics says when each series began (NAME_created)."""
        request = urllib.request.Request(f"http://127.0.0.1:{gateway.admin}/metrics?collect[]=profiles",
                                         headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            if answer.status != 200:
                return
            text = answer.read().decode()
        assert text.endswith("# EOF\n")
        name = COUNTED.replace(".", "_")
        page = {}
        for line in text.splitlines():
            for what in ("total", "created"):
                if line.startswith(f"{name}_{what}{{"):
                    labels, _, value = line[len(f"{name}_{what}"):].split(" # ")[0].rpartition(" ")
                    page.setdefault(labels, {})[what] = float(value)
        for labels, now in page.items():
            last = self.last.get(labels)
            if last and last["created"] != now["created"]:
                self.before += last["total"]
            self.last[labels] = now

    def sum(self):
        return self.before + sum(x["total"] for x in self.last.values())


class Account:
    """Samples that were acknowledged, by many threads."""

    def __init__(self):
        self.lock, self.samples, self.requests = threading.Lock(), 0, 0

    def add(self, samples, requests=1):
        with self.lock:
            self.samples += samples
            self.requests += requests


def samples_in(body):
    out = subprocess.run([BUILD / "profgate", "count", "--json", "/dev/stdin"], input=body, capture_output=True,
                         check=True).stdout
    return json.loads(out)["samples"]


def http_step(gateway, account, bodies):
    """One connection, a few requests on it, each in another coding."""
    connection = http.client.HTTPConnection("127.0.0.1", random.choice(gateway.ports), timeout=PATIENCE)
    try:
        for body, headers, samples in random.choices(bodies, k=5):
            connection.request("POST", PROFILES_PATH, body, {"Content-Type": "application/x-protobuf", **headers})
            answer = connection.getresponse()
            answer.read()
            assert answer.status in (200, 503), answer.status  # 503: the queue of raw profiles is full, nothing is counted
            if answer.status == 200:
                account.add(samples)
    finally:
        connection.close()


def bad_step(gateway):
    """What nobody should send: refused or cut off, never counted."""
    body = random.choice([random.randbytes(1000), gzip.compress(bytes(70 << 20), 1), FILES[0].read_bytes()[:-10]])
    headers = {"Content-Encoding": "gzip"} if body[:2] == b"\x1f\x8b" else {}
    status = gateway.post(b"\xff" + body if not headers else body, headers)[0]
    assert status in (400, 413, 503), status
    with socket.create_connection(("127.0.0.1", gateway.ports[0]), timeout=PATIENCE) as s:  # leaves in the middle
        s.sendall(b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                  b"Content-Length: 100000\r\n\r\n" + bytes(random.randrange(50000)))


def attack_step(gateway):
    kind = random.choice(["rapid-reset", "continuation", "smuggling", "connect", "ping", "large-head"])
    subprocess.run([BUILD / "bench/attack", kind, "--port", str(gateway.ports[0]), "--seconds", "0.3", "--connections", "5",
                    "--connects", "200"], check=True, stdout=subprocess.DEVNULL, timeout=PATIENCE)


def grpc_step(gateway, account, samples):
    done = subprocess.run([BUILD / "bench/load", "--protocol", "grpc", "--port", str(gateway.ports[0]), "--connections", "8",
                           "--requests", "200", "--rate", "100", "--gzip", str(random.choice([0, 6])), *FILES],
                          capture_output=True, text=True, timeout=120)
    assert done.stdout, done.stderr
    acknowledged = json.loads(done.stdout.splitlines()[-1])["acknowledged"]  # some may be refused: the queue is full
    account.add(sum(n * s for n, s in zip(acknowledged, samples)), sum(acknowledged))


def bodies_of_all_kinds(samples):
    """(body, headers, samples in it): plain, gzip, zstd, OTLP/JSON, older layouts, generated."""
    bodies = []
    for path, n in zip(FILES, samples):
        plain = path.read_bytes()
        bodies += [(plain, {}, n), (gzip.compress(plain), {"Content-Encoding": "gzip"}, n)]
        # RFC 8878 §3.1.1: a zstd frame of raw blocks, made by hand
        blocks = [plain[at:at + 100_000] for at in range(0, len(plain), 100_000)]
        frame = b"\x28\xb5\x2f\xfd\x00\x58" + b"".join(
            ((len(b) << 3) | (i == len(blocks) - 1)).to_bytes(3, "little") + b for i, b in enumerate(blocks))
        bodies.append((frame, {"Content-Encoding": "zstd"}, n))
    generated = hostile.build("valid", 200_000)
    bodies.append((generated, {}, samples_in(generated)))
    for path in LEGACY:
        body = path.read_bytes()[1:]
        bodies.append((body, {}, samples_in(body)))
    json_format = pytest.importorskip("google.protobuf.json_format")
    service = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    # OTLP/JSON has ids in hex, which protobuf's own JSON has not: this request has none.
    request = service.ExportProfilesServiceRequest.FromString(generated)
    text = json_format.MessageToJson(request).encode()
    bodies.append((text, {"Content-Type": "application/json"}, bodies[-len(LEGACY) - 1][2]))
    return bodies


COUNTED = "profile.quality.samples"


class Churn:
    """Names of a moment, more than there is room for, each with one sample."""

    def __init__(self, account):
        self.account, self.n, self.names = account, 0, 0

    def step(self, gateway):
        self.n += 1
        stack_of = hostile.Dictionary()
        profile = hostile.profile_of(stack_of, hostile.sample_of(stack_of.stack(hostile.varint(stack_of.kernel_location("vfs_read")))))
        names = random.choice([20, 100, 300])
        body = hostile.message(stack_of, ((hostile.resource_of((b"service.name", b"churn-%d-%d" % (self.n, i))), [profile])
                                          for i in range(names)))
        status = gateway.post(gzip.compress(body, 1), {"Content-Encoding": "gzip"})[0]
        assert status in (200, 503), status
        if status == 200:
            self.account.add(names)
            self.names += names


def aborted_scrape_step(gateway):
    """Asks for a page, reads some of it or nothing, and goes; by a reset, since what is left is not read."""
    with socket.create_connection(("127.0.0.1", gateway.admin), timeout=PATIENCE) as s:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        if random.random() < 0.7:
            s.recv(random.choice([1, 1000, 50_000]))


def fds(gateway):
    return len(os.listdir(f"/proc/{gateway.pid}/fd"))


def troughs(points, seconds=60):
    """The least of each minute: what is held between the peaks, which come and go with the requests of a moment."""
    least = {}
    for x, y in points:
        least[int(x // seconds)] = min(least.get(int(x // seconds), (math.inf, 0)), (y, x))
    return [(x, y) for y, x in least.values()]


def slope(points):
    """Least squares: units a second, and its standard error."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    a = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    rest = sum((y - mean_y - a * (x - mean_x)) ** 2 for x, y in points)
    return a, math.sqrt(rest / max(n - 2, 1) / spread)


@pytest.mark.soak
def test_half_an_hour_of_everything_leaves_memory_flat_and_counts_exact(tmp_path, capsys):
    def show(text):
        with capsys.disabled():
            print(text, flush=True)

    receiver, flapping = SlowReceiver(), Flapping()
    receiver.start()
    flapping.start()
    config = f"""
metrics: {{ flush_interval: 5s, exporters: [prometheus, file/out, otlp/flapping], resource_limit: 2000, prometheus_created: true }}
profiles: {{ keep: 5%, exporters: [otlp/slow] }}
exporters:
  file/out: {{ path: {tmp_path}/metrics.jsonl }}
  otlp/flapping: {{ endpoint: 'http://127.0.0.1:{flapping.port}', protocol: http, encoding: json, temporality: delta,
                    compression: none, retry_on_failure: {{ initial_interval: 1s, max_interval: 2s }} }}
  otlp/slow: {{ endpoint: 'http://127.0.0.1:{receiver.port}', protocol: http, sending_queue: {{ queue_bytes: 8MiB }} }}
"""
    samples = [samples_in(path.read_bytes()) for path in FILES]
    account, bodies = Account(), bodies_of_all_kinds(samples)
    churn, reader = Churn(account), Reader()
    with running(Gateway(config=config)) as gateway:
        start = time.monotonic()
        end = start + SECONDS
        senders = [Sender(lambda: http_step(gateway, account, bodies), 0.1, end) for _ in range(3)]
        senders += [Sender(lambda: grpc_step(gateway, account, samples), 0.1, end), Sender(lambda: bad_step(gateway), 1, end),
                    Sender(lambda: attack_step(gateway), 2, end),
                    Sender(lambda: gateway.process.send_signal(signal.SIGHUP), min(60, SECONDS / 5), end),
                    Sender(lambda: gateway.metrics(), 1, end), Sender(lambda: reader.read(gateway), 5, end),
                    Sender(lambda: aborted_scrape_step(gateway), 0.5, end), Sender(lambda: churn.step(gateway), 0.3, end)]
        for sender in senders:
            sender.start()
        memory, open_fds, shown = [], [], 0.0
        show(f"\n{'minute':>6} {'RSS KiB':>8} {'fds':>4} {'requests':>9} {'samples':>10}")
        while time.monotonic() < end:
            time.sleep(min(5, SECONDS / 60))
            assert gateway.alive(), gateway.log()
            now = time.monotonic() - start
            rss, n_fds = gateway.rss_kib("VmRSS"), fds(gateway)
            if now > WARM_UP:
                memory.append((now, rss))
                open_fds.append(n_fds)
            if now - shown >= SHOW_SECONDS:
                shown = now
                show(f"{now / 60:6.1f} {rss:8} {n_fds:4} {account.requests:9} {account.samples:10}"
                     f"{'' if now > WARM_UP else '  warming up'}")
        for sender in senders:
            sender.join(150)
            assert not sender.is_alive() and sender.failure is None, sender.failure
            assert sender.steps > 0
        a_minute, error = (60 * x for x in slope(troughs(memory, min(60, SECONDS / 20))))
        show(f"{account.requests} requests, {account.samples} samples; after {WARM_UP:.0f} s of warming up RSS {memory[0][1]} to "
             f"{memory[-1][1]} KiB, its troughs {a_minute:+.1f} ± {error:.1f} KiB a minute (at most {SLOPE_KIB_A_MINUTE}); fds {min(open_fds)} to "
             f"{max(open_fds)}; raw requests forwarded {receiver.taken}")
        wait_for(lambda: gateway.total("profgate_samples_total") == account.samples, "every sample counted, once")

        def agree():
            reader.read(gateway)
            return reader.sum() == flapping.sum > churn.names
        try:
            wait_for(agree, "both know the same sum")
        finally:
            show(f"{churn.names} names; by scrape {reader.sum():.0f} samples with a stack, by OTLP {flapping.sum:.0f}")
        # Two standard errors: what grows by more than noise does.
        minutes = (memory[-1][0] - memory[0][0]) / 60
        grown = (a_minute - 2 * error) * minutes
        assert grown <= SLOPE_KIB_A_MINUTE * minutes + COLD_KIB, f"{memory[:: max(len(memory) // 20, 1)]}"
        half = len(open_fds) // 2
        wait_for(lambda: gateway.total("profgate_connections") == 0, "no connection left behind")
        assert min(open_fds[half:]) <= min(open_fds[:half]) + FDS_NOISE, open_fds
        assert gateway.stop() == 0
    receiver.close()
