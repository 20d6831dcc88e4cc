"""Load: two thousand connections at once, requests as large as they may be, and a stop in the middle of it. Counts are exact."""
import datetime
import http.client
import json
import pathlib
import resource
import signal
import socket
import subprocess
import threading
import time

import attack_content as hostile
import pytest
from programs import BUILD, PATIENCE, PROFILES_PATH, Gateway, captures, json_lines, running, wait_for

FILES = captures("ebpf-*.pb")[:4]
CONNECTIONS = 2000
REQUEST_BYTES = 64 << 20


@pytest.fixture(scope="module", autouse=True)
def many_files():
    """Two thousand connections need as many descriptors at either end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * CONNECTIONS:
        pytest.skip(f"only {hard} open files are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * CONNECTIONS + 200), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Requests of a few samples each, cut from the captures."""
    folder = tmp_path_factory.mktemp("small")
    subprocess.run([BUILD / "bench/cut", folder, *FILES], check=True, stdout=subprocess.DEVNULL)
    return sorted(folder.glob("small-*.pb"))


def samples_in(paths):
    """Samples in each file, by `profgate count`, which has no connections to lose any on."""
    found = []
    for path in paths:
        out = subprocess.run([BUILD / "profgate", "count", "--json", path], capture_output=True, text=True, check=True).stdout
        found.append(json.loads(out)["samples"])
    return found


