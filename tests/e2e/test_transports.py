"""What carries requests: TLS with certificates of both sides, renewed while in use; unix sockets; IPv6; a long-lived
connection's pings; the polite end. Frames of HTTP/2 are written by hand where a library would be too well behaved."""
import collections
import contextlib
import gzip
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.request

import peers
import pytest
from programs import BUILD, EXPORT_METHOD, PATIENCE, PROFILES_PATH, Gateway, captures, running, wait_for

GOOD = captures("ebpf-go*.pb")[0].read_bytes()
EMPTY = json.dumps({})
Identity = collections.namedtuple("Identity", "cert key serial")


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.serial = 100
        folder.mkdir()
        self.cert, self.key = folder / "ca.pem", folder / "ca.key"
        self._openssl("req", "-x509", *NEW_KEY, "-keyout", self.key, "-out", self.cert, "-days", "2", "-subj", "/CN=test CA")

    @staticmethod
    def _openssl(*arguments):
        subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True, timeout=PATIENCE)

    def issue(self, name, alternative, seconds=86400):
        """Files NAME.pem, NAME.key, replaced if they are there; good for so long."""
        self.serial += 1
        cert, key, request = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr"))
        extensions = self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternative}\n")
        self._openssl("req", *NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        (self.folder / "issued").write_text("")
        (self.folder / "serial").write_text(f"{self.serial:04x}")
        (self.folder / "ca.conf").write_text(f"[ca]\ndefault_ca = here\n[here]\ndatabase = {self.folder}/issued\nserial = {self.folder}/serial\n"
                                             f"new_certs_dir = {self.folder}\ndefault_md = sha256\npolicy = any\n[any]\ncommonName = supplied\n")
        end = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(time.time() + seconds))
        self._openssl("ca", "-batch", "-notext", "-config", self.folder / "ca.conf", "-in", request, "-cert", self.cert, "-keyfile", self.key,
                      "-enddate", end, "-extfile", extensions, "-out", cert)
        return Identity(cert, key, self.serial)


NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
SERVER_NAMES = "DNS:localhost,IP:127.0.0.1,IP:::1"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "other")


@pytest.fixture(scope="module")
def server(authority):
    return authority.issue("server", SERVER_NAMES)


def tls_address(identity, endpoint="127.0.0.1:0", **more):
    keys = {"cert_file": identity.cert, "key_file": identity.key, **more}
    return f"{{ endpoint: '{endpoint}', tls: {{ " + ", ".join(f"{k}: {v}" for k, v in keys.items()) + " } }"


def config(*addresses):
    return "receivers:\n  otlp:\n" + "".join(f"    - {address}\n" for address in addresses)


def gateway(*addresses):
    return running(Gateway("--set", "service.workers=2", config=config(*addresses), listen=0))


def curl(tmp_path, url, *arguments):
    body = tmp_path / "body"
    body.write_bytes(GOOD)
    done = subprocess.run(["curl", "-sS", "-o", tmp_path / "answer", "-w", "%{http_code} %{http_version}", *map(str, arguments),
                           "-H", "Content-Type: application/x-protobuf", "--data-binary", f"@{body}", url + PROFILES_PATH],
                          capture_output=True, text=True, timeout=PATIENCE)
    return done.stdout, done.stderr


def grpcurl(address, *arguments):
    return subprocess.run([peers.grpcurl(), *map(str, arguments), "-max-time", "20", "-import-path", peers.ROOT / "proto/schema",
                           "-proto", "profiles_service.proto", "-d", EMPTY, address, EXPORT_METHOD[1:]],
                          capture_output=True, text=True, timeout=PATIENCE)


# ---- TLS ----

@pytest.mark.parametrize("tls", ["1.2", "1.3"])
@pytest.mark.parametrize("version, answer", [("--http1.1", "200 1.1"), ("--http2", "200 2")])
def test_curl_over_tls(tmp_path, authority, server, tls, version, answer):
    with gateway(tls_address(server)) as g:
        said, why = curl(tmp_path, f"https://localhost:{g.ports[0]}", version, "--cacert", authority.cert,
                         f"--tlsv{tls}", "--tls-max", tls)
        assert said == answer, why
        assert g.stop() == 0


