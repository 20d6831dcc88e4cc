"""Our metrics at real receivers: Prometheus scrapes us and takes our remote write, a Collector takes OTLP/JSON."""
import collections
import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import urllib.request

import peers
import pytest
from programs import PATIENCE, Gateway, Process, captures, free_port, json_lines, running, wait_for
from recorded import add_up, all_totals
from test_access import CAROL, certificate
from test_peers import collector

FILES = captures("ebpf-*.pb")
EXPECTED = all_totals([path.stem for path in FILES])
KERNEL = sum(n for (metric, _), n in EXPECTED.items() if metric == "samples.kernel.count")
TRACE, SPAN = bytes(range(1, 17)), bytes(range(21, 29))


@peers.once_at_a_time
def newest_prometheus():
    """Prometheus 3 from Go modules, without service discovery (a third of the size); built once, by who has the time."""
    binary = peers.CACHE / "prometheus3"
    if binary.exists():
        return binary
    if "PG_SOAK" not in os.environ:
        pytest.skip("Prometheus 3 is not in the cache: ./scripts/test --soak builds it, in minutes")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "go.mod"), "w") as f:
            f.write("module peer\ngo 1.26.0\nrequire github.com/prometheus/prometheus v0.315.0\n")
        with open(os.path.join(folder, "peer.go"), "w") as f:
            f.write('//go:build tools\n\npackage peer\n\nimport _ "github.com/prometheus/prometheus/cmd/prometheus"\n')
        return peers._go(["build", "-tags", "remove_all_sd", "-o", str(binary),
                          "github.com/prometheus/prometheus/cmd/prometheus"], folder, binary, "Prometheus 3")


def debian_prometheus():
    path = shutil.which("prometheus")
    if not path:
        pytest.skip("Debian's package prometheus is not installed")
    return path


PEERS = {"debian": debian_prometheus, "newest": newest_prometheus}


