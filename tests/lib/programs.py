"""Our programs as processes: started on free ports, waited for by a condition, stopped by the test that started them."""
import contextlib
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("PG_BUILD", ROOT / "build"))
DATA = ROOT / "tests/data"
PROFILES_PATH = "/v1development/profiles"
# Seconds that whatever must happen has for it: a guard against hangs and nothing else, so that no test on a machine with eight
# other things to do fails for slowness. What happens sooner costs no more.
PATIENCE = 120
EXPORT_METHOD = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"


def free_port():
    """A port nobody listens on now; for peers that cannot be told to pick one themselves, and for those nobody listens on. Not
    one that the kernel gives to who asks for any or calls somebody: it would be taken sooner or later, and who calls a port of
    that range where nobody listens may even be connected with itself."""
    low, high = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    ours = [port for port in range(10000, 65536) if not low <= port <= high] or [0]
    while True:
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", random.choice(ours)))
            except OSError:
                continue
            port = s.getsockname()[1]
        if port not in _given:
            _given.add(port)
            return port


_given = set()  # by free_port(): never the same one twice


def wait_for(condition, what, seconds=PATIENCE):
    """Polls until condition() is true and returns its value; fails saying what did not happen. Less than PATIENCE is no limit
    that a test may set."""
    seconds = max(seconds, PATIENCE)
    end = time.monotonic() + seconds
    while True:
        now = time.monotonic()  # before it is asked: whoever was held up for minutes is asked once more
        value = condition()
        if value:
            return value
        assert now < end, f"did not happen in {seconds} s: {what}"
        # Whoever asks takes a third of the time at most: what is waited for may need this very process, as a receiver does.
        time.sleep(max(0.02, 2 * (time.monotonic() - now)))


class Process:
    """A program with its output in a file, ended at the end of the test."""

    def __init__(self, arguments, **options):
        self.output = tempfile.NamedTemporaryFile(prefix="pg-", suffix=".log", mode="w+", delete=False)
        self.process = subprocess.Popen([str(a) for a in arguments], stdout=self.output, stderr=subprocess.STDOUT,
                                        stdin=subprocess.DEVNULL, **options)
        self.pid = self.process.pid

    def log(self):
        return pathlib.Path(self.output.name).read_text(errors="replace")

    def alive(self):
        return self.process.poll() is None

    def wait(self, seconds=PATIENCE):
        return self.process.wait(timeout=seconds)

    def stop(self, seconds=PATIENCE):
        """SIGTERM, and the exit code."""
        if self.alive():
            self.process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def close(self):
        if self.alive():
            self.process.kill()
            self.process.wait()
        self.output.close()
        os.unlink(self.output.name)

    def rss_kib(self, field="VmHWM"):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"^{field}:\s+(\d+) kB", status, re.M).group(1))


class Gateway(Process):
    """profgate serve on ports of its own choosing. Arguments are put behind `serve`; config is YAML text."""

    def __init__(self, *arguments, config=None, listen=2, **options):
        self.folder = tempfile.TemporaryDirectory(prefix="pg-")
        argv = [BUILD / "profgate", "serve", "--set", "admin.endpoint=127.0.0.1:0"]
        for _ in range(listen):
            argv += ["--listen", "127.0.0.1:0"]
        if config is not None:
            path = pathlib.Path(self.folder.name) / "profgate.yaml"
            path.write_text(config)
            argv += ["--config", path]
        super().__init__([*argv, *arguments], **options)
        wait_for(lambda: "ready version=" in self.log() or not self.alive(), "profgate ready")
        assert self.alive(), self.log()
        found = re.findall(r"listening for=(\w+) address=\S*?:(\d+)\s*$", self.log(), re.M)
        self.ports = [int(port) for what, port in found if what == "otlp"]
        self.admin = next(int(port) for what, port in found if what == "admin")

    def close(self):
        super().close()
        self.folder.cleanup()

    def get(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}{path}", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def metrics(self, collect="profiles"):
        """Prometheus text as {(name, frozenset of (label, value))): number}."""
        return parse_prometheus(self.get(f"/metrics?collect[]={collect}"))

    def total(self, name, **labels):
        """Sum over the series of a name whose labels contain these."""
        both = {**self.metrics("profiles"), **self.metrics("self")}
        return sum(value for (series, series_labels), value in both.items()
                   if series == name and labels.items() <= dict(series_labels).items())

    def post(self, body, headers=None, path=PROFILES_PATH, port=0, method="POST"):
        """One HTTP/1.1 request; (status, headers, body)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=PATIENCE)
        try:
            connection.request(method, path, body, {"Content-Type": "application/x-protobuf", **(headers or {})})
            answer = connection.getresponse()
            return answer.status, dict((k.lower(), v) for k, v in answer.getheaders()), answer.read()
        finally:
            connection.close()


LINE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


def parse_prometheus(text):
    series = {}
    for line in text.splitlines():
        match = LINE.match(line)
        if line.startswith("#") or not match:
            continue
        labels = LABEL.findall(match.group(2) or "")
        # An empty job or instance says that the series has none.
        key = (match.group(1), frozenset(label for label in labels if label not in (("job", ""), ("instance", ""))))
        assert key not in series, f"twice: {line}"
        series[key] = float(match.group(3))
    return series


@contextlib.contextmanager
def running(*processes):
    """Ends them all, whatever happened; shows their output when the test failed."""
    try:
        yield processes[0] if len(processes) == 1 else processes
    except BaseException:
        for process in processes:
            print(f"--- output of pid {process.pid}\n{process.log()[-4000:]}")
        raise
    finally:
        for process in processes:
            process.close()


@contextlib.contextmanager
def folder_for_all():
    """A folder that every user may enter. None below pytest's is for long: each pytest that begins takes others' rights to that."""
    with tempfile.TemporaryDirectory(prefix="pg-") as name:
        os.chmod(name, 0o755)
        yield pathlib.Path(name)


def json_lines(path):
    """The complete lines of a file that somebody is still writing to; none while it is not there."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def captures(pattern="ebpf-*.pb"):
    files = sorted((DATA / "connector").glob(pattern))
    assert files, pattern
    return files