def test_the_least_version_is_kept(tmp_path, authority, server):
    with gateway(tls_address(server, min_version="'1.3'")) as g:
        said, why = curl(tmp_path, f"https://localhost:{g.ports[0]}", "--cacert", authority.cert, "--tls-max", "1.2")
        assert said.startswith("000") and "alert protocol version" in why
        assert curl(tmp_path, f"https://localhost:{g.ports[0]}", "--cacert", authority.cert)[0] == "200 2"


def test_a_client_that_does_not_know_our_authority_goes_away(tmp_path, server, stranger):
    with gateway(tls_address(server)) as g:
        said, why = curl(tmp_path, f"https://localhost:{g.ports[0]}", "--cacert", stranger.cert)
        assert said.startswith("000") and "certificate" in why
        wait_for(lambda: g.total("profgate_connections") == 0, "the connection gone")


def test_tls_to_a_plain_address(tmp_path):
    """The most common thing to get wrong of all: a Collector speaks TLS unless it is told not to."""
    with running(Gateway(listen=1)) as g:
        said, why = curl(tmp_path, f"https://127.0.0.1:{g.ports[0]}")
        assert said.startswith("000") and "wrong version number" in why, why
        assert re.search(rf'TLS failed peer=\S+ reason="127.0.0.1:{g.ports[0]} takes none"', g.log())
        wait_for(lambda: g.total("profgate_tls_failures_total") == 1, "it counted")
        assert curl(tmp_path, f"http://127.0.0.1:{g.ports[0]}")[0][:3] == "200"

        def admin_told():  # such a line comes once a second
            said, why = curl(tmp_path, f"https://127.0.0.1:{g.admin}")
            assert said.startswith("000") and "wrong version number" in why, why
            return re.search(r'TLS failed peer=\S+ reason="the admin address takes none"', g.log())

        wait_for(admin_told, "the same of the admin address")
        assert g.stop() == 0


