"""receivers.pprof_scrape: a real Go service, seen through a stand-in that writes down what it said, and targets of every wrong kind."""
import base64
import collections
import contextlib
import gzip
import http.client
import http.server
import json
import pathlib
import re
import shutil
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pyroscope
import pytest
from programs import BUILD, DATA, PATIENCE, Gateway, Process, running, wait_for
from test_pyroscope import arrived

CPU = (DATA / "pprof/go-cpu.pb.gz").read_bytes()


@contextlib.contextmanager
def target(answer, tls=None):
    """An HTTP server whose GETs `answer` words: (status, body) of a path and its headers. Gives host:port."""
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            status, body = answer(self.path, self.headers)
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request, client_address):
            pass

    server = Server(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def scraping(tmp_path, *jobs):
    return ("receivers:\n  pprof_scrape:\n" + "".join(f"    - {json.dumps(job)}\n" for job in jobs) +
            f"exporters: {{ file/raw: {{ path: {tmp_path}/raw.jsonl, format: json }} }}\n"
            "profiles: { keep: 100%, exporters: [file/raw] }\n")


def outcomes(gateway, outcome, **labels):
    return gateway.total("profgate_scrapes_total", outcome=outcome, **labels)


def test_what_a_go_service_counts_is_what_arrives(tmp_path):
    service = Process([*pyroscope.go(), "serve"])
    seen = collections.defaultdict(list)
    try:
        port = int(wait_for(lambda: (re.match(r"(\d+)\n", service.log()) or [None, None])[1], "the service says its port"))

        def answer(path, _):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as got:
                    seen[path].append(got.read())
                    return 200, seen[path][-1]
            except urllib.error.HTTPError as error:
                return error.code, error.read()
        with target(answer) as address:
            config = scraping(tmp_path, {"job_name": "shop", "targets": [address], "scrape_interval": "2s", "scrape_timeout": "2s", "profile_seconds": 1,
                                         "profiles": ["profile", "heap", "goroutine", "mutex"], "labels": {"region": "eu"}})
            gateway = Gateway(config=config)
            with running(gateway):
                wait_for(lambda: all(outcomes(gateway, "ok", profile=profile) >= 3 for profile in ("profile", "heap", "goroutine", "mutex")), "three of each")
                assert gateway.total("profgate_scrape_up", job="shop", target=address) == 4
                assert gateway.total("profile_cpu_time_seconds_total", job="shop") > 0
                assert gateway.stop() == 0
        totals, resources = arrived(tmp_path)
        assert all(r == {"service.name": "shop", "service.instance.id": address, "region": "eu"} for r in resources)
        cpu = pyroscope.totals(seen["/debug/pprof/profile?seconds=1"], tmp_path)
        assert totals["cpu/nanoseconds"] == cpu["cpu/nanoseconds"] > 0
        for path, types in (("/debug/pprof/heap", ("alloc_objects/count", "alloc_space/bytes")), ("/debug/pprof/mutex", ("contentions/count",))):
            first, last = (pyroscope.totals([seen[path][i]], tmp_path) for i in (0, -1))
            for type in types:
                assert totals[type] == last[type] - first[type] > 0, type
        inuse = pyroscope.totals(seen["/debug/pprof/heap"], tmp_path)
        assert totals["inuse_space/bytes"] == inuse["inuse_space/bytes"]
    finally:
        service.close()


def test_texts_are_scraped_as_well(tmp_path):
    """What `debug=1` answers counts since the process began, too."""
    said = iter([5, 9, 12])
    state = {"n": 5}

    def answer(path, _):
        state["n"] = next(said, state["n"])
        n = state["n"]
        return 200, f"heap profile: 1: 100 [{n}: {n * 100}] @ heap/2\n1: 100 [{n}: {n * 100}] @ 0x1 0x2\n".encode()
    with target(answer) as address:
        job = {"targets": [address], "profiles": ["/debug/pprof/heap?debug=1"], "scrape_interval": "1s", "scrape_timeout": "1s"}
        gateway = Gateway(config=scraping(tmp_path, job))
        with running(gateway):
            wait_for(lambda: outcomes(gateway, "ok") >= 4, "four scrapes")
            assert gateway.stop() == 0
    totals = arrived(tmp_path)[0]
    assert (totals["alloc_objects/count"], totals["alloc_space/bytes"]) == (7, 700)


def test_targets_change_with_a_reload(tmp_path):
    """What is asked for before and after goes on from where it was; what is wrong changes nothing."""
    state, asked = {"n": 5}, collections.Counter()

    def heap(name):
        def answer(path, _):
            asked[name] += 1
            n = state["n"]
            return 200, f"heap profile: 1: 100 [{n}: {n * 100}] @ heap/2\n1: 100 [{n}: {n * 100}] @ 0x1 0x2\n".encode()
        return answer
    job = {"profiles": ["/heap?debug=1"], "scrape_interval": "1s", "scrape_timeout": "1s"}
    with target(heap("first")) as first, target(heap("second")) as second:
        gateway = Gateway(config=scraping(tmp_path, {**job, "job_name": "a", "targets": [first]}))
        with running(gateway):
            path = pathlib.Path(gateway.folder.name) / "profgate.yaml"

            def reload(*jobs):
                text = scraping(tmp_path, *jobs)
                path.write_text(text if jobs else text.removeprefix("receivers:\n  pprof_scrape:\n"))
                connection = http.client.HTTPConnection("127.0.0.1", gateway.admin, timeout=PATIENCE)
                connection.request("POST", "/api/v1/reload")
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            wait_for(lambda: outcomes(gateway, "ok", target=first) >= 1, "a scrape to compare with")
            state["n"] = 9
            assert reload({**job, "job_name": "a", "targets": [first, second]}) == (200, "reloaded\n")
            before = outcomes(gateway, "ok", target=first)
            assert before >= 1, "it goes on counting"
            wait_for(lambda: outcomes(gateway, "ok", target=second) >= 1 and outcomes(gateway, "ok", target=first) > before, "both")
            status, answer = reload({**job, "job_name": "a", "targets": ["no:port"]})
            assert status == 400 and "targets" in answer
            wait_for(lambda: outcomes(gateway, "ok", target=second) >= 2, "it is asked on")
            assert reload({**job, "job_name": "b", "targets": [second]}) == (200, "reloaded\n")
            assert outcomes(gateway, "ok", target=first) == 0
            wait_for(lambda: outcomes(gateway, "ok", job="b") >= 1, "the other job")
            settled = asked["first"]
            wait_for(lambda: outcomes(gateway, "ok", job="b") >= 3, "some more")
            assert asked["first"] == settled, "nobody asks the first one any more"
            assert reload() == (200, "reloaded\n")
            assert "profgate_scrape_up" not in gateway.get("/metrics?collect[]=self")
            assert gateway.stop() == 0
    totals = arrived(tmp_path)[0]
    assert totals["alloc_objects/count"] == 4, "what came between the scrapes before and after the reload"


def test_a_process_that_began_anew_is_seen(tmp_path):
    """A mutex profile of 10 contentions and then 3: 3 are new."""
    def mutex(n):
        return (b"\x0a\x04\x08\x01\x10\x02\x12\x06\x0a\x01\x01\x12\x01" + bytes([n]) + b"\x22\x04\x08\x01\x18\x10\x32\x00\x32\x0bcontentions\x32\x05count")
    said = iter([10, 14, 3, 5])
    state = {"n": 10}

    def answer(path, _):
        state["n"] = next(said, state["n"])
        return 200, gzip.compress(mutex(state["n"]))
    with target(answer) as address:
        gateway = Gateway(config=scraping(tmp_path, {"targets": [address], "profiles": ["mutex"], "scrape_interval": "1s", "scrape_timeout": "1s"}))
        with running(gateway):
            wait_for(lambda: outcomes(gateway, "ok") >= 5, "five scrapes")
            assert gateway.total("profgate_scrape_restarts_total") == 1
            assert gateway.stop() == 0
    assert arrived(tmp_path)[0] == {"contentions/count": 4 + 3 + 2}


def test_every_failure_is_counted_by_its_reason(tmp_path):
    answers = {"/missing": (404, b"no"), "/html": (200, b"<html>"), "/large": (200, bytes(100 << 10)), "/slow": (200, CPU),
               "/bomb": (200, gzip.compress(bytes(80 << 20), 9)), "/cut": (200, CPU[:700]), "/good": (200, CPU)}

    def answer(path, _):
        if path == "/slow":
            time.sleep(7)
        return answers[path]
    wanted = {"/missing": "status", "/html": "malformed", "/large": "too_large", "/slow": "timeout", "/bomb": "too_large", "/cut": "malformed",
              "/good": "ok"}
    with target(answer) as address:
        pass_on = {"targets": [address], "profiles": list(wanted), "scrape_interval": "6s", "scrape_timeout": "5s", "body_size_limit": "90KiB"}
        config = scraping(tmp_path, pass_on, {"job_name": "gone", "targets": ["127.0.0.1:1"], "profiles": ["heap"], "scrape_interval": "1s", "scrape_timeout": "1s"})
        gateway = Gateway(config=config)
        with running(gateway):
            for path, outcome in wanted.items():
                wait_for(lambda path=path, outcome=outcome: outcomes(gateway, outcome, profile=path) >= 2, f"{path}: {outcome}")
                assert gateway.total("profgate_scrape_up", profile=path) == (outcome == "ok")
            wait_for(lambda: outcomes(gateway, "unreached", job="gone") >= 2, "nobody listens there")
            assert gateway.rss_kib() < 300 << 10
            assert gateway.log().count("outcome=malformed") == 2, "each is said once while it lasts"
            assert gateway.stop() == 0


def test_a_job_is_its_tenants(tmp_path):
    """What is fetched counts to the tenant's bytes as what is sent in its name does; who names none is a tenant, too."""
    def job(name, **more):
        return {"job_name": name, "targets": [address], "profiles": ["/" + name], "scrape_interval": "1s", "scrape_timeout": "1s", **more}
    with target(lambda path, _: (200, CPU)) as address:
        limits = f"tenants: {{ header: X-Scope-OrgID }}\nlimits: {{ per_tenant: {{ bytes_per_second: 16, burst_bytes: {len(CPU)} }} }}\n"
        with running(Gateway(config=scraping(tmp_path, job("a", tenant="red"), job("b", tenant="red"), job("c", tenant="blue"), job("d")) + limits)) as gateway:
            for one in ("c", "d"):
                wait_for(lambda one=one: outcomes(gateway, "ok", job=one) >= 1 and outcomes(gateway, "limited", job=one) >= 1, f"{one} had its burst")
            wait_for(lambda: all(outcomes(gateway, "limited", job=one) >= 1 for one in "ab"), "both were refused")
            assert "outcome=limited error=\"over a limit of its tenant\"" in gateway.log()
            assert gateway.total("profgate_refused_by_limit_total", scope="tenant", limit="bytes") >= 4

            def send(tenant):
                return gateway.post(CPU, {"Content-Type": "application/octet-stream", "X-Scope-OrgID": tenant}, path="/v1/pprof")[0]
            assert (send("red"), send("green")) == (429, 200), "what was fetched is missing from what may be sent"
            assert outcomes(gateway, "ok", job="a") + outcomes(gateway, "ok", job="b") >= 1
            assert gateway.stop() == 0
    for tenant, more, says in (("red", "", "means nothing without tenants.header"), (None, "tenants: { header: x, required: true }\n", "tenant is missing"),
                               ("a b", "tenants: { header: x }\n", "at most 128 letters")):
        (tmp_path / "bad.yaml").write_text(scraping(tmp_path, {"targets": ["127.0.0.1:1"], "profiles": ["heap"], **({"tenant": tenant} if tenant else {})}) + more)
        done = subprocess.run([BUILD / "profgate", "serve", "--config", tmp_path / "bad.yaml", "--set", "admin.endpoint=127.0.0.1:0", "--listen", "127.0.0.1:0"],
                              capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode != 0 and says in done.stderr, done.stderr


@pytest.mark.skipif(not shutil.which("openssl"), reason="no openssl")
def test_tls_and_credentials(tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=t",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key", "-out", tmp_path / "pem"], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "pem", tmp_path / "key")
    (tmp_path / "secret").write_text("s€cret\n")
    allowed = {"/basic": "Basic " + base64.b64encode("me:s€cret".encode()).decode(), "/bearer": "Bearer s€cret", "/none": None}

    def answer(path, headers):
        got = headers["authorization"]
        return (200, CPU) if (got and got.encode("latin-1").decode()) == allowed[path] else (401, b"")
    common = {"scheme": "https", "scrape_interval": "5s", "scrape_timeout": "5s", "tls": {"ca_file": str(tmp_path / "pem")}}
    with target(answer, tls) as address:
        jobs = [{**common, "job_name": name, "targets": [address], "profiles": [path], **more} for name, path, more in (
            ("basic", "/basic", {"basic_auth": {"username": "me", "password_file": str(tmp_path / "secret")}}),
            ("bearer", "/bearer", {"authorization": {"credentials_file": str(tmp_path / "secret")}}),
            ("none", "/none", {}), ("wrong", "/basic", {}), ("unknown", "/none", {"tls": {}}))]
        gateway = Gateway(config=scraping(tmp_path, *jobs))
        with running(gateway):
            for name, outcome in (("basic", "ok"), ("bearer", "ok"), ("none", "ok"), ("wrong", "status"), ("unknown", "unreached")):
                wait_for(lambda name=name, outcome=outcome: outcomes(gateway, outcome, job=name) >= 1, f"{name}: {outcome}")
            assert "cret" not in gateway.log() and gateway.stop() == 0
    for wrong, says in (({"basic_auth": {"username": "me", "password_file": "/nowhere"}}, "cannot read /nowhere: No such file"),
                        ({"tls": {"ca_file": "/nowhere"}}, "/nowhere"), ({"targets": ["a b:1"]}, "targets")):
        (tmp_path / "bad.yaml").write_text(scraping(tmp_path, {**common, "targets": ["127.0.0.1:1"], "profiles": ["heap"], **wrong}))
        done = subprocess.run([BUILD / "profgate", "serve", "--config", tmp_path / "bad.yaml", "--set", "admin.endpoint=127.0.0.1:0", "--listen", "127.0.0.1:0"],
                              capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode != 0 and says in done.stderr, done.stderr