class Prometheus(Process):
    def __init__(self, peer, folder, targets=(), promoted=(), features=("exemplar-storage",)):
        """targets: (port, further lines of the scrape's configuration); series get the label at=its number. promoted: attributes
        that become labels where OTLP comes."""
        self.port = free_port()
        config = folder / "prometheus.yml"
        text = "global: { scrape_interval: 500ms, scrape_timeout: 500ms }\n" + ("scrape_configs:\n" if targets else "")
        for i, (target, scrape) in enumerate(targets):
            text += (f"  - job_name: profgate{i}\n    honor_labels: true\n{scrape}"
                     f"    static_configs: [{{ targets: ['127.0.0.1:{target}'], labels: {{ at: '{i}' }} }}]\n")
        by_otlp = promoted and peer == "newest"
        config.write_text(text + (f"otlp: {{ promote_resource_attributes: {json.dumps(promoted)} }}\n" if by_otlp else ""))
        super().__init__([PEERS[peer](), f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                          f"--web.listen-address=127.0.0.1:{self.port}", "--web.enable-remote-write-receiver",
                          f"--enable-feature={','.join(features)}", *(["--web.enable-otlp-receiver"] if by_otlp else [])])
        wait_for(lambda: self.ready() or not self.alive(), "Prometheus ready")
        assert self.alive(), self.log()

    def ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=PATIENCE) as answer:
                return answer.status == 200
        except OSError:
            return False

    def api(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return json.load(answer)["data"]

    def value(self, query):
        """The one number a query answers with; None when there is none."""
        result = self.api("query", query=query)["result"]
        assert len(result) <= 1, result
        return float(result[0]["value"][1]) if result else None

    def traces(self, query):
        found = self.api("query_exemplars", query=query, start=time.time() - 3600, end=time.time() + 60)
        return [e["labels"] for series in found for e in series["exemplars"]]


def linked(path):
    """A captured request, its samples linked to a span, counted now, of a service with a name."""
    messages = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    request = messages.ExportProfilesServiceRequest.FromString(path.read_bytes())
    if not request.dictionary.link_table:
        request.dictionary.link_table.add()
    request.dictionary.link_table.add(trace_id=TRACE, span_id=SPAN)
    for resource in request.resource_profiles:
        resource.resource.attributes.add(key="service.name").value.string_value = "shop"
        for scope in resource.scope_profiles:
            for profile in scope.profiles:
                profile.time_unix_nano, profile.duration_nano = time.time_ns() - 10**9, 10**9
                for sample in profile.samples:
                    sample.link_index = len(request.dictionary.link_table) - 1
    return request.SerializeToString()


def named_instance(path):
    """A captured request of an instance of the service."""
    messages = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    request = messages.ExportProfilesServiceRequest.FromString(path.read_bytes())
    for resource in request.resource_profiles:
        resource.resource.attributes.add(key="service.name").value.string_value = "shop"
        resource.resource.attributes.add(key="service.instance.id").value.string_value = "i-1"
    return request.SerializeToString()


def feed(gateway, link=False):
    for path in FILES:
        assert gateway.post(linked(path) if link else path.read_bytes())[0] == 200
    wait_for(lambda: gateway.total("samples_kernel_count_total") == KERNEL, "counters")


def ask(gateway, accept):
    request = urllib.request.Request(f"http://127.0.0.1:{gateway.admin}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_formats_by_accept():
    with running(Gateway()) as gateway:
        feed(gateway, link=True)
        kind, text = ask(gateway, "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
        assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"
        assert text.endswith("\n# EOF\n") and text.count("# EOF") == 1
        assert "# TYPE samples_kernel_count counter\n" in text and "# TYPE profgate_samples counter\n" in text
        assert f'# {{trace_id="{TRACE.hex()}",span_id="{SPAN.hex()}"}} ' in text
        kind, text = ask(gateway, "application/openmetrics-text;q=0.1,text/plain;version=0.0.4;q=0.5")
        assert kind == "text/plain; version=0.0.4; charset=utf-8" and "# EOF" not in text and "trace_id" not in text
        kind, text = ask(gateway, "text/plain;version=1.0.0;escaping=allow-utf-8")
        assert kind == "text/plain; version=1.0.0; charset=utf-8; escaping=allow-utf-8"


def test_prometheus_scrapes_an_admin_address_that_asks_who_it_is(tmp_path):
    certificate(tmp_path, "server", names="IP:127.0.0.1")
    (tmp_path / "tokens").write_text("alpha\n")
    (tmp_path / "users").write_text(CAROL)
    (tmp_path / "password").write_text("secret")
    config = (f"admin: {{ tls: {{ cert_file: {tmp_path}/server.pem, key_file: {tmp_path}/server.key }},\n"
              f"         auth: {{ bearer_tokens_file: {tmp_path}/tokens, htpasswd_file: {tmp_path}/users }} }}\n")
    tls = f"    scheme: https\n    tls_config: {{ ca_file: {tmp_path}/server.pem }}\n"
    ways = [f"    authorization: {{ credentials_file: {tmp_path}/tokens }}\n",
            f"    basic_auth: {{ username: carol, password_file: {tmp_path}/password }}\n", "    authorization: { credentials: wrong }\n"]
    with running(Gateway(config=config)) as gateway:
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        with running(Prometheus("debian", tmp_path, [(gateway.admin, tls + way) for way in ways])) as prometheus:
            for at in ("0", "1"):
                wait_for(lambda: prometheus.value(f'sum(samples_kernel_count_total{{at="{at}"}})') == KERNEL, "the number in Prometheus")
            wait_for(lambda: prometheus.value('up{at="2"}') == 0, "the one with a wrong token is refused")


@pytest.mark.parametrize("peer,created", [("debian", "false"), ("debian", "true"), ("newest", "false"), ("newest", "true")])
def test_prometheus_scrapes_openmetrics(tmp_path, peer, created):
    with running(Gateway(config=f"metrics: {{ prometheus_created: {created} }}")) as gateway:
        feed(gateway, link=True)
        with running(Prometheus(peer, tmp_path, [(gateway.admin, "")])) as prometheus:
            wait_for(lambda: prometheus.value("sum(samples_kernel_count_total)") == KERNEL, "the number in Prometheus")
            # each waited for: on a busy machine a scrape may take too long now and then, and what it had is gone until the next
            wait_for(lambda: all_up(prometheus, 1), "the target without an error")
            if created == "false":  # with it, whether NAME_created is a series is the reader's business
                wait_for(lambda: prometheus.value('count(target_info{job="shop"})') == 1, "target_info")
            wait_for(lambda: {"trace_id": TRACE.hex(), "span_id": SPAN.hex()} in prometheus.traces("samples_kernel_count_total"),
                     "the exemplar in Prometheus")
            metadata = prometheus.api("metadata")
            found = metadata.get("samples_kernel_count", metadata.get("samples_kernel_count_total"))
            assert found[0]["type"] == "counter" and "kernel" in found[0]["help"]


def all_up(prometheus, n):
    targets = prometheus.api("targets")["activeTargets"]
    return len(targets) == n and all(t["health"] == "up" and not t["lastError"] for t in targets)


# strategy, what the scraper asks for, and what the series is called there
NAMES = [("NoTranslation", "", '"samples.kernel.count",'),
         ("NoUTF8EscapingWithSuffixes", "", '"samples.kernel.count_total",'),
         ("UnderscoreEscapingWithoutSuffixes", "", '"samples_kernel_count",'),
         ("NoTranslation", "underscores", '"samples_kernel_count",'),
         ("NoTranslation", "dots", '"samples_dot_kernel_dot_count",'),
         ("NoTranslation", "values", '"U__samples_2e_kernel_2e_count",')]


def test_newest_prometheus_scrapes_each_strategy_and_escaping(tmp_path):
    with contextlib.ExitStack() as stack:
        targets = []
        for strategy, escaping, _ in NAMES:
            gateway = stack.enter_context(running(Gateway(config=f"metrics: {{ translation_strategy: {strategy} }}")))
            for path in FILES:
                assert gateway.post(path.read_bytes())[0] == 200
            targets.append((gateway.admin, "    metric_name_validation_scheme: legacy\n"
                            f"    metric_name_escaping_scheme: {escaping}\n" if escaping else ""))
        prometheus = stack.enter_context(running(Prometheus("newest", tmp_path, targets)))
        for i, (strategy, escaping, name) in enumerate(NAMES):
            wait_for(lambda: prometheus.value(f"sum({{{name}at='{i}'}})") == KERNEL, f"{strategy} {escaping}: {name}")
        wait_for(lambda: all_up(prometheus, len(NAMES)), "all targets without an error")


@pytest.mark.parametrize("strategy,name", [("UnderscoreEscapingWithSuffixes", "samples_kernel_count_total"),
                                           ("NoUTF8EscapingWithSuffixes", "samples.kernel.count_total")])
def test_newest_prometheus_knows_when_a_series_began(tmp_path, strategy, name):
    """By NAME_created: what was counted before the first look at a series is part of its increase."""
    with running(Gateway(config=f"metrics: {{ prometheus_created: true, translation_strategy: {strategy} }}")) as gateway:
        with running(Prometheus("newest", tmp_path, [(gateway.admin, "")], features=["created-timestamp-zero-ingestion"])) as prometheus:
            wait_for(lambda: prometheus.value("up") == 1, "the first scrape")
            for path in FILES:
                assert gateway.post(path.read_bytes())[0] == 200
            wait_for(lambda: prometheus.value(f'sum({{"{name}"}})') == KERNEL, "the number in Prometheus")
            wait_for(lambda: (prometheus.value(f'sum(increase({{"{name}"}}[10m]))') or 0) > 0.9 * KERNEL, "all of it its increase")
            assert prometheus.value('count({__name__=~".*_created"})') is None


@pytest.mark.parametrize("peer,message", [("debian", 1), ("newest", 1), ("newest", 2)])
def test_prometheus_takes_remote_write(tmp_path, peer, message):
    with running(Prometheus(peer, tmp_path)) as prometheus:
        config = f"""
metrics: {{ flush_interval: 300ms, exporters: [prometheus, prometheusremotewrite/test], metric_expiration: 2s }}
exporters:
  prometheusremotewrite/test:
    endpoint: http://127.0.0.1:{prometheus.port}/api/v1/write
    protobuf_message: {message}
    max_request_bytes: 20000
"""
        with running(Gateway(config=config)) as gateway:
            for path in FILES:
                assert gateway.post(linked(path))[0] == 200
            # what there was, since it may be over before somebody looks
            wait_for(lambda: prometheus.value("sum(last_over_time(samples_kernel_count_total[10m]))") == KERNEL,
                     "the number in Prometheus")
            wait_for(lambda: {"trace_id": TRACE.hex(), "span_id": SPAN.hex()} in prometheus.traces("samples_kernel_count_total"),
                     "the exemplar in Prometheus")
            wait_for(lambda: prometheus.value('count(last_over_time(target_info{job="shop"}[10m]))') == 1, "the resource in Prometheus")
            # nothing more comes: after metric_expiration the stale marker ends the series at once, not after 5 minutes
            wait_for(lambda: prometheus.value("sum(samples_kernel_count_total)") is None, "the series ended")
            assert prometheus.value("sum(last_over_time(samples_kernel_count_total[10m]))") == KERNEL
            assert gateway.total("profgate_export_requests_total", signal="metrics", outcome="failed") == 0
            assert gateway.total("profgate_export_requests_total", signal="metrics", outcome="sent") > 2


@pytest.mark.parametrize("peer", ["debian", "newest"])
@pytest.mark.parametrize("way", ["remote write", "otlp"])
def test_a_series_that_ended_and_comes_back_counts_from_its_new_beginning(tmp_path, peer, way):
    """Told its end, Prometheus shows nothing at once; what comes then is a stream of its own, from 0."""
    path = FILES[-1]
    each = sum(n for (metric, _), n in all_totals([path.stem]).items() if metric == "samples.kernel.count")
    with prometheus_by_otlp(peer, tmp_path) as (prometheus, otlp):
        config = f"""
metrics: {{ flush_interval: 300ms, exporters: [prometheus, {"otlp" if way == "otlp" else "prometheusremotewrite"}/test], metric_expiration: 2s }}
exporters:
""" + (f"""
  otlp/test: {{ endpoint: "{otlp}", protocol: http, temporality: cumulative, resource_attributes: ["service.*", {", ".join(PROMOTED)}] }}
""" if way == "otlp" else f"""
  prometheusremotewrite/test: {{ endpoint: "http://127.0.0.1:{prometheus.port}/api/v1/write" }}
""")
        now, ever = "sum(samples_kernel_count_total)", "sum(last_over_time(samples_kernel_count_total[10m]))"
        with running(Gateway(config=config)) as gateway:
            for n in (3, 1, 2):
                for _ in range(n):
                    assert gateway.post(path.read_bytes())[0] == 200
                # what there was, since it may be over before somebody looks
                wait_for(lambda: prometheus.value(ever) == n * each, f"{n} times {each}, from 0")
                wait_for(lambda: prometheus.value(now) is None, "the end of it")
                assert prometheus.value(ever) == n * each
            # the second beginning is lower than the first end, the third is not: without its start nobody can tell it is one
            assert prometheus.value("max(resets(samples_kernel_count_total[10m]))") == 1
            assert gateway.total("profgate_export_requests_total", signal="metrics", outcome="failed") == 0


def labels_of(prometheus, name, **chosen):
    """The label sets of a metric's series, without those that only say which way they came."""
    found = prometheus.api("series", **{"match[]": name})
    sets = [{k: v for k, v in series.items() if k not in ("__name__", "at")} for series in found
            if chosen.items() <= series.items()]
    return sorted(sorted(labels.items()) for labels in sets)


# What a Prometheus is told to make labels of (GUIDE.md): what metrics.prometheus_attributes are by default, beside job and instance.
PROMOTED = ["host.name", "container.name", "k8s.cluster.name", "k8s.namespace.name", "k8s.node.name", "k8s.pod.name", "k8s.container.name",
            "k8s.deployment.name", "k8s.daemonset.name", "process.executable.name", "deployment.environment.name"]


@contextlib.contextmanager
def prometheus_by_otlp(peer, folder):
    """A Prometheus, and the endpoint of an OTLP exporter that it takes metrics from. Debian's has no such receiver: its successors'
    stands before it."""
    prometheus = Prometheus(peer, folder, promoted=PROMOTED)
    with running(prometheus):
        if peer == "newest":
            yield prometheus, f"http://127.0.0.1:{prometheus.port}/api/v1/otlp"
            return
        with running(Process([peers.prometheus_otlp(), f"http://127.0.0.1:{prometheus.port}/api/v1/write", *PROMOTED])) as before:
            wait_for(lambda: before.log().endswith("\n"), "it listens")
            yield prometheus, f"http://127.0.0.1:{before.log().strip()}/api/v1/otlp"


@pytest.mark.parametrize("peer", ["debian", "newest"])
def test_a_series_has_the_same_labels_by_scrape_remote_write_and_otlp(tmp_path, peer):
    """Resources with and without service.name and service.instance.id, scraped as the documentation says and written: job and
    instance are those of the service, and not there where it has none; the gateway's own are the target's. And the same numbers:
    by OTLP, resources that Prometheus cannot tell apart have to be added up before."""
    requests = [linked(FILES[0]), FILES[1].read_bytes(), named_instance(FILES[2])]
    folders = {way: tmp_path / way for way in ("written", "scraped", "otlp")}
    for folder in folders.values():
        folder.mkdir()
    with running(Prometheus(peer, folders["written"])) as written, prometheus_by_otlp(peer, folders["otlp"]) as (otlp, endpoint):
        config = f"""
metrics: {{ flush_interval: 300ms, exporters: [prometheus, prometheusremotewrite/test, otlp/test] }}
exporters:
  prometheusremotewrite/test: {{ endpoint: "http://127.0.0.1:{written.port}/api/v1/write" }}
  otlp/test:
    {{ endpoint: "{endpoint}", protocol: http, temporality: cumulative, resource_attributes: ["service.*", {", ".join(PROMOTED)}] }}
"""
        with running(Gateway(config=config)) as gateway:
            for request in requests:
                assert gateway.post(request)[0] == 200
            with running(Prometheus(peer, folders["scraped"], [(gateway.admin, "")])) as scraped:
                for name in ("samples_kernel_count_total", "profile_cpu_time_seconds_total"):
                    wait_for(lambda: labels_of(written, name) and
                             labels_of(scraped, name) == labels_of(written, name) == labels_of(otlp, name), f"{name} by all three")
                    assert {dict(labels).get("job") for labels in labels_of(written, name)} == {"shop", None}
                    want = gateway.total(name)
                    wait_for(lambda: all(by.value(f"sum({name})") == pytest.approx(want) for by in (scraped, written, otlp)), f"{name}: {want}")
                # By OTLP it is Prometheus that makes target_info, of all there is to know of a resource.
                wait_for(lambda: labels_of(scraped, "target_info") == labels_of(written, "target_info") != [], "target_info by both")
                wait_for(lambda: {(dict(t).get("job"), dict(t).get("instance")) for t in labels_of(otlp, "target_info")} >=
                         {(dict(t).get("job"), dict(t).get("instance")) for t in labels_of(written, "target_info")}, "and by OTLP")
                assert {dict(labels).get("job") for labels in labels_of(written, "target_info")} == {"shop"}
                assert {dict(labels).get("instance") for labels in labels_of(scraped, "samples_kernel_count_total")} == {None, "i-1"}
                assert not [labels for labels in labels_of(scraped, "samples_kernel_count_total") if "exported_job" in dict(labels)]
                own = [dict(labels) for labels in labels_of(scraped, "profgate_samples_total")]
                assert [(labels["job"], labels["instance"]) for labels in own] == [("profgate0", f"127.0.0.1:{gateway.admin}")]


class Balancer:
    """One address for several gateways: each connection goes to the next one, as by a balancer of layer 4."""

    def __init__(self, ports):
        self.turns = itertools.cycle(ports)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.went = collections.Counter()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):  # it was closed
            while True:
                client, port = self.listener.accept()[0], next(self.turns)
                self.went[port] += 1
                server = socket.create_connection(("127.0.0.1", port))
                for source, to in ((client, server), (server, client)):
                    threading.Thread(target=self.copy, args=(source, to), daemon=True).start()

    @staticmethod
    def copy(source, to):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def post_to(port, body):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1development/profiles", body, {"Content-Type": "application/x-protobuf"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return answer.status


def test_gateways_behind_a_balancer_add_up(tmp_path):
    """Each is a writer of its own: what three of them counted of the same hosts' requests has the right sum, by remote write as by
    scraping; one that ends and comes back under its name goes on with its own."""
    def config(name, port):
        return f"""
metrics: {{ flush_interval: 300ms, exporters: [prometheus, prometheusremotewrite/test], instance_id: {name} }}
exporters: {{ prometheusremotewrite/test: {{ endpoint: "http://127.0.0.1:{port}/api/v1/write" }} }}
"""
    (tmp_path / "scraped").mkdir()
    names = ["one", "two", "three"]
    total = "sum(samples_kernel_count_total)"
    with contextlib.ExitStack() as stack:
        written = stack.enter_context(running(Prometheus("debian", tmp_path)))
        gateways = [stack.enter_context(running(Gateway(config=config(name, written.port)))) for name in names]
        scraped = stack.enter_context(running(Prometheus("debian", tmp_path / "scraped", [(g.admin, "") for g in gateways])))
        with contextlib.closing(Balancer([gateway.ports[0] for gateway in gateways])) as balancer:
            for path in FILES * 2:  # 13 files: no gateway gets the same ones in both rounds
                assert post_to(balancer.port, path.read_bytes()) == 200
        assert min(balancer.went.values()) >= len(FILES) * 2 // 3
        parts = {name: gateway.total("samples_kernel_count_total") for name, gateway in zip(names, gateways)}
        assert sum(parts.values()) == 2 * KERNEL and len(set(parts.values())) > 1
        for by in (written, scraped):
            wait_for(lambda: by.value(total) == 2 * KERNEL, "the sum of all")
        for name, part in parts.items():
            assert written.value(f'sum(samples_kernel_count_total{{profgate_instance_id="{name}"}})') == part
        # It counts from zero: its series are the same ones, and nobody else's.
        assert gateways[0].stop() == 0
        again = stack.enter_context(running(Gateway(config=config("one", written.port))))
        for path in FILES:
            assert again.post(path.read_bytes())[0] == 200
        wait_for(lambda: written.value(total) == 3 * KERNEL - parts["one"], "its new counts in place of the old ones")


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_a_collector_receives_otlp_json(tmp_path, compression):
    process, _, http = collector(tmp_path, ["metrics"])
    config = f"""
metrics: {{ flush_interval: 200ms, exporters: [prometheus, otlp/collector] }}
exporters:
  otlp/collector:
    {{ endpoint: 'http://127.0.0.1:{http}', protocol: http, encoding: json, compression: {compression}, max_request_bytes: 8000 }}
"""
    with running(Gateway(config=config), process) as (gateway, _):
        for path in FILES:
            assert gateway.post(linked(path))[0] == 200
        wait_for(lambda: add_up(json_lines(tmp_path / "metrics.jsonl")) == EXPECTED, "the recorded counters at the Collector")
        assert gateway.total("profgate_export_requests_total", signal="metrics", outcome="failed") == 0
        assert gateway.total("profgate_export_requests_total", signal="metrics", outcome="sent") > 1
        points = [p for line in json_lines(tmp_path / "metrics.jsonl") for r in line["resourceMetrics"]
                  for s in r["scopeMetrics"] for m in s["metrics"] for p in m.get("sum", {}).get("dataPoints", [])]
        exemplars = [e for p in points for e in p.get("exemplars", [])]
        assert exemplars and all(e["traceId"] == TRACE.hex() and e["spanId"] == SPAN.hex() for e in exemplars)


def test_chosen_attributes_add_up(tmp_path):
    process, grpc, _ = collector(tmp_path, ["metrics"])
    config = f"""
metrics: {{ flush_interval: 200ms, exporters: [otlp/collector] }}
exporters: {{ otlp/collector: {{ endpoint: 'http://127.0.0.1:{grpc}', resource_attributes: ["service.*"] }} }}
"""
    with running(Gateway(config=config), process) as (gateway, _):
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        wait_for(lambda: add_up(json_lines(tmp_path / "metrics.jsonl")) == EXPECTED, "the recorded counters at the Collector")
        keys = {a["key"] for line in json_lines(tmp_path / "metrics.jsonl") for r in line["resourceMetrics"]
                for a in r["resource"].get("attributes", [])}
        assert all(key.startswith("service.") for key in keys), keys


def test_promtool_likes_our_text():
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool (Debian package prometheus) is not installed")
    with running(Gateway()) as gateway:
        feed(gateway, link=True)
        done = subprocess.run([promtool, "check", "metrics"], input=gateway.get("/metrics"), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