def load(gateway, *arguments, files):
    return subprocess.Popen([BUILD / "bench/load", "--port", str(gateway.ports[0]), *map(str, arguments), *files],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def result(process, seconds=5 * PATIENCE):
    said = process.communicate(timeout=seconds)[0]
    assert said.strip().endswith("]}"), said
    return json.loads(said.splitlines()[-1])


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_two_thousand_connections_held_at_once(small, protocol):
    per_file = samples_in(small)
    requests = 10 * CONNECTIONS
    with running(Gateway()) as gateway:
        before = gateway.rss_kib("VmRSS")
        most, done = [0], threading.Event()

        def watch():
            while not done.is_set():
                most[0] = max(most[0], gateway.total("profgate_connections"))
                time.sleep(0.05)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            # At a rate that keeps all of them open for four seconds, whatever they have to say.
            good = result(load(gateway, "--protocol", protocol, "--connections", CONNECTIONS, "--requests", requests, "--rate",
                               requests / 4, files=small))
        finally:
            done.set()
            watcher.join()
        assert good["errors"] == 0 and sum(good["acknowledged"]) == requests
        assert most[0] >= CONNECTIONS, f"only {most[0]} were seen open at once"
        want = sum(n * samples for n, samples in zip(good["acknowledged"], per_file))
        wait_for(lambda: gateway.total("profgate_samples_total") == want, "every sample counted, once")
        # 40 KB a connection: a session with its streams, a request under way, the buffers of the channel.
        assert gateway.rss_kib() - before < CONNECTIONS * 40, "memory"
        wait_for(lambda: gateway.total("profgate_connections") == 0, "no connection left behind")
        assert gateway.stop() == 0


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A request just below the limit, and its samples."""
    path = tmp_path_factory.mktemp("large") / "large.pb"
    body = hostile.build("valid", REQUEST_BYTES - (2 << 20))
    assert REQUEST_BYTES * 0.9 < len(body) < REQUEST_BYTES
    path.write_bytes(body)
    return path, samples_in([path])[0]


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_one_connection_sending_the_largest_requests(large, protocol):
    path, samples = large
    with running(Gateway()) as gateway:
        good = result(load(gateway, "--protocol", protocol, "--connections", 1, "--requests", 4, files=[path]))
        assert good["acknowledged"] == [4]
        wait_for(lambda: gateway.total("profgate_samples_total") == 4 * samples, "every sample counted, once")
        # The body and its columns, once for each of two workers; limits.memory is 512 MiB.
        assert gateway.rss_kib() < 560 << 10
        assert gateway.stop() == 0


def test_a_request_above_the_limit_is_refused_and_the_next_one_counts(large):
    path, samples = large
    body = path.read_bytes()
    above = body + hostile.field(15, bytes(REQUEST_BYTES - len(body)))  # an unknown field, and over the limit by its head
    assert len(above) > REQUEST_BYTES
    with running(Gateway()) as gateway:
        assert gateway.post(body)[0] == 200
        connection = http.client.HTTPConnection("127.0.0.1", gateway.ports[0], timeout=PATIENCE)
        connection.putrequest("POST", PROFILES_PATH)
        connection.putheader("Content-Type", "application/x-protobuf")
        connection.putheader("Content-Length", str(len(above)))
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()
        big = path.with_name("above.pb")
        big.write_bytes(above)
        refused = subprocess.run([BUILD / "bench/load", "--protocol", "grpc", "--port", str(gateway.ports[0]), "--requests", "1",
                                  big], capture_output=True, text=True, timeout=PATIENCE)
        assert json.loads(refused.stdout.splitlines()[-1])["errors"] == 1, "RESOURCE_EXHAUSTED"
        assert gateway.total("profgate_samples_total") == samples
        assert gateway.post(body)[0] == 200
        wait_for(lambda: gateway.total("profgate_samples_total") == 2 * samples, "the good ones alone")
        assert gateway.stop() == 0


def cpu_time_in(path):
    """profile.cpu.time in a file of OTLP/JSON metrics."""
    total = 0.0
    for line in json_lines(path):
        for resource_metrics in line["resourceMetrics"]:
            for scope in resource_metrics["scopeMetrics"]:
                for metric in scope["metrics"]:
                    if metric["name"] == "profile.cpu.time":
                        total += sum(p.get("asDouble", int(p.get("asInt", 0))) for p in metric["sum"]["dataPoints"])
    return total


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_what_was_acknowledged_when_sigterm_came_is_in_the_last_flush(tmp_path, protocol):
    def config(out):
        return f"metrics: {{ flush_interval: 1h, exporters: [file/out] }}\nexporters: {{ file/out: {{ path: {out} }} }}\n"

    per_file = []
    for i, path in enumerate(FILES):  # what one of each becomes
        with running(Gateway(config=config(tmp_path / f"{i}.jsonl"))) as gateway:
            assert gateway.post(path.read_bytes())[0] == 200
            assert gateway.stop() == 0
        per_file.append(cpu_time_in(tmp_path / f"{i}.jsonl"))
        assert per_file[-1] > 0
    out = tmp_path / "metrics.jsonl"
    with running(Gateway(config=config(out))) as gateway:
        client = load(gateway, "--protocol", protocol, "--connections", 64, "--requests", 10_000_000, "--until-closed", 1,
                      files=FILES)
        wait_for(lambda: gateway.total("profgate_requests_total", outcome="accepted") > 200, "load")
        gateway.process.send_signal(signal.SIGTERM)
        good = result(client)
        assert gateway.wait() == 0
        assert sum(good["acknowledged"]) > 200
        want = sum(n * seconds for n, seconds in zip(good["acknowledged"], per_file))
        assert cpu_time_in(out) == pytest.approx(want, rel=1e-9), "counted and not acknowledged, or the other way round"


def answers_until_refused(port, request, answers):
    """Whoever keeps a connection as long as it may, and opens another; what became of each request, until nobody listens."""
    s = None
    while True:
        try:
            s = s or socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        except OSError:
            return
        try:
            s.sendall(request)
            got = b""
            while b"\r\n\r\n" not in got and (piece := s.recv(1 << 16)):
                got += piece
            answers.append(got.split(b"\r\n")[0].decode() or "the end, without an answer")
        except OSError as error:
            answers.append(repr(error))
            got = b""
        if not got or b"connection: close" in got:
            s.close()
            s = None


def test_a_stop_under_load_answers_every_request_that_was_sent(small):
    body = small[0].read_bytes()
    request = (f"POST {PROFILES_PATH} HTTP/1.1\r\nhost: h\r\ncontent-type: application/x-protobuf\r\n"
               f"content-length: {len(body)}\r\n\r\n").encode() + body
    with running(Gateway()) as gateway:
        answers = []
        clients = [threading.Thread(target=answers_until_refused, args=(gateway.ports[0], request, answers), daemon=True)
                   for _ in range(8)]
        for client in clients:
            client.start()
        wait_for(lambda: len(answers) > 200, "load")
        assert gateway.stop() == 0
        for client in clients:
            client.join(PATIENCE)
        assert set(answers) == {"HTTP/1.1 200 OK"}


# ---- requests that take long ----

LONG_BYTES = 4 << 20


@pytest.fixture(scope="module")
def long_one(tmp_path_factory):
    """A request that takes long to count: label values of the peer's choosing, each of them new."""
    path = tmp_path_factory.mktemp("long") / "long.pb"
    path.write_bytes(hostile.build("leaves", LONG_BYTES))
    return path


def test_while_somebody_sends_what_takes_long_small_requests_do_not_wait_for_it(small, long_one):
    """With one worker they would all stand behind it: of requests that fall due at even times, one half would wait for half of
    the long one's time or more. Both are measured in the same seconds, so that a busy machine slows both down."""
    with running(Gateway("--set", "service.workers=1")) as gateway:
        long_requests = load(gateway, "--protocol", "http", "--connections", 1, "--requests", 8, files=[long_one])
        wait_for(lambda: gateway.total("profgate_lane_requests_total") >= 1, "the first is being worked on")
        good = result(load(gateway, "--protocol", "grpc", "--connections", 8, "--requests", 300, "--rate", 100, files=small[:4]))
        slow = result(long_requests)
        assert good["errors"] == 0 and slow["errors"] == 0
        assert gateway.total("profgate_lane_requests_total") == 8
        assert slow["p50_us"] > 20_000, "these do not take long: nobody could be kept waiting"
        assert good["p50_us"] < slow["p50_us"] / 8, "small requests wait for large ones"
        assert gateway.stop() == 0


def test_a_gateway_that_sees_no_large_request_has_no_lane(small):
    with running(Gateway()) as gateway:
        assert result(load(gateway, "--protocol", "grpc", "--connections", 8, "--requests", 200, files=small))["errors"] == 0
        assert gateway.total("profgate_lanes") == 0
        assert "lane" not in " ".join((p / "comm").read_text() for p in pathlib.Path(f"/proc/{gateway.pid}/task").iterdir())
        assert gateway.stop() == 0


def kernel_samples_in(path):
    return sum(int(point["asInt"]) for line in json_lines(path) for r in line["resourceMetrics"] for scope in r["scopeMetrics"]
               for metric in scope["metrics"] if metric["name"] == "samples.kernel.count" for point in metric["sum"]["dataPoints"])


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_large_requests_through_reloads_and_a_stop_are_counted_once(tmp_path, protocol):
    """Lanes hand over their counts, change over to new rules and end as workers do."""
    large = tmp_path / "large.pb"
    large.write_bytes(hostile.build("valid", 1 << 20))
    samples = samples_in([large])[0]
    out = tmp_path / "metrics.jsonl"
    config = f"metrics: {{ flush_interval: 1h, exporters: [file/out] }}\nexporters: {{ file/out: {{ path: {out} }} }}\n"
    with running(Gateway(config=config)) as gateway:
        client = load(gateway, "--protocol", protocol, "--connections", 6, "--requests", 10_000_000, "--until-closed", 1,
                      files=[large])
        for i in range(1, 4):
            wait_for(lambda: gateway.total("profgate_lane_requests_total") > 20 * i, "load")
            gateway.process.send_signal(signal.SIGHUP)
            wait_for(lambda: gateway.log().count("reloaded metrics=") == i, "everybody has changed over")
        assert gateway.total("profgate_lanes") == 2
        gateway.process.send_signal(signal.SIGTERM)
        good = result(client)
        assert gateway.wait() == 0
        assert good["acknowledged"][0] > 60
        assert kernel_samples_in(out) == good["acknowledged"][0] * samples


def test_when_a_certificate_ends_is_shown(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key,
                    "-out", cert, "-days", "3", "-subj", "/CN=localhost"], check=True, capture_output=True)
    ends = subprocess.run(["openssl", "x509", "-in", cert, "-noout", "-enddate", "-dateopt", "iso_8601"], check=True,
                          capture_output=True, text=True).stdout.strip().split("=")[1]
    at = datetime.datetime.fromisoformat(ends.replace("Z", "+00:00")).timestamp()
    config = f"receivers:\n  otlp:\n    - {{ endpoint: '127.0.0.1:0' }}\n" \
             f"    - {{ endpoint: '127.0.0.1:0', tls: {{ cert_file: {cert}, key_file: {key} }} }}\n"
    with running(Gateway(config=config, listen=0)) as gateway:
        assert gateway.total("profgate_tls_certificate_expiry_seconds", address=f"127.0.0.1:{gateway.ports[1]}") == at
        named = [series for series, _ in gateway.metrics("self") if series == "profgate_tls_certificate_expiry_seconds"]
        assert len(named) == 1, "the plain address has none"
        assert gateway.stop() == 0