@pytest.mark.parametrize("head", [b"PROXY TCP4 10.0.0.1 10.0.0.2 4000 4317\r\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12)])
@pytest.mark.parametrize("tls", [False, True])
def test_who_runs_the_gateway_is_told_of_a_balancers_proxy_protocol(server, head, tls):
    with gateway(tls_address(server) if tls else "{ endpoint: '127.0.0.1:0' }") as g:
        with socket.create_connection(("127.0.0.1", g.ports[0]), timeout=PATIENCE) as s:
            s.sendall(head + b"POST / HTTP/1.1\r\nHost: x\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert s.recv(100) == b""
        wait_for(lambda: g.total("profgate_requests_total", outcome="malformed") == 1, "it counted")
        assert "a balancer says whose connection it is, which is not taken peer=127.0.0.1:" in g.log()


def test_plain_requests_to_a_tls_address(tmp_path, authority, server):
    with gateway(tls_address(server), tls_address(server, allow_plaintext="true")) as g:
        strict, both = g.ports
        for version in ("--http1.1", "--http2-prior-knowledge"):
            said, _ = curl(tmp_path, f"http://localhost:{strict}", version)
            assert said[:3] in ("400", "000"), said
            assert version != "--http1.1" or b"TLS" in (tmp_path / "answer").read_bytes()
            assert curl(tmp_path, f"http://localhost:{both}", version)[0][:3] == "200"
        assert curl(tmp_path, f"https://localhost:{both}", "--cacert", authority.cert)[0] == "200 2"
        done = grpcurl(f"localhost:{both}", "-plaintext")
        assert done.returncode == 0, done.stderr


def test_grpcurl_with_certificates_of_both_sides(authority, server, stranger):
    client = authority.issue("client", "URI:spiffe://example/agent")
    unknown = stranger.issue("client", "URI:spiffe://example/agent")
    with gateway(tls_address(server), tls_address(server, client_ca_file=authority.cert)) as g:
        anybody, known = (f"localhost:{port}" for port in g.ports)
        done = grpcurl(anybody, "-cacert", authority.cert)
        assert done.returncode == 0 and json.loads(done.stdout) == {}, done.stderr
        done = grpcurl(known, "-cacert", authority.cert, "-cert", client.cert, "-key", client.key)
        assert done.returncode == 0 and json.loads(done.stdout) == {}, done.stderr
        assert grpcurl(known, "-cacert", authority.cert).returncode != 0
        assert grpcurl(known, "-cacert", authority.cert, "-cert", unknown.cert, "-key", unknown.key).returncode != 0
        assert grpcurl(anybody, "-cacert", stranger.cert).returncode != 0
        assert g.total("profgate_requests_total", outcome="accepted") == 2


def test_the_wrong_client_is_told_by_an_alert(authority, server, stranger):
    unknown = stranger.issue("somebody", "DNS:somebody")
    with gateway(tls_address(server, client_ca_file=authority.cert)) as g:
        for identity, alert in ((unknown, "UNKNOWN_CA"), (None, "CERTIFICATE_REQUIRED")):
            with pytest.raises(ssl.SSLError) as e:
                with connect(g.ports[0], authority, identity) as s:
                    s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                    s.recv(100)
            assert alert in str(e.value).upper().replace(" ", "_"), e.value
        assert "reason=" in g.log()


def connect(port, authority, identity=None, protocols=None, context=None):
    if context is None:
        context = ssl.create_default_context(cafile=authority.cert)
        if identity:
            context.load_cert_chain(identity.cert, identity.key)
        if protocols:
            context.set_alpn_protocols(protocols)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE), server_hostname="localhost")


def serial(port, authority):
    with connect(port, authority) as s:
        return int(s.getpeercert()["serialNumber"], 16)


class Sender(threading.Thread):
    """Posts on one TLS connection that it never gives up, until told to stop."""

    def __init__(self, port, authority):
        super().__init__()
        context = ssl.create_default_context(cafile=authority.cert)
        self.connection = http.client.HTTPSConnection("localhost", port, timeout=PATIENCE, context=context)
        self.stopping, self.sent, self.problem = threading.Event(), 0, None

    def run(self):
        try:
            self.connection.connect()
            self.connection.auto_open = False  # a lost connection is an error, not a reason to make another
            while not self.stopping.is_set():
                self.connection.request("POST", PROFILES_PATH, GOOD, {"Content-Type": "application/x-protobuf"})
                answer = self.connection.getresponse()
                answer.read()
                assert answer.status == 200, answer.status
                self.sent += 1
        except Exception as e:  # noqa: BLE001 (told to the test's own thread)
            self.problem = e
        finally:
            self.connection.close()


def test_certificates_are_renewed_under_load(authority):
    first = authority.issue("renewed", SERVER_NAMES)
    with gateway(tls_address(first)) as g:
        senders = [Sender(g.ports[0], authority) for _ in range(4)]
        for sender in senders:
            sender.start()
        try:
            for _ in range(3):
                wait_for(lambda: all(s.sent > 0 or s.problem for s in senders), "requests under way")
                new = authority.issue("renewed", SERVER_NAMES)
                os.kill(g.pid, signal.SIGHUP)
                wait_for(lambda: serial(g.ports[0], authority) == new.serial, "the new certificate seen")
                before = [s.sent for s in senders]
                wait_for(lambda: all(s.sent > b + 2 or s.problem for s, b in zip(senders, before)), "connections go on")
            new.cert.write_text("nothing that a certificate is made of")
            os.kill(g.pid, signal.SIGHUP)
            wait_for(lambda: "renewed.pem" in g.log(), "the bad file named in the log")
            assert serial(g.ports[0], authority) == new.serial
        finally:
            for sender in senders:
                sender.stopping.set()
            for sender in senders:
                sender.join()
        assert [s.problem for s in senders] == [None] * 4
        assert g.total("profgate_requests_total", outcome="accepted") == sum(s.sent for s in senders)
        assert g.stop() == 0


@pytest.mark.parametrize("door", ["otlp", "admin"])
def test_a_connection_ends_with_the_certificate_of_its_client(authority, server, door):
    """However busy it is, and with an answer to each request; who comes back with the same one is refused, and with a new one is not."""
    keys = tls_address(server, client_ca_file=authority.cert)
    more = "" if door == "otlp" else f"admin: {{ tls: {{ cert_file: '{server.cert}', key_file: '{server.key}', client_ca_file: '{authority.cert}' }} }}\n"
    with running(Gateway(config=config(keys) + more, listen=0)) as g:
        port, path = (g.ports[0], PROFILES_PATH) if door == "otlp" else (g.admin, "/metrics")

        def ask(connection):
            connection.request("POST" if door == "otlp" else "GET", path, GOOD if door == "otlp" else None, {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            answer.read()
            return answer.status

        def connected(identity):
            context = ssl.create_default_context(cafile=authority.cert)
            context.load_cert_chain(identity.cert, identity.key)
            connection = http.client.HTTPSConnection("localhost", port, timeout=PATIENCE, context=context)
            connection.connect()
            connection.auto_open = False  # a connection that has ended is an error
            return connection

        for seconds in (4, 16, 64):  # on a slow machine it may have ended before it was shown
            old, ends = authority.issue("short", "DNS:agent", seconds), time.time() + seconds
            with contextlib.closing(connected(old)) as busy, contextlib.closing(connected(old)) as idle:
                try:
                    assert [ask(busy), ask(idle)] == [200, 200]
                except (OSError, http.client.HTTPException):
                    continue
                with contextlib.suppress(http.client.NotConnected, http.client.RemoteDisconnected, ConnectionError, ssl.SSLError):
                    while time.time() < ends + PATIENCE:
                        assert ask(busy) == 200
                assert ends - 1 < time.time() < ends + PATIENCE
                assert idle.sock.recv(1) == b""
                break
        with pytest.raises((ssl.SSLError, ConnectionError, http.client.RemoteDisconnected)) as refused, contextlib.closing(connected(old)) as again:
            ask(again)
        print(refused.value)
        with contextlib.closing(connected(authority.issue("short", "DNS:agent"))) as again:
            assert ask(again) == 200
        assert "certificate has expired" in g.log()
        assert g.stop() == 0


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_an_exporter_shows_the_certificate_that_was_renewed(authority, stranger, server, protocol):
    """Without a reload: what is renewed on disk is what the next connection has."""
    mine = authority.folder / f"exporter-{protocol}.pem", authority.folder / f"exporter-{protocol}.key"

    def put(identity):
        for path, new in zip(mine, (identity.cert, identity.key)):
            new.rename(path)

    put(stranger.issue("old", "DNS:agent"))
    with running(Gateway(config=config(tls_address(server, client_ca_file=authority.cert)), listen=0)) as receiver:
        sending = f"""
profiles: {{ exporters: [otlp/next] }}
exporters:
  otlp/next: {{ endpoint: 'https://localhost:{receiver.ports[0]}', protocol: {protocol}, retry_on_failure: {{ initial_interval: 100ms, max_interval: 300ms }},
                tls: {{ ca_file: '{authority.cert}', cert_file: '{mine[0]}', key_file: '{mine[1]}' }} }}
"""
        with running(Gateway(config=sending)) as g:
            assert g.post(GOOD)[0] == 200
            wait_for(lambda: g.total("profgate_export_requests_total", signal="profiles", outcome="retried") > 0, "the old one refused")
            put(authority.issue("new", "DNS:agent"))
            wait_for(lambda: g.total("profgate_export_requests_total", signal="profiles", outcome="sent") == 1, "the new one taken")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_renewed_certificate_that_cannot_be_used_is_said_with_each_connection(authority, server, protocol):
    """And when the one that is shown ends, which is what an alert goes by."""
    mine = authority.issue(f"stale-{protocol}", "DNS:agent", seconds=5000)
    with running(Gateway(config=config(tls_address(server, client_ca_file=authority.cert)), listen=0)) as receiver:
        sending = f"""
profiles: {{ exporters: [otlp/next] }}
exporters:
  otlp/next: {{ endpoint: 'https://localhost:{receiver.ports[0]}', protocol: {protocol}, max_connection_age: 1s,
                tls: {{ ca_file: '{authority.cert}', cert_file: '{mine.cert}', key_file: '{mine.key}' }} }}
"""
        with running(Gateway(config=sending)) as g:
            def shown():
                return g.total("profgate_tls_certificate_expiry_seconds", destination="otlp/next", signal="profiles") - time.time()

            def failed():
                assert g.post(GOOD)[0] == 200
                return g.total("profgate_tls_renewals_failed_total")

            assert 4000 < shown() < 5000 and failed() == 0
            wait_for(lambda: g.total("profgate_export_requests_total", outcome="sent") > 0, "it does")
            mine.key.write_text("half of a renewal")
            wait_for(lambda: failed() >= 2, "more than once")
            assert "a certificate was not renewed, the one from before is shown destination=otlp/next" in g.log() and str(mine.key) in g.log()
            assert shown() < 5000
            authority.issue(f"stale-{protocol}", "DNS:agent", seconds=9000)
            wait_for(lambda: g.post(GOOD)[0] == 200 and shown() > 8000, "the whole one is shown")
            assert g.stop() == 0 and "refused for good" not in g.log()


def test_certificates_and_rules_are_taken_together_or_not_at_all(tmp_path, authority):
    """A refused configuration leaves the certificate as it was, a bad certificate the rules."""
    rules = tmp_path / "mine.rules"
    good = 'rules 1\npack mine\ncounter mine.{} {{ on "samples/count" value events }}\n'
    rules.write_text(good.format("old"))
    first = authority.issue("together", SERVER_NAMES)
    text = config(tls_address(first)) + f"rules: {{ files: [{rules}] }}\n"
    with running(Gateway(config=text, listen=0)) as g:
        def refused(part, times):
            os.kill(g.pid, signal.SIGHUP)
            wait_for(lambda: g.log().count(f'reload refused part="{part}"') == times, f"{part} refused")

        new = authority.issue("together", SERVER_NAMES)
        rules.write_text("nonsense")
        refused("rules", 1)
        assert serial(g.ports[0], authority) == first.serial
        pem = new.cert.read_text()
        new.cert.write_text("nothing that a certificate is made of")
        rules.write_text(good.format("new"))
        refused("certificates", 1)
        assert serial(g.ports[0], authority) == first.serial
        new.cert.write_text(pem)
        os.kill(g.pid, signal.SIGHUP)
        wait_for(lambda: serial(g.ports[0], authority) == new.serial, "both taken")
        wait_for(lambda: "reloaded metrics=" in g.log(), "by the workers, too")
        assert g.log().count("reloaded metrics=") == 1
        assert g.stop() == 0


def test_half_handshakes_hold_nothing_up(tmp_path, authority, server):
    with gateway(tls_address(server)) as g:
        hello = ssl.create_default_context()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        half = hello.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            half.do_handshake()
        hello_bytes = outgoing.read()
        before = g.rss_kib("VmRSS")
        with contextlib.ExitStack() as stack:
            for i in range(300):
                s = stack.enter_context(socket.create_connection(("127.0.0.1", g.ports[0]), timeout=PATIENCE))
                s.sendall(hello_bytes if i % 3 else hello_bytes[:i % 50])
            for _ in range(5):
                assert curl(tmp_path, f"https://localhost:{g.ports[0]}", "--cacert", authority.cert)[0] == "200 2"
            assert g.rss_kib("VmRSS") < before + 300 * 250  # measured: 54 KiB each; 220 with ASan
        wait_for(lambda: g.total("profgate_connections") == 0, "all of them gone")


# ---- unix sockets, IPv6 ----

def test_a_unix_socket_takes_curl_and_grpcurl(tmp_path):
    path = tmp_path / "gate.sock"
    left_behind = socket.socket(socket.AF_UNIX)
    left_behind.bind(str(path))
    left_behind.close()
    with gateway(f"{{ endpoint: 'unix://{path}' }}") as g:
        for version, answer in (("--http1.1", "200 1.1"), ("--http2-prior-knowledge", "200 2")):
            said, why = curl(tmp_path, "http://localhost", version, "--unix-socket", path)
            assert said == answer, why
        done = grpcurl(str(path), "-plaintext", "-unix")
        assert done.returncode == 0 and json.loads(done.stdout) == {}, done.stderr
        assert g.total("profgate_requests_total", outcome="accepted") == 3
        assert path.stat().st_mode & 0o777 == 0o660
        second = subprocess.run([BUILD / "profgate", "serve", "--set", "admin.endpoint=127.0.0.1:0", "--listen", f"unix:{path}"],
                                capture_output=True, text=True, timeout=PATIENCE)
        assert second.returncode != 0 and "another process listens there" in second.stderr
        assert curl(tmp_path, "http://localhost", "--unix-socket", path)[0] == "200 1.1"
        assert g.stop() == 0
    assert not path.exists()


def test_tls_on_a_unix_socket(tmp_path, authority, server):
    path = tmp_path / "gate.sock"
    with gateway(tls_address(server, endpoint=f"unix:{path}")):
        said, why = curl(tmp_path, "https://localhost", "--cacert", authority.cert, "--unix-socket", path)
        assert said == "200 2", why


def test_ipv6_plain_and_tls(tmp_path, authority, server):
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 on this machine")
    with gateway("{ endpoint: '[::1]:0' }", tls_address(server, endpoint="[::1]:0")) as g:
        assert curl(tmp_path, f"http://[::1]:{g.ports[0]}")[0] == "200 1.1"
        assert curl(tmp_path, f"https://[::1]:{g.ports[1]}", "--cacert", authority.cert)[0] == "200 2"


# ---- HTTP/2 by hand ----

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def frame(kind, flags, stream, payload=b""):
    """RFC 9113 §4.1"""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def header(name, value):
    """A literal without indexing, no Huffman code (RFC 7541 §6.2.2); both shorter than 127."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


GRPC_HEAD = b"".join(header(*pair) for pair in (
    (":method", "POST"), (":scheme", "http"), (":path", EXPORT_METHOD), (":authority", "x"),
    ("te", "trailers"), ("content-type", "application/grpc")))


class Http2:
    """One connection. Frames that come are kept in the order they came."""

    def __init__(self, s):
        self.socket, self.buffer = s, b""
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0))
        self.until(SETTINGS)
        s.sendall(frame(SETTINGS, ACK, 0))

    def next(self):
        """(kind, flags, stream, payload), or None at the end."""
        while len(self.buffer) < 9 or len(self.buffer) < 9 + int.from_bytes(self.buffer[:3], "big"):
            piece = self.socket.recv(65536)
            if not piece:
                return None
            self.buffer += piece
        n = int.from_bytes(self.buffer[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", self.buffer[3:9])
        payload, self.buffer = self.buffer[9:9 + n], self.buffer[9 + n:]
        return kind, flags, stream, payload

    def until(self, kind, flags=None):
        """The next frame of a kind (with exactly these flags)."""
        while True:
            got = self.next()
            assert got, "the connection ended"
            if got[0] == kind and (flags is None or got[1] == flags):
                return got

    def call_begin(self, stream):
        self.socket.sendall(frame(HEADERS, END_HEADERS, stream, GRPC_HEAD))

    def call_end(self, stream):
        self.socket.sendall(frame(DATA, END_STREAM, stream, bytes(5)))  # one empty message

    def answer(self, stream):
        """Reads to the end of a stream; the kinds of its frames."""
        kinds = []
        while True:
            got = self.next()
            assert got, "the connection ended"
            if got[2] == stream:
                kinds.append(got[0])
                if got[1] & END_STREAM and got[0] in (DATA, HEADERS):
                    return kinds


@pytest.fixture(params=["plain", "tls"])
def dial(request, authority, server):
    """A gateway and a way to connect to it."""
    address = "{ endpoint: '127.0.0.1:0' }" if request.param == "plain" else tls_address(server)
    with gateway(address) as g:
        def opened():
            if request.param == "tls":
                s = connect(g.ports[0], authority, protocols=["h2"])
                assert s.selected_alpn_protocol() == "h2"
                return s
            return socket.create_connection(("127.0.0.1", g.ports[0]), timeout=PATIENCE)
        yield g, opened


def test_pings_of_an_idle_client_are_answered(dial):
    """As grpc clients with keepalive send them: also without a call, reference keepalive.md; never too many for us."""
    _, opened = dial
    with opened() as s:
        h2 = Http2(s)
        for i in range(30):
            word = struct.pack(">Q", i)
            s.sendall(frame(PING, 0, 0, word))
            assert h2.until(PING)[1:] == (ACK, 0, word)
        h2.call_begin(1)
        s.sendall(frame(PING, 0, 0, b"in  call"))
        assert h2.until(PING)[3] == b"in  call"
        h2.call_end(1)
        assert h2.answer(1)[-1] == HEADERS
        s.sendall(frame(PING, 0, 0, b"and then"))
        assert h2.until(PING)[3] == b"and then"


class Departing:
    """A destination over HTTP/2: of its first `refusals` connections it takes so many calls and says that it never looked at the next
    one, as a proxy does that ends a connection after so many; then it takes what comes."""

    def __init__(self, refusals, takes):
        self.refusals, self.takes, self.connections = refusals, takes, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                s, _ = self.listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(s, self.connections <= self.refusals), daemon=True).start()

    def _serve(self, s, departs):
        s.recv(24, socket.MSG_WAITALL)
        s.sendall(frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 1 << 24)) + frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 24)))
        with contextlib.suppress(OSError):
            while head := s.recv(9, socket.MSG_WAITALL):
                n = int.from_bytes(head[:3], "big")
                kind, flags, stream = struct.unpack(">BBI", head[3:])
                n and s.recv(n, socket.MSG_WAITALL)
                if departs and kind == HEADERS and stream == 2 * self.takes + 1:
                    s.sendall(frame(GOAWAY, 0, 0, struct.pack(">II", max(stream - 2, 0), 0)) + (self.answer(1) if self.takes else b""))
                elif not departs and kind == DATA and flags & END_STREAM:
                    s.sendall(self.answer(stream))
        s.close()

    @staticmethod
    def answer(stream):
        return (frame(HEADERS, END_HEADERS, stream, header(":status", "200") + header("content-type", "application/grpc"))
                + frame(DATA, 0, stream, bytes(5)) + frame(HEADERS, END_HEADERS | END_STREAM, stream, header("grpc-status", "0")))

    def close(self):
        self.listener.close()


@pytest.mark.parametrize("refusals, takes", [(3, 1), (2, 0)])
def test_what_a_peer_that_goes_away_did_not_look_at_goes_at_once(refusals, takes):
    """A pause of retry_on_failure is for what failed, and for who says so again and takes nothing."""
    with contextlib.closing(Departing(refusals, takes)) as peer:
        sending = f"""
profiles: {{ exporters: [otlp/next] }}
exporters:
  otlp/next: {{ endpoint: 'http://127.0.0.1:{peer.port}', retry_on_failure: {{ initial_interval: 2s, max_interval: 2s, randomization_factor: 0 }} }}
"""
        with running(Gateway(config=sending)) as g:
            for _ in range(8):
                assert g.post(GOOD)[0] == 200
            wait_for(lambda: g.total("profgate_export_requests_total", outcome="sent") == 8, "all of them")
            assert (g.total("profgate_export_requests_total", outcome="retried") == 0) == bool(takes), g.log()
            assert peer.connections > refusals and g.stop() == 0


def flood(s, what, seconds=10):
    """Sends it again and again without reading, until the peer takes no more or hangs up; bytes sent."""
    sent, end = 0, time.monotonic() + seconds
    s.settimeout(1)
    while time.monotonic() < end:
        try:
            sent += s.send(what)
        except (TimeoutError, OSError):
            break
    return sent


@pytest.mark.parametrize("name, piece", [
    ("pings", frame(PING, 0, 0, b"12345678")),
    ("settings", frame(SETTINGS, 0, 0)),
])
def test_a_flood_is_bounded(tmp_path, dial, name, piece):
    g, opened = dial
    with opened() as bad, opened() as good:
        h2 = Http2(good)
        Http2(bad)
        before = g.rss_kib("VmRSS")
        sent = flood(bad, piece * 1000)
        assert sent < 100 << 20, "somebody listens to this for ever"
        for stream in range(1, 21, 2):
            h2.call_begin(stream)
            h2.call_end(stream)
            assert h2.answer(stream)[-1] == HEADERS
        assert g.rss_kib("VmRSS") < before + 16_000


@pytest.fixture
def own_memory():
    if "asan" in subprocess.run(["ldd", BUILD / "profgate"], capture_output=True, text=True).stdout:
        pytest.skip("with sanitizers memory is another")


def test_a_gateway_that_was_just_started_is_small(own_memory):
    with running(Gateway("--set", "service.workers=1", listen=1)) as g:
        # Measured 2.5 MB with all packs; 3.4 with all libraries linked; 4.2 with tables in pages that were there.
        assert g.rss_kib("RssAnon") < 3000
        assert not re.search(r"/lib(ssl|crypto|rdkafka|sqlite3|snappy|stdc\+\+|lz4|crypt|deflate|isal|yaml|zstd)\b", mappings(g))


def mappings(gateway):
    return pathlib.Path(f"/proc/{gateway.pid}/maps").read_text()


# A body of nothing: RFC 8878 section 3.1.1, a frame of one empty block.
@pytest.mark.parametrize("library, coding, body", [("snappy", "snappy", b"\0"), ("deflate", "gzip", gzip.compress(b"", mtime=0)),
                                                   ("zstd", "zstd", b"\x28\xb5\x2f\xfd\x20\0\1\0\0")])
def test_a_library_is_loaded_by_the_first_request_that_needs_it(own_memory, library, coding, body):
    with running(Gateway(listen=1)) as g:
        assert f"/lib{library}" not in mappings(g)
        assert g.post(body, {"content-encoding": coding})[0] == 200
        assert f"/lib{library}" in mappings(g)


def test_a_library_is_loaded_by_the_first_page_that_needs_it(own_memory):
    with running(Gateway(listen=1)) as g:
        assert "/libisal" not in mappings(g)
        page = urllib.request.Request(f"http://127.0.0.1:{g.admin}/metrics", headers={"accept-encoding": "gzip"})
        with urllib.request.urlopen(page, timeout=PATIENCE) as answer:
            assert b"profgate_" in gzip.decompress(answer.read())
        assert "/libisal" in mappings(g)


def test_an_idle_connection_over_tls_is_small(own_memory, authority, server):
    context = ssl.create_default_context(cafile=str(authority.cert))
    context.set_alpn_protocols(["h2"])
    with gateway(tls_address(server)) as g, contextlib.ExitStack() as stack:

        def opened(n):
            for _ in range(n):
                plain = stack.enter_context(socket.create_connection(("127.0.0.1", g.ports[0]), timeout=PATIENCE))
                h2 = Http2(stack.enter_context(context.wrap_socket(plain, server_hostname="localhost")))
                h2.call_begin(1)
                h2.call_end(1)
                h2.answer(1)
            return g.rss_kib("VmRSS")

        before = opened(20)
        assert opened(100) < before + 100 * 39  # KiB; measured 32, and 44 with nghttp2's buffer for frames in pages that are there


def test_sigterm_lets_a_call_end(dial):
    g, opened = dial
    with opened() as s, opened() as idle:
        h2, other = Http2(s), Http2(idle)
        h2.call_begin(1)
        s.sendall(frame(PING, 0, 0, b"received"))
        h2.until(PING)
        g.process.send_signal(signal.SIGTERM)
        assert int.from_bytes(h2.until(GOAWAY)[3][:4], "big") == 0x7fffffff  # the first notice (RFC 9113 §6.8)
        other.until(GOAWAY)
        h2.call_end(1)
        s.sendall(frame(PING, ACK, 0, b"goodbye\0"))
        assert h2.answer(1)[-1] == HEADERS
        while (got := h2.next()):
            assert got[0] != RST_STREAM
        while other.next():
            pass
    assert g.wait() == 0


def test_a_call_that_does_not_end_is_cut_at_the_deadline(authority, server):
    address = config(tls_address(server))
    with running(Gateway("--set", "service.shutdown_timeout=300ms", config=address, listen=0)) as g:
        with connect(g.ports[0], authority, protocols=["h2"]) as s:
            h2 = Http2(s)
            h2.call_begin(1)
            s.sendall(frame(PING, 0, 0, b"received"))
            h2.until(PING)
            assert g.stop() == 0
