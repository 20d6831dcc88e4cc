"""What the operator reads of the program: lines of one form, as text or JSON, one a request when asked for, and distributions of
how long requests take."""
import gzip
import http.client
import json
import re
import subprocess

import pytest
from programs import BUILD, PATIENCE, EXPORT_METHOD, PROFILES_PATH, Gateway, captures, running, wait_for
from sink import Sink

FILE = captures("ebpf-go*.pb")[0]
FIELD = re.compile(r' ([a-z_.0-9]+)=("(?:[^"\\]|\\.)*"|[^ "=]+)')


def reloaded(gateway, status):
    """Reloads by hand, and until workers have changed over."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.admin, timeout=PATIENCE)
    before = gateway.log().count("reloaded")
    connection.request("POST", "/api/v1/reload")
    assert str(connection.getresponse().status) == status
    if status == "200":
        wait_for(lambda: gateway.log().count("reloaded") > before, "new rules in force")


UNKNOWN_FIELD = b"\xa8\x06\x01"  # number 101 of the request, a varint


def test_a_line_a_request_for_who_debugs():
    with running(Gateway("--set", "service.log_level=debug", listen=1)) as gateway:
        assert gateway.post(FILE.read_bytes() + UNKNOWN_FIELD)[0] == 200
        assert gateway.post(b"\xff\xff")[0] == 400
        assert gateway.post(b"", path="/nowhere")[0] == 404
        wait_for(lambda: "verdict=malformed" in gateway.log(), "both lines")
        assert 'path="/nowhere"' in gateway.log()
        line = next(line for line in gateway.log().splitlines() if "verdict=accepted" in line)
        fields = dict(FIELD.findall(line))
        assert fields["layout"] == "1.10" and int(fields["samples"]) > 0 and int(fields["profiles"]) > 0
        assert fields["producer"] == '"./ebpf-profiler-bin"'
        assert fields["unknown_fields"] == "1"
        wait_for(lambda: gateway.total("profgate_unknown_fields_total") == 1, "counted")
        assert int(fields["bytes"]) == FILE.stat().st_size + len(UNKNOWN_FIELD) and 0 < float(fields["seconds"]) < PATIENCE
        assert gateway.stop() == 0


def test_json_is_an_object_a_line(tmp_path):
    """Also what the rules say of themselves, which are lines with a caret otherwise."""
    config = tmp_path / "c.yaml"
    rules = tmp_path / "mine.rules"
    rules.write_text("rules 1\npack mine\n")
    text = f"rules: {{ files: [{rules}] }}\nadmin: {{ endpoint: '127.0.0.1:0' }}\nservice: {{ log_format: FORMAT }}\n"
    config.write_text(text.replace("FORMAT", "text"))
    with running(Gateway("--config", config, listen=1)) as gateway:
        config.write_text(text.replace("FORMAT", "json"))
        reloaded(gateway, "200")
        began = len(gateway.log())
        rules.write_text("rules 1\npack mine\nnonsense\n")
        reloaded(gateway, "400")
        lines = [json.loads(line) for line in gateway.log()[began:].splitlines()]
        said = next(line for line in lines if line["message"] == "rules")
        assert said["code"] == "E111" and f"{rules}:3:1" in said["diagnostic"] and "\n" in said["diagnostic"]
        refused = next(line for line in lines if line["message"] == "reload refused")
        assert refused["level"] == "error" and refused["part"] == "rules"
        assert gateway.stop() == 0


def test_a_start_that_fails_says_so_as_all_else_is_said(tmp_path):
    config = tmp_path / "c.yaml"
    fails = ["receivers: { otlp: [{ endpoint: '[::1]' }] }", "rules: { files: [/nowhere/x.rules] }", "limits: { memory: much }"]
    for what in fails:
        config.write_text(f"service: {{ log_format: json }}\n{what}\n")
        done = subprocess.run([BUILD / "profgate", "serve", "--config", config, "--set", "admin.endpoint=127.0.0.1:0"],
                              capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode in (2, 3)
        last = json.loads(done.stderr.splitlines()[-1])
        assert last["level"] == "error" and last["message"] == "cannot start" and last["error"], done.stderr


def test_durations_and_sizes_are_distributions():
    grpc = pytest.importorskip("grpc", reason="Python package grpcio is missing")
    body = FILE.read_bytes()
    with running(Gateway(listen=1)) as gateway:
        for _ in range(3):
            assert gateway.post(body)[0] == 200
        assert gateway.post(b"\xff\xff")[0] == 400
        with grpc.insecure_channel(f"127.0.0.1:{gateway.ports[0]}") as channel:
            channel.unary_unary(EXPORT_METHOD, request_serializer=bytes, response_deserializer=bytes)(body, timeout=PATIENCE)
        series = gateway.metrics("self")
        for name, n in (("http_server_request_duration_seconds", 4), ("http_server_request_body_size_bytes", 4),
                        ("rpc_server_call_duration_seconds", 1), ("rpc_server_request_size_bytes", 1)):
            buckets = [(float(dict(labels)["le"]), value) for (series_name, labels), value in series.items()
                       if series_name == f"{name}_bucket"]
            counts = [value for _, value in sorted(buckets)]
            assert counts == sorted(counts) and counts[-1] == n == series[(f"{name}_count", frozenset())]
            assert series[(f"{name}_sum", frozenset())] > 0
        assert series[("http_server_request_body_size_bytes_sum", frozenset())] == 3 * len(body) + 2
        assert series[("rpc_server_request_size_bytes_sum", frozenset())] == len(body)
        assert gateway.stop() == 0


class Receiver(Sink):
    """Keeps the gateway's own histograms: {name: [points]}, as OTLP/JSON has them."""

    def __init__(self):
        super().__init__()
        self.points = {}
        self.temporalities = set()

    def take(self, path, headers, body):
        from google.protobuf import json_format
        from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
        body = gzip.decompress(body) if headers["Content-Encoding"] == "gzip" else body
        is_json = headers["Content-Type"] == "application/json"
        request = json.loads(body) if is_json else json_format.MessageToDict(service.ExportMetricsServiceRequest.FromString(body))
        for resource in request["resourceMetrics"]:
            for metric in (m for scope in resource["scopeMetrics"] for m in scope["metrics"] if "histogram" in m):
                assert resource["resource"]["attributes"][0]["value"]["stringValue"] == "profgate"
                self.temporalities.add(metric["histogram"]["aggregationTemporality"])
                self.points.setdefault(metric["name"], []).extend(metric["histogram"]["dataPoints"])

    def told(self, name, is_delta):
        """(count, sum, buckets) of all that came."""
        points = list(self.points.get(name, []))
        points = points if is_delta else points[-1:]
        return (sum(int(p.get("count", 0)) for p in points), sum(p["sum"] for p in points),
                [sum(map(int, column)) for column in zip(*(p["bucketCounts"] for p in points), strict=True)])


