"""The way to a destination: by a proxy, and by a name that may come to lead elsewhere."""
import base64
import contextlib
import socket
import ssl
import subprocess
import threading

import pytest
from backends import OverGrpc, Parca
from programs import BUILD, PATIENCE, Gateway, captures, running, wait_for
from sink import Sink

BODY = captures("ebpf-*.pb")[0].read_bytes()
FAST = "retry_on_failure: { initial_interval: 20ms, max_interval: 100ms }"


class Proxy:
    """Tunnels, or does to who asks for one what `mode` says."""

    def __init__(self, mode="tunnels", password=None):
        self.mode, self.password, self.asked, self.stopping = mode, password, [], threading.Event()
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=(self.socket.accept()[0],), daemon=True).start()

    def serve(self, client):
        with contextlib.suppress(OSError), client:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1) or b"\r\n\r\n"
            self.asked.append(head.decode())
            if self.mode == "hangs":
                self.stopping.wait()
            elif self.mode == "says too much":
                while True:
                    client.sendall(b"HTTP/1.1 200 fine\r\nX: " + b"x" * 65536)
            elif self.mode == "talks nonsense":
                client.sendall(b"220 mail.example.com ESMTP\r\n\r\n")
            elif self.mode == "closes":
                return
            elif self.password and f"Basic {base64.b64encode(self.password.encode()).decode()}".encode() not in head:
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            else:
                self.tunnel(client, head.split()[1].decode())

    def tunnel(self, client, authority):
        host, _, port = authority.rpartition(":")
        with socket.create_connection((host, int(port))) as peer:
            for part in b"HTTP/1.1 200 Connection ", b"established\r\nX-Proxy: a", b"\r\n\r\n":  # in pieces
                client.sendall(part)
            back = threading.Thread(target=self.copy, args=(peer, client), daemon=True)
            back.start()
            self.copy(client, peer)
            back.join()

    @staticmethod
    def copy(source, to):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                to.sendall(data)
        for s in (source, to):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.stopping.set()
        self.socket.close()


class Counting(Sink):
    def __init__(self, context=None):
        super().__init__()
        self.bodies, self.context = [], context

    def start(self):
        super().start()
        if self.context:
            self._server.socket = self.context.wrap_socket(self._server.socket, server_side=True)
        return self

    def take(self, path, headers, body):
        self.bodies.append(body)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    return folder


def to(endpoint, proxy, more="protocol: http", user=""):
    return f"""
profiles: {{ exporters: [otlp/sink] }}
exporters: {{ otlp/sink: {{ endpoint: '{endpoint}', {FAST}, proxy_url: 'http://{user}127.0.0.1:{proxy.port}', {more} }} }}
"""


@pytest.mark.parametrize("user", ["", "somebody:se cret@".replace(" ", ""), "a:b@"])
def test_http_by_a_proxy(user):
    with Counting() as sink, Proxy(password=user[:-1] or None) as proxy, running(Gateway(config=to(sink.url, proxy, user=user))) as gateway:
        for _ in range(3):
            assert gateway.post(BODY)[0] == 200
        wait_for(lambda: len(sink.bodies) == 3, "the requests")
        assert all(head.startswith(f"CONNECT 127.0.0.1:{sink.port} HTTP/1.1\r\nHost: 127.0.0.1:{sink.port}\r\n") for head in proxy.asked)


