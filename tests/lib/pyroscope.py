"""Pyroscope's clients from their registries (tests/interop/pyroscope), made once into the cache outside the tree, and what stands
between them and the gateway to see what they sent. Each function returns the start of a command line or skips the test."""
import contextlib
import email
import email.policy
import gzip
import http.client
import http.server
import json
import shutil
import subprocess
import sys
import threading
import zlib

from peers import CACHE, ROOT, once_at_a_time
from producers import _go, _run, _tool
from programs import PATIENCE

SOURCES = ROOT / "tests/interop/pyroscope"
PYTHON = "pyroscope-io==1.4.0"
NODE = "@pyroscope/nodejs@0.6.4"


@once_at_a_time
def go():
    # Named by what is in it: trees that want different things do not take each other's away.
    sources = b"".join(file.read_bytes() for file in sorted([*SOURCES.glob("*.go"), *SOURCES.glob("go.*")]))
    binary, what = CACHE / f"pyroscope-go-{zlib.crc32(sources):08x}", "Pyroscope's and Arrow's Go libraries"
    if not binary.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        _run([_go(what), "build", "-o", binary, "."], SOURCES, what, CGO_ENABLED="0", GOWORK="off")
    return [binary]


@once_at_a_time
def python():
    venv = CACHE.parent / f"venv-{PYTHON}"
    if not (venv / ".made").exists():
        shutil.rmtree(venv, ignore_errors=True)
        _run([sys.executable, "-m", "venv", venv], "/", PYTHON)
        _run([venv / "bin/pip", "install", "-q", "--disable-pip-version-check", PYTHON], "/", PYTHON)
        (venv / ".made").touch()
    return [venv / "bin/python", SOURCES / "client.py"]


@once_at_a_time
def node():
    folder = CACHE.parent / f"node-{NODE.replace('/', '-')}"
    runtime = _tool("node", NODE)
    if not (folder / ".made").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _run([_tool("npm", NODE), "install", "--no-fund", "--no-audit", "--prefix", folder, NODE], folder, NODE)
        shutil.copy(SOURCES / "client.js", folder)
        (folder / ".made").touch()
    shutil.copy(SOURCES / "client.js", folder)
    return [runtime, folder / "client.js"]


def totals(profiles, folder):
    """{"type/unit": total} of pprof files, as google/pprof's library reads them."""
    files = []
    for i, profile in enumerate(profiles):
        files.append(folder / f"{i}.pprof")
        files[-1].write_bytes(profile)
    done = subprocess.run([*go(), "sum", *files], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextlib.contextmanager
def between(port):
    """Passes requests on to a gateway; gives the address and the list of (path, headers, body, status)."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
            connection.request("POST", self.path, body, {k: v for k, v in self.headers.items() if k.lower() != "host"})
            answer = connection.getresponse()
            said = answer.read()
            connection.close()
            seen.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body, answer.status))
            self.send_response(answer.status)
            for name in ("content-type", "retry-after"):
                if answer.getheader(name):
                    self.send_header(name, answer.getheader(name))
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, request, client_address):
            pass  # clients end as they like

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()


def _fields(message):
    """The length-delimited fields of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        tag = varint()
        assert tag & 7 == 2
        size = varint()
        yield tag >> 3, message[at:at + size]
        at += size


def profiles_of(path, headers, body):
    """The pprof files that a request brought, found by other means than ours."""
    if headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
    if path.startswith("/push.v1."):
        return [raw for _, series in _fields(body) for number, sample in _fields(series) if number == 2
                for field, raw in _fields(sample) if field == 1]
    if headers["content-type"].startswith("multipart/form-data"):
        form = email.message_from_bytes(b"Content-Type: " + headers["content-type"].encode() + b"\r\n\r\n" + body, policy=email.policy.HTTP)
        return [part.get_payload(decode=True) for part in form.iter_parts() if part.get_param("name", header="content-disposition") == "profile"]
    return [body]
