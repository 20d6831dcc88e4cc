"""What one client may do to the others and to whoever operates the gateway: pages too large to write at once, names without end,
bodies that trickle, files that block. The operator is answered meanwhile, memory stays within limits.memory."""
import collections
import contextlib
import gzip
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import attack_content as hostile
import pytest
from attack_content import varint
from hanging import ends_without_the_disk, hanging  # noqa: F401 (hanging is a fixture)
from health import Health
from programs import BUILD, PATIENCE, PROFILES_PATH, Gateway, Process, captures, free_port, running, wait_for
from sink import Sink, plain


def long_names(n=100, length=50_000):
    """So many resources with names of that length: a few hundred KB of gzip, 5 MB of labels on each of their series."""
    stack_of = hostile.Dictionary()
    stack = stack_of.stack(hostile.varint(stack_of.kernel_location("vfs_read")))
    profile = hostile.profile_of(stack_of, hostile.sample_of(stack))
    return hostile.message(stack_of, ((hostile.resource_of((b"service.name", b"%05d" % i + b"n" * (length - 5))), [profile])
                                      for i in range(n)))


def test_long_names_cost_neither_memory_nor_the_operator(tmp_path):
    with running(Gateway("--set", "limits.memory=128MiB", "--set", "metrics.attribute_value_length_limit=65536")) as gateway:
        body = gzip.compress(long_names())
        assert gateway.post(body, {"Content-Encoding": "gzip"})[0] == 200
        before = gateway.rss_kib("VmRSS")
        with Health(gateway) as health:
            readers = [subprocess.Popen(["curl", "-sg", "-o", "/dev/null", "-w", "%{http_code} %{size_download}",
                                         f"http://127.0.0.1:{gateway.admin}/metrics?collect[]=profiles"],
                                        stdout=subprocess.PIPE, text=True) for _ in range(4)]
            unread = socket.create_connection(("127.0.0.1", gateway.admin))
            unread.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            pages = [tuple(map(int, reader.communicate(timeout=PATIENCE)[0].split())) for reader in readers]
            unread.close()
        assert any(status == 200 and size > 10_000_000 for status, size in pages), pages
        assert all(status in (200, 503) for status, size in pages), pages  # 0: cut off before anything was there to read
        health.check()  # a page took 43 s
        assert gateway.rss_kib() - before < 128 * 1024


def test_pages_of_a_full_store_leave_requests_their_memory():
    """A page takes about what it shows. Four at once, unread, of 28,000 series left a client of one connection nothing."""
    with running(Gateway("--set", "limits.memory=64MiB", "--set", "limits.request_bytes=16MiB")) as gateway, \
            contextlib.ExitStack() as held:
        for seed in range(8):
            assert gateway.post(hostile.build("services", 100_000, seed))[0] == 200
        bodies = [path.read_bytes() for path in captures()]
        statuses = collections.Counter()
        for n in range(120):
            if n % 10 == 0:
                reader = held.enter_context(socket.create_connection(("127.0.0.1", gateway.admin)))
                reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            statuses[gateway.post(bodies[n % len(bodies)])[0]] += 1
        assert statuses == {200: 120}
        assert gateway.rss_kib() < 64 * 1024


def test_what_was_acknowledged_is_on_the_page():
    with running(Gateway("--set", "metrics.flush_interval=1h")) as gateway:
        body = captures()[0].read_bytes()
        gateway.post(body)
        once = gateway.total("profile_cpu_time_seconds_total")
        assert once > 0
        for n in range(2, 30):
            assert gateway.post(body)[0] == 200
            assert gateway.total("profile_cpu_time_seconds_total") == pytest.approx(n * once)
        assert gateway.total("profgate_counts_age_seconds") < 1