def test_tls_by_a_proxy_is_checked_against_the_endpoint(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with Counting(context) as sink, Proxy() as proxy:
        config = to(f"https://localhost:{sink.port}", proxy, f"protocol: http, tls: {{ ca_file: {certificate}/cert.pem }}")
        with running(Gateway(config=config)) as gateway:
            assert gateway.post(BODY)[0] == 200
            wait_for(lambda: len(sink.bodies) == 1, "the request")
        assert proxy.asked[0].startswith(f"CONNECT localhost:{sink.port} ")


def test_grpc_by_a_proxy():
    class Destination(OverGrpc, Parca):
        pass
    with Destination() as sink, Proxy() as proxy, running(Gateway(config=to(f"http://127.0.0.1:{sink.port}", proxy, "protocol: grpc"))) as gateway:
        assert gateway.post(BODY)[0] == 200
        wait_for(lambda: sink.requests, "the request")
        assert len(proxy.asked) == 1


@pytest.mark.parametrize("mode, why", [("hangs", "by way of the proxy"), ("says too much", "says too much"), ("talks nonsense", "refuses: 220 mail"),
                                       ("closes", "closed the connection"), ("asks who it is", "refuses: HTTP/1.1 407")])
def test_a_proxy_that_does_not_tunnel_is_told_and_costs_nothing(mode, why):
    with Counting() as sink, Proxy(mode, password="x:y" if "who" in mode else None) as proxy:
        config = to(sink.url, proxy, "protocol: http, timeout: 300ms")
        with running(Gateway(config=config)) as gateway:
            assert gateway.post(BODY)[0] == 200
            wait_for(lambda: why in gateway.log(), "the reason")
            assert not sink.bodies
            proxy.mode, proxy.password = "tunnels", None
            proxy.stopping.set()
            wait_for(lambda: len(sink.bodies) == 1, "the request")
            assert gateway.total("profgate_forward_dropped_samples_total") == 0


@pytest.mark.parametrize("url", ["https://proxy:3128", "proxy:3128", "http://proxy:3128/path", "http://a@b@proxy:1"])
def test_what_is_no_proxy_is_an_error(url, tmp_path):
    file = tmp_path / "profgate.yaml"
    file.write_text(f"exporters: {{ otlp/sink: {{ endpoint: 'http://127.0.0.1:1', proxy_url: '{url}' }} }}\n")
    done = subprocess.run([BUILD / "profgate", "validate", file], capture_output=True, text=True)
    assert done.returncode == 1 and "proxy_url" in done.stdout + done.stderr, done.stdout + done.stderr


def test_a_password_is_not_shown(tmp_path):
    file = tmp_path / "profgate.yaml"
    file.write_text("exporters: { otlp/sink: { endpoint: 'http://127.0.0.1:1', proxy_url: 'http://a:hidden@proxy:1' } }\n")
    done = subprocess.run([BUILD / "profgate", "serve", "--config", file, "--print-config"], capture_output=True, text=True)
    assert done.returncode == 0 and "proxy_url" in done.stdout and "hidden" not in done.stdout, done.stdout + done.stderr


def test_a_name_is_asked_for_again():
    """Connections have an age, and each begins with the name; without one there is one connection for all."""
    for age, many in (("10ms", True), ("0", False)):
        with Counting() as sink, Proxy() as proxy:
            config = to(sink.url, proxy, f"protocol: http, max_connection_age: {age}, sending_queue: {{ num_consumers: 1 }}")
            with running(Gateway(config=config)) as gateway:
                for i in range(5):
                    assert gateway.post(BODY)[0] == 200
                    wait_for(lambda: len(sink.bodies) == i + 1, "the request")
                    threading.Event().wait(0.05)
                assert (len(proxy.asked) == 5) if many else (len(proxy.asked) == 1)


# ---- several endpoints

def several(sinks, more=""):
    urls = ", ".join(f"'http://127.0.0.1:{s.port}'" for s in sinks)
    return f"""
profiles: {{ exporters: [otlp/sink] }}
exporters: {{ otlp/sink: {{ endpoints: [{urls}], {FAST}, protocol: http{more} }} }}
"""


def post(gateway, n):
    for _ in range(n):
        assert gateway.post(BODY)[0] == 200


def test_endpoints_take_turns_by_weight():
    with Counting() as a, Counting() as b, Counting() as c, running(Gateway(config=several((a, b, c), ", weights: [1, 2, 3]"))) as gateway:
        post(gateway, 60)
        wait_for(lambda: sum(len(s.bodies) for s in (a, b, c)) == 60, "all")
        assert [len(s.bodies) for s in (a, b, c)] == [10, 20, 30]


@pytest.mark.parametrize("balancing", ["round_robin", "failover"])
def test_what_one_endpoint_does_not_take_another_does(balancing):
    with Counting() as a, Counting() as b, running(Gateway(config=several((a, b), f", balancing: {balancing}, sending_queue: {{ num_consumers: 1 }}"))) as gateway:
        post(gateway, 4)
        wait_for(lambda: gateway.total("profgate_export_requests_total", outcome="sent") == 4, "the first ones")
        assert len(b.bodies) == (2 if balancing == "round_robin" else 0)
        a.keep_alive = False
        a.stop()
        a.take = lambda *request: (503, b"")
        a.start()  # somebody is there, and has no room
        before = len(b.bodies)
        post(gateway, 10)
        wait_for(lambda: len(b.bodies) == before + 10, "all at the other one")
        del a.take
        was = len(a.bodies)
        wait_for(lambda: post(gateway, 1) or len(a.bodies) > was, "the first to be used again")
        assert gateway.total("profgate_forward_dropped_samples_total") == 0


def test_where_nobody_is_well_requests_wait():
    with Counting() as a, Counting() as b, running(Gateway(config=several((a, b)))) as gateway:
        a.stop(), b.stop()
        post(gateway, 5)
        wait_for(lambda: "will be repeated" in gateway.log(), "failed attempts")
        b.start()
        wait_for(lambda: len(b.bodies) == 5, "all at the one that came back")


def test_grpc_to_several():
    class Destination(OverGrpc, Parca):
        pass
    with Destination() as a, Destination() as b, running(Gateway(config=several((a, b)).replace("protocol: http", "protocol: grpc"))) as gateway:
        post(gateway, 6)
        wait_for(lambda: gateway.total("profgate_export_requests_total", outcome="sent") == 6, "all to be answered")
        assert len(a.requests) == len(b.requests) == 3
        a.stop()
        post(gateway, 6)
        wait_for(lambda: len(b.requests) == 9, "the rest")


@pytest.mark.parametrize("keys, why", [
    ("endpoint: 'http://a:1', endpoints: ['http://b:1']", "either the one or the other"), ("endpoints: ['http://a:1'], weights: [1, 2]", "2 for 1"),
    ("endpoints: ['http://a:1'], weights: [0]", "from 1 to 1000"), ("endpoints: ['ftp://a:1']", "not http"), ("protocol: http", "no endpoint")])
def test_endpoints_that_make_no_sense_are_an_error(keys, why, tmp_path):
    file = tmp_path / "profgate.yaml"
    file.write_text(f"exporters: {{ otlp/sink: {{ {keys} }} }}\n")
    done = subprocess.run([BUILD / "profgate", "validate", file], capture_output=True, text=True)
    assert done.returncode == 1 and why in done.stdout + done.stderr, done.stdout + done.stderr


# ---- tokens

class Authority(Sink):
    """Gives tokens, and says of each what was asked."""

    def __init__(self, lasts=3600):
        super().__init__()
        self.lasts, self.asked, self.mode, self.given = lasts, [], "gives", 0
        self.stopping = threading.Event()

    def take(self, path, headers, body):
        self.asked.append((path, headers["Authorization"], headers["Content-Type"], body.decode()))
        if self.mode == "hangs":
            self.stopping.wait(PATIENCE)
        if self.mode == "refuses":
            return 401, b'{"error":"invalid_client"}'
        if self.mode == "talks nonsense":
            return 200, b'{"access_token": "two\\nlines"}'
        if self.mode == "gives nothing":
            return 200, b"[" * 60000
        self.given += 1
        return 200, f'{{"access_token":"token-{self.given}","token_type":"Bearer","expires_in":{self.lasts}}}'.encode()


class Guarded(Sink):
    """Takes requests that bear a token it knows."""

    def __init__(self, known=lambda token: True):
        super().__init__()
        self.known, self.tokens, self.strangers = known, [], 0

    def take(self, path, headers, body):
        scheme, _, token = (headers["Authorization"] or "").partition(" ")
        if scheme != "Bearer" or not self.known(token):
            self.strangers += 1
            return 401, b""
        self.tokens.append(token)


def guarded(sink, authority, more=""):
    return f"""
profiles: {{ exporters: [otlp/sink] }}
exporters:
  otlp/sink: {{ endpoint: '{sink.url}', protocol: http, {FAST}{more},
               oauth2: {{ token_url: '{authority.url}/token', client_id: 'me+you', client_secret: 's:cret', scopes: [write, profiles],
                         endpoint_params: {{ audience: 'https://here' }} }} }}
"""


def test_each_call_bears_a_token_that_is_asked_for_once():
    with Guarded() as sink, Authority() as authority, running(Gateway(config=guarded(sink, authority))) as gateway:
        post(gateway, 5)
        wait_for(lambda: sink.tokens == ["token-1"] * 5, "the requests")
        assert sink.strangers == 0 and len(authority.asked) == 1
        path, who, kind, body = authority.asked[0]
        assert path == "/token" and kind == "application/x-www-form-urlencoded"
        assert who == "Basic " + base64.b64encode(b"me%2Byou:s%3Acret").decode()
        assert sorted(body.split("&")) == ["audience=https%3A%2F%2Fhere", "grant_type=client_credentials", "scope=write%20profiles"]


def test_a_token_that_expires_or_is_refused_is_replaced():
    with Guarded() as sink, Authority(lasts=1) as authority, running(Gateway(config=guarded(sink, authority))) as gateway:
        wait_for(lambda: post(gateway, 1) or len(set(sink.tokens)) >= 3, "tokens that are new")
        assert gateway.total("profgate_forward_dropped_samples_total") == 0
    with Guarded(lambda token: token != "token-1") as sink, Authority() as authority, running(Gateway(config=guarded(sink, authority))) as gateway:
        post(gateway, 1)
        wait_for(lambda: sink.tokens == ["token-2"], "the request with another token")
        assert sink.strangers == 1


def test_a_stranger_is_refused_for_good_in_the_end():
    with Guarded(lambda token: False) as sink, Authority() as authority, running(Gateway(config=guarded(sink, authority))) as gateway:
        post(gateway, 1)
        wait_for(lambda: "refused for good" in gateway.log() and "401" in gateway.log(), "the refusal")
        assert sink.strangers == 2 and len(authority.asked) == 2


@pytest.mark.parametrize("mode, why", [("refuses", "HTTP 401"), ("hangs", "no token of"), ("talks nonsense", "without one"), ("gives nothing", "without one")])
def test_an_authority_that_gives_no_token_is_told_and_costs_nothing(mode, why):
    with Guarded() as sink, Authority() as authority:
        authority.mode = mode
        with running(Gateway(config=guarded(sink, authority, ", timeout: 500ms"))) as gateway:
            post(gateway, 1)
            wait_for(lambda: why in gateway.log(), "the reason")
            assert not sink.tokens and sink.strangers == 0
            authority.mode = "gives"
            authority.stopping.set()
            wait_for(lambda: sink.tokens, "the request")  # twice, if the sink took longer than half a second
            assert gateway.total("profgate_forward_dropped_samples_total") == 0


@pytest.mark.parametrize("keys, why", [("client_id: a, client_secret: b", "needs a token_url"), ("token_url: 'http://a'", "needs client_id"),
                                       ("token_url: 'ftp://a', client_id: a, client_secret: b", "ftp")])
def test_half_of_oauth2_is_an_error(keys, why, tmp_path):
    file = tmp_path / "profgate.yaml"
    file.write_text(f"exporters: {{ otlp/sink: {{ endpoint: 'http://a:1', oauth2: {{ {keys} }} }} }}\n")
    done = subprocess.run([BUILD / "profgate", "validate", file], capture_output=True, text=True)
    assert done.returncode == 1 and why in done.stdout + done.stderr, done.stdout + done.stderr
