"""OTLP/JSON profiles, as others write them: the official Python library, and a real Collector's file exporter."""
import base64
import collections
import contextlib
import gzip
import json
import subprocess

import peers
import pytest
from programs import BUILD, PATIENCE, Gateway, Process, captures, free_port, json_lines, running, wait_for
from recorded import all_totals, prometheus_name

FILES = captures("ebpf-*.pb")
EXPECTED = all_totals([path.stem for path in FILES])
JSON = {"Content-Type": "application/json"}


def as_json(path, **options):
    """A capture in OTLP/JSON: protobuf's own mapping, but for the ids, which OTLP writes in hex."""
    json_format = pytest.importorskip("google.protobuf.json_format")
    messages = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    request = json.loads(json_format.MessageToJson(messages.ExportProfilesServiceRequest.FromString(path.read_bytes()), **options))
    for link in request["dictionary"].get("linkTable", request["dictionary"].get("link_table", [])):
        for key in {"traceId", "spanId", "trace_id", "span_id"} & link.keys():
            link[key] = base64.b64decode(link[key]).hex()
    return request


def count(*files):
    """What `profgate count` says: (samples, {(resource, metric, attributes): number})."""
    done = subprocess.run([BUILD / "profgate", "count", "--resources", "--json", *files], capture_output=True, text=True, timeout=5 * PATIENCE)
    assert done.returncode == 0, done.stderr
    answer, found = json.loads(done.stdout), collections.defaultdict(float)

    def key(attributes):
        return json.dumps(sorted(attributes, key=lambda a: a["key"]), sort_keys=True)

    assert answer["rejected_samples"] == 0
    for resource in answer["metrics"]["resourceMetrics"]:
        for scope in resource["scopeMetrics"]:
            for metric in scope["metrics"]:
                for point in metric.get("sum", metric.get("gauge"))["dataPoints"]:
                    place = key(resource["resource"].get("attributes", [])), metric["name"], key(point.get("attributes", []))
                    found[place] += float(point.get("asInt", point.get("asDouble")))
    return answer["samples"], {place: pytest.approx(number) for place, number in found.items()}


def kernel_and_native(gateway):
    return {name: gateway.total(prometheus_name(name)) for name in ("samples.kernel.count", "samples.native.count", "samples.user.count")}


def expected_sums():
    return {name: sum(n for (metric, _), n in EXPECTED.items() if metric == name)
            for name in ("samples.kernel.count", "samples.native.count", "samples.user.count")}


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_json_counts_what_protobuf_counts(encoding):
    with running(Gateway(), Gateway()) as (by_json, by_protobuf):
        for i, path in enumerate(FILES):
            body = json.dumps(as_json(path, preserving_proto_field_name=i % 2 == 1)).encode()
            headers = dict(JSON)
            if encoding == "gzip":
                body, headers["Content-Encoding"] = gzip.compress(body), "gzip"
            status, answered, answer = by_json.post(body, headers)
            assert (status, answered["content-type"], answer) == (200, "application/json", b"{}")
            assert by_protobuf.post(path.read_bytes())[0] == 200
        wait_for(lambda: kernel_and_native(by_json) == expected_sums(), "the recorded counters")
        wait_for(lambda: by_json.metrics() == by_protobuf.metrics(), "the same series from both encodings")


def test_malformed_json_is_refused_with_its_place_and_the_next_request_is_taken():
    request = as_json(FILES[0])
    samples = request["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"]
    good = json.dumps(request).encode()
    samples[0]["stackIndex"] = "one"
    with running(Gateway("--set", "service.workers=1")) as gateway:
        status, headers, body = gateway.post(json.dumps(request).encode(), JSON)
        assert (status, headers["content-type"]) == (400, "application/json")
        answer = json.loads(body)
        assert answer["code"] == 3
        assert answer["message"].startswith("resourceProfiles[0].scopeProfiles[0].profiles[0].samples[0].stackIndex: not a number at byte ")
        for bad in (b"", b"[", b"[" * 1_000_000, b'{"x":' * 200_000, good[:-1], good + b"{}", b'{"dictionary":{"stringTable":["\xff"]}}'):
            status, headers, body = gateway.post(bad, JSON)
            assert status == 400 and json.loads(body)["message"], body
        assert gateway.total("profgate_requests_total", outcome="malformed") == 8
        assert gateway.post(good, JSON)[0] == 200