@pytest.mark.parametrize("encoding", ["proto", "json"])
@pytest.mark.parametrize("temporality", ["delta", "cumulative"])
def test_own_metrics_by_otlp_have_the_sums_of_the_page(encoding, temporality):
    with Receiver() as receiver:
        config = f"""
metrics: {{ flush_interval: 100ms, exporters: [otlp/x] }}
exporters: {{ otlp/x: {{ endpoint: "{receiver.url}", protocol: http, encoding: {encoding}, temporality: {temporality},
                       own_metrics: true }} }}
"""
        with running(Gateway(config=config)) as gateway:
            for body in (b"", b"x" * 3000, b"y" * 70000) * 3:
                gateway.post(body)
                wait_for(lambda: receiver.points, "the first flush")
            for otlp, text in (("http.server.request.duration", "http_server_request_duration_seconds"),
                               ("http.server.request.body.size", "http_server_request_body_size_bytes")):
                wait_for(lambda name=otlp: receiver.told(name, temporality == "delta")[0] == 9, "all requests")
                count, total, buckets = receiver.told(otlp, temporality == "delta")
                assert gateway.total(f"{text}_count") == count == sum(buckets)
                assert gateway.total(f"{text}_sum") == pytest.approx(total)
                page = sorted((float(dict(labels)["le"]), n) for (series, labels), n in gateway.metrics("self").items()
                              if series == f"{text}_bucket")
                assert [n for _, n in page] == [sum(buckets[:i + 1]) for i in range(len(buckets))]
    assert receiver.temporalities <= ({1, "AGGREGATION_TEMPORALITY_DELTA"} if temporality == "delta"
                                      else {2, "AGGREGATION_TEMPORALITY_CUMULATIVE"})


def test_a_log_that_nobody_reads_holds_nobody_up():
    """A pager in the middle of a page, a log driver that is stuck: requests are taken, the operator is answered, and the end comes."""
    process = subprocess.Popen([BUILD / "profgate", "serve", "--set", "admin.endpoint=127.0.0.1:0", "--listen", "127.0.0.1:0",
                                "--set", "service.log_level=debug"], stderr=subprocess.PIPE, text=True)
    try:
        said = []
        while "ready version=" not in "".join(said):
            said.append(process.stderr.readline())
        otlp, admin = (re.search(rf"listening for={what} address=\S+:(\d+)\n", "".join(said))[1] for what in ("otlp", "admin"))
        connection = http.client.HTTPConnection("127.0.0.1", int(otlp), timeout=PATIENCE)
        for _ in range(800):  # a line each: more than a pipe has room for
            connection.request("POST", PROFILES_PATH, FILE.read_bytes(), {"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            assert answer.status == 200 and answer.read() is not None
        connection = http.client.HTTPConnection("127.0.0.1", int(admin), timeout=PATIENCE)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        process.terminate()
        assert process.wait(PATIENCE) == 0
        rest = process.stderr.read()
        assert rest.count("request verdict=accepted") + "".join(said).count("request verdict=accepted") < 800
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