def test_a_file_that_takes_nothing_keeps_nobody_waiting(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    config = f"""
metrics: {{ flush_interval: 100ms, exporters: [prometheus, file/stuck] }}
profiles: {{ exporters: [file/stuck] }}
exporters: {{ file/stuck: {{ path: {fifo} }} }}
service: {{ shutdown_timeout: 1s }}
"""
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with running(Gateway(config=config)) as gateway, Health(gateway) as health:
            filler = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            with pytest.raises(BlockingIOError):
                while True:
                    os.write(filler, b"x" * 4096)
            os.close(filler)
            for path in captures()[:20]:
                assert gateway.post(path.read_bytes())[0] == 200
                time.sleep(0.02)
            health.end()
            health.check()
            began = time.monotonic()
            assert gateway.stop() == 0
            assert time.monotonic() - began < 20
            assert "left at the end" in gateway.log()
    finally:
        os.close(reader)


def test_a_file_system_that_hangs_keeps_nobody_waiting(hanging):  # noqa: F811
    """What is written there never returns: requests are taken, the operator is answered, a reload is done, and the end comes."""
    mount, server = hanging
    config = f"""
metrics: {{ flush_interval: 100ms, exporters: [prometheus, file/stuck] }}
profiles: {{ keep: 100%, exporters: [file/stuck] }}
exporters: {{ file/stuck: {{ path: {mount}/out.jsonl }} }}
service: {{ shutdown_timeout: 1s }}
"""
    with running(Gateway(config=config)) as gateway, contextlib.ExitStack() as stack:
        assert gateway.post(captures()[0].read_bytes())[0] == 200
        wait_for(lambda: (mount / "out.jsonl").stat().st_size > 10_000, "the file grows")
        server.process.send_signal(signal.SIGSTOP)
        stack.callback(server.process.send_signal, signal.SIGCONT)  # whatever happens: who waits there cannot be killed
        with Health(gateway) as health:
            for path in captures()[:20]:
                assert gateway.post(path.read_bytes())[0] == 200
            wait_for(lambda: gateway.total("profgate_export_queue_bytes") > 0, "something waits for it")
            request = urllib.request.Request(f"http://127.0.0.1:{gateway.admin}/api/v1/reload", method="POST")
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                assert answer.read() == b"reloaded\n"
        health.check()
        assert ends_without_the_disk(gateway, server) == 0 and gateway.log().endswith(" stopped\n"), gateway.log()
        assert "the shutdown's time is over" in gateway.log()


def test_storage_that_hangs_keeps_nobody_waiting_but_who_was_promised(hanging):  # noqa: F811
    """A producer is answered when its request is on disk or delivered: here neither will be. The operator is answered, and the
    end comes; what was on its way to the disk is said to be lost."""
    mount, server = hanging
    config = f"""
profiles: {{ keep: 100%, exporters: [otlp/away] }}
exporters: {{ otlp/away: {{ endpoint: "http://127.0.0.1:{free_port()}", protocol: http, sending_queue: {{ storage: {mount} }} }} }}
service: {{ shutdown_timeout: 1s }}
"""
    with running(Gateway(config=config)) as gateway, contextlib.ExitStack() as stack:
        assert gateway.post(captures()[0].read_bytes())[0] == 200
        server.process.send_signal(signal.SIGSTOP)
        stack.callback(server.process.send_signal, signal.SIGCONT)
        heard = []

        def post():
            with contextlib.suppress(OSError, http.client.HTTPException):
                heard.append(gateway.post(captures()[0].read_bytes())[0])

        producer = threading.Thread(target=post)
        producer.start()
        with Health(gateway) as health:
            wait_for(lambda: gateway.total("profgate_requests_total") >= 2, "it is counted")
            wait_for(lambda: len(health.waited) > 20, "the operator asks")
        health.check()
        assert ends_without_the_disk(gateway, server) == 0 and gateway.log().endswith(" stopped\n"), gateway.log()
        producer.join()
        assert heard == [] and "the storage does not answer" in gateway.log()


def test_a_fifo_without_a_reader_is_refused(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    config = tmp_path / "profgate.yaml"
    config.write_text(f"metrics: {{ exporters: [file/x] }}\nexporters: {{ file/x: {{ path: {fifo} }} }}\n"
                      "receivers: { otlp: [{ endpoint: 127.0.0.1:0 }] }\nadmin: { endpoint: 127.0.0.1:0 }\n")
    result = subprocess.run([BUILD / "profgate", "serve", "--config", config], capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode != 0
    assert "a FIFO that nobody reads" in result.stderr


def invented(n, rng=None):
    """A request with n resources whose names nobody has seen, and one sample each."""
    d = hostile.Dictionary()
    profile = hostile.profile_of(d, hostile.sample_of(d.stack(hostile.varint(d.kernel_location("vfs_read")))))
    return hostile.message(d, ((hostile.resource_of((b"service.name", b"%s-%d" % (rng or b"invented", i))), [profile]) for i in range(n)))


def services(gateway):
    return {dict(labels).get("job") for _, labels in gateway.metrics("profiles")}


def test_invented_names_do_not_blind_a_new_service():
    with running(Gateway()) as gateway:
        assert gateway.post(gzip.compress(invented(25_000)), {"Content-Encoding": "gzip"})[0] == 200
        assert gateway.total("profgate_resource_overflow_total") > 0
        wait_for(lambda: "finds no room" in gateway.log(), "it is said")
        said = next(line for line in gateway.log().splitlines() if "finds no room" in line)
        assert said.endswith(" resource_limit=20000") and said.count("=") == 1  # a message of words, then a field

        def is_seen():
            assert gateway.post(invented(1, b"new"))[0] == 200
            return "new-0" in services(gateway)
        wait_for(is_seen, "the new service has a name")
        assert gateway.post(gzip.compress(invented(25_000, b"more")), {"Content-Encoding": "gzip"})[0] == 200
        assert "new-0" in services(gateway)
        assert gateway.log().count("finds no room") == 1


class Services(Sink):
    """Takes OTLP/JSON metrics: samples of the kernel by service."""

    def __init__(self):
        super().__init__()
        self.counted = collections.Counter()

    def take(self, path, headers, body):
        for resource in json.loads(plain(headers, body))["resourceMetrics"]:
            attributes = {a["key"]: a["value"].get("stringValue") for a in resource["resource"].get("attributes", [])}
            for metric in (m for scope in resource["scopeMetrics"] for m in scope["metrics"] if m["name"] == "samples.kernel.count"):
                self.counted[attributes.get("service.name")] += sum(int(point["asInt"]) for point in metric["sum"]["dataPoints"])


@pytest.mark.soak
def test_500_short_processes_a_second_take_nobodys_place():
    """For a minute, which is half as many again as there is room for at once, or PG_SOAK_SECONDS: nothing is counted under another
    name than its own."""
    services, seconds, each_second = 20, int(os.environ.get("PG_SOAK_SECONDS", 60)), 500
    with Services() as sink:
        config = f"""
metrics: {{ flush_interval: 1s, exporters: [prometheus, otlp/sink] }}
exporters: {{ otlp/sink: {{ endpoint: "{sink.url}", protocol: http, encoding: json }} }}
"""
        with running(Gateway(config=config)) as gateway:
            began, marks = time.monotonic(), []
            for second in range(seconds):
                d = hostile.Dictionary()
                profile = hostile.profile_of(d, hostile.sample_of(d.stack(hostile.varint(d.kernel_location("vfs_read")))))
                body = hostile.message(d, ((hostile.resource_of((b"service.name", b"service-%d" % (i % services)),
                                                                (b"process.pid", b"%d" % (second * each_second + i))), [profile])
                                           for i in range(each_second)))
                assert gateway.post(body)[0] == 200
                marks.append(gateway.rss_kib("VmRSS"))
                time.sleep(max(0, began + second + 1 - time.monotonic()))
            assert gateway.total("profgate_resource_overflow_total") == 0
            assert gateway.stop() == 0
            want = seconds * each_second // services
            assert sink.counted == {f"service-{i}": want for i in range(services)}
            print(f"resident: {marks[0] >> 10} MB, after a third {marks[seconds // 3] >> 10}, at the end {marks[-1] >> 10}")


def slow_body(gateway, address, length, sent):
    """A connection from there with so much of a body that never ends; what is refused is closed by the gateway."""
    connection = socket.socket()
    connection.bind((address, 0))
    connection.connect(("127.0.0.1", gateway.ports[0]))
    connection.settimeout(PATIENCE)
    with contextlib.suppress(OSError):
        connection.sendall(b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                           b"Content-Length: %d\r\n\r\n" % length + b"\x0a" * sent)
    return connection


@pytest.mark.parametrize("addresses,each,length,sent", [
    (1, 60, 4 << 20, (4 << 20) - 1),
    (20, 4, 2 << 20, (2 << 20) - 1),  # together more than there is, each less than a quarter
    (1, 600, 256 << 10, 1),           # what was told is reserved: it is the client's, too
])
def test_bodies_that_trickle_lock_nobody_out(addresses, each, length, sent):
    with running(Gateway("--set", "limits.memory=128MiB")) as gateway, contextlib.ExitStack() as held:
        for _ in range(each):
            for n in range(addresses):
                held.enter_context(slow_body(gateway, f"127.0.0.{2 + n}", length, sent))
        for path in captures()[:20]:
            assert gateway.post(path.read_bytes())[0] == 200
        assert gateway.total("profgate_refused_by_limit_total", scope="client", limit="memory") > 0


@pytest.mark.parametrize("addresses", [1, 20])
def test_what_is_counted_of_others_locks_nobody_out(addresses):
    """Large requests full of new names take memory after their bodies are gone: what they are decompressed to, tables, names
    that are remembered, or wait to be added up. Who sends them is told to come again, what is kept only for speed gives way,
    and everybody else is served, also where there is little memory."""
    kinds = [(gzip.compress(hostile.build("services", 6 << 20, 0), 1), {"Content-Encoding": "gzip"}),
             (hostile.build("services", 6 << 20, 1), {})]
    heard, over = collections.Counter(), threading.Event()

    def attack(n):
        while not over.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", gateway.ports[0], timeout=PATIENCE, source_address=(f"127.0.0.{2 + n % addresses}", 0))
                body, headers = kinds[n % 2]
                connection.request("POST", PROFILES_PATH, body, {"Content-Type": "application/x-protobuf", **headers})
                heard[connection.getresponse().status] += 1
                connection.close()

    with running(Gateway("--set", "limits.memory=64MiB", "--set", "limits.request_bytes=24MiB")) as gateway:
        good = [path.read_bytes() for path in captures()[:10]]
        for body in good:
            assert gateway.post(body)[0] == 200
        before = gateway.rss_kib("VmRSS")
        attackers = [threading.Thread(target=attack, args=(n,)) for n in range(max(8, addresses))]
        try:
            for attacker in attackers:
                attacker.start()
            posted, end = 0, time.monotonic() + PATIENCE
            while posted < 100 or heard.total() < 100:
                status, _, said = gateway.post(good[posted % len(good)])
                assert status == 200, (posted, said)
                posted += 1
                assert time.monotonic() < end, heard
        finally:
            over.set()
            for attacker in attackers:
                attacker.join(PATIENCE)
        assert gateway.total("profgate_refused_by_limit_total", scope="client", limit="memory") > 0
        assert gateway.rss_kib() - before < 64 * 1024


def test_a_large_body_keeps_a_rate():
    with running(Gateway("--set", "limits.request_timeout=1s", "--set", "limits.request_rate=1MiB")) as gateway:
        connection = socket.create_connection(("127.0.0.1", gateway.ports[0]), timeout=PATIENCE)
        connection.sendall(b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                           b"Content-Length: 4000000\r\n\r\n" + b"\x0a" * 1_000_000)
        began = time.monotonic()
        over = threading.Event()

        def trickle():
            while not over.wait(0.2):
                try:
                    connection.sendall(b"\x0a")
                except OSError:
                    return

        slowly = threading.Thread(target=trickle)
        slowly.start()
        answer = connection.recv(1000)
        over.set()
        slowly.join()
        assert answer.startswith(b"HTTP/1.1 503") and b"\r\nretry-after: " in answer, answer  # OTLP's clients repeat it
        assert time.monotonic() - began < 30  # of the 16 minutes that 4 KiB a second would take
        connection.close()


def test_an_honest_line_is_waited_for():
    """4 MB by 1 Mbit/s, with the defaults."""
    body = captures()[0].read_bytes()
    body += b"\xfa\x06" + varint(len(padding := bytes(4_000_000))) + padding  # a field that nobody knows
    with running(Gateway()) as gateway:
        connection = socket.create_connection(("127.0.0.1", gateway.ports[0]), timeout=PATIENCE)
        connection.sendall(b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body))
        began = time.monotonic()
        for at in range(0, len(body), 12_500):
            connection.sendall(body[at:at + 12_500])
            time.sleep(max(0, began + at / 125_000 - time.monotonic()))
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        connection.close()


def test_who_holds_too_much_may_come_again():
    """60 bodies of 4 MB at once from one address are more than its quarter of the memory: some are refused so that a client
    sends them again, and then all get through."""
    body = captures()[0].read_bytes()
    body += b"\xfa\x06" + varint(len(padding := bytes(4_000_000))) + padding
    refused, done = [], []
    held = threading.Event()

    def send(gateway):
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", gateway.ports[0], timeout=PATIENCE)
            connection.putrequest("POST", "/v1development/profiles")
            connection.putheader("Content-Type", "application/x-protobuf")
            connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
            try:
                connection.send(body[:-1])
                held.wait(PATIENCE)
                connection.send(body[-1:])
            except OSError:  # refused in the middle; the answer is there all the same
                held.wait(PATIENCE)
            answer = connection.getresponse()
            answer.read()
            connection.close()
            if answer.status == 200:
                return done.append(1)
            refused.append((answer.status, answer.getheader("Retry-After")))
            time.sleep(0.2)

    with running(Gateway()) as gateway:
        senders = [threading.Thread(target=send, args=(gateway,), daemon=True) for _ in range(60)]
        for sender in senders:
            sender.start()
        wait_for(lambda: gateway.total("profgate_requests_total", outcome="refused") > 0, "one too many")
        held.set()
        for sender in senders:
            sender.join(PATIENCE)
        assert len(done) == 60
        # Who waits for long enough with the rest of a body is late besides (503).
        assert 429 in dict(refused) and all(status in (429, 503) and int(after) >= 1 for status, after in refused), refused


def test_admin_answers_when_senders_take_all_open_files():
    def few_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (160, 160))

    with running(Gateway(preexec_fn=few_files)) as gateway:
        held = [socket.create_connection(("127.0.0.1", gateway.ports[0])) for _ in range(300)]
        try:
            wait_for(lambda: gateway.total("profgate_connections_refused_total") > 0, "connections are refused")
            for _ in range(20):
                assert gateway.get("/healthz") == "ok\n"
        finally:
            for connection in held:
                connection.close()