def test_a_bad_sample_is_a_partial_success_in_json():
    request = as_json(FILES[0])
    request["resourceProfiles"][0]["scopeProfiles"][0]["profiles"][0]["samples"][0]["stackIndex"] = 1_000_000
    with running(Gateway()) as gateway:
        status, _, body = gateway.post(json.dumps(request).encode(), JSON)
    partial = json.loads(body)["partialSuccess"]
    assert status == 200 and partial["rejectedProfiles"] == "1" and "samples[0]" in partial["errorMessage"]


def test_count_reads_json_pretty_or_a_line_each_plain_or_gzip(tmp_path):
    lines, pretty, zipped = tmp_path / "lines.jsonl", tmp_path / "pretty.json", tmp_path / "lines.jsonl.gz"
    texts = [as_json(path) for path in FILES]
    lines.write_text("".join(json.dumps(text) + "\n" for text in texts))
    pretty.write_text("\n".join(json.dumps(text, indent=2) for text in texts))
    zipped.write_bytes(gzip.compress(lines.read_bytes()))
    want = count(*FILES)
    assert want[0] > 1000 and len(want[1]) > 100
    for path in (lines, pretty, zipped):
        assert count(path) == want
    lines.write_text(json.dumps(texts[0]) + "\n" + json.dumps(texts[1])[:-2] + "\n")
    done = subprocess.run([BUILD / "profgate", "count", lines], capture_output=True, text=True, timeout=5 * PATIENCE)
    assert done.returncode == 1 and f"{lines}:2: " in done.stderr and "the text ends too early at byte" in done.stderr


@contextlib.contextmanager
def collector(folder, exporter):
    """A Collector with an OTLP/HTTP receiver and this one exporter for profiles; gives the receiver's port."""
    port, config = free_port(), folder / "collector.yaml"
    config.write_text(f"""
receivers: {{ otlp: {{ protocols: {{ http: {{ endpoint: '127.0.0.1:{port}' }} }} }} }}
exporters: {{ {exporter} }}
service:
  telemetry: {{ metrics: {{ level: none }} }}
  pipelines: {{ profiles: {{ receivers: [otlp], exporters: [{exporter.split(":")[0]}] }} }}
""")
    process = Process([peers.collector(), "--config", f"file:{config}", "--feature-gates=+service.profilesSupport"])
    with running(process):
        wait_for(lambda: "Everything is ready" in process.log() or not process.alive(), "the Collector ready")
        assert process.alive(), process.log()
        yield port


def send_protobuf(port):
    for capture in FILES:
        done = subprocess.run(["curl", "-sS", "-f", "-H", "Content-Type: application/x-protobuf", "--data-binary", f"@{capture}",
                               f"http://127.0.0.1:{port}/v1development/profiles"], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr


def test_count_reads_what_a_collectors_file_exporter_wrote(tmp_path):
    path = tmp_path / "profiles.jsonl"
    with collector(tmp_path, f"file: {{ path: '{path}', flush_interval: 50ms }}") as port:
        send_protobuf(port)
        wait_for(lambda: len(json_lines(path)) == len(FILES), "a line for each request")
    assert count(path) == count(*FILES)


@pytest.mark.parametrize("compression", ["gzip", "lz4", "none"])
def test_a_collector_sends_json(tmp_path, compression):
    """The Collector's otlphttp exporter with encoding: json, fed with protobuf."""
    with running(Gateway()) as gateway:
        exporter = f"otlp_http: {{ endpoint: 'http://127.0.0.1:{gateway.ports[0]}', encoding: json, compression: {compression} }}"
        with collector(tmp_path, exporter) as port:
            send_protobuf(port)
            wait_for(lambda: kernel_and_native(gateway) == expected_sums(), "the recorded counters by way of JSON")


def test_raw_profiles_that_came_as_json_leave_as_protobuf(tmp_path):
    path = tmp_path / "profiles.jsonl"
    with collector(tmp_path, f"file: {{ path: '{path}', flush_interval: 50ms }}") as port:
        config = f"""
profiles: {{ keep: 100%, exporters: [otlp/collector] }}
exporters: {{ otlp/collector: {{ endpoint: 'http://127.0.0.1:{port}', protocol: http }} }}
"""
        with running(Gateway(config=config)) as gateway:
            for capture in FILES:
                assert gateway.post(json.dumps(as_json(capture)).encode(), JSON)[0] == 200
            wait_for(lambda: len(json_lines(path)) == len(FILES), "a line for each request")
    assert count(path) == count(*FILES)
