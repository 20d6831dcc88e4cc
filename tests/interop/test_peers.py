"""Real peers on both ends: gRPC clients that send to us, a Collector that takes our metrics and our raw profiles."""
import gzip
import json
import subprocess
import sys

import peers
import pytest
from programs import BUILD, EXPORT_METHOD, PATIENCE, Gateway, Process, captures, free_port, json_lines, running, wait_for
from recorded import add_up, all_totals

FILES = captures("ebpf-*.pb")
EXPECTED = all_totals([path.stem for path in FILES])
# What the semantic conventions name; which of them there are is what runs beside the test.
FRAME_TYPES = {"beam", "cpython", "dotnet", "go", "jvm", "kernel", "luajit", "native", "perl", "php", "ruby", "rust", "v8js"}


def collector(folder, pipelines):
    """A Collector that writes what it receives to files; (process, gRPC port, HTTP port)."""
    grpc, http = free_port(), free_port()
    path = folder / "collector.yaml"
    exporters = "".join(f"  file/{p}: {{ path: '{folder}/{p}.jsonl', flush_interval: 50ms }}\n" for p in pipelines)
    parts = "".join(f"    {p}: {{ receivers: [otlp], exporters: [file/{p}] }}\n" for p in pipelines)
    path.write_text(f"receivers: {{ otlp: {{ protocols: {{ grpc: {{ endpoint: '127.0.0.1:{grpc}' }}, "
                    f"http: {{ endpoint: '127.0.0.1:{http}' }} }} }} }}\n"
                    f"exporters:\n{exporters}service:\n  telemetry: {{ metrics: {{ level: none }} }}\n  pipelines:\n{parts}")
    process = Process([peers.collector(), "--config", f"file:{path}", "--feature-gates=+service.profilesSupport"])
    try:
        wait_for(lambda: "Everything is ready" in process.log() or not process.alive(), "the Collector ready")
        assert process.alive(), process.log()
    except BaseException:
        process.close()
        raise
    return process, grpc, http


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_a_collector_receives_our_metrics(tmp_path, protocol, compression):
    process, grpc, http = collector(tmp_path, ["metrics"])
    config = f"""
metrics: {{ flush_interval: 200ms, exporters: [otlp/collector] }}
exporters:
  otlp/collector: {{ endpoint: 'http://127.0.0.1:{grpc if protocol == "grpc" else http}', protocol: {protocol}, compression: {compression} }}
"""
    with running(Gateway(config=config), process) as (gateway, _):
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        wait_for(lambda: add_up(json_lines(tmp_path / "metrics.jsonl")) == EXPECTED, "the recorded counters at the Collector")
        assert gateway.total("profgate_export_requests_total", signal="metrics", outcome="failed") == 0


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_collector_receives_our_raw_profiles(tmp_path, protocol):
    messages = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    process, grpc, http = collector(tmp_path, ["profiles"])
    config = f"""
profiles: {{ keep: 100%, exporters: [otlp/collector] }}
exporters:
  otlp/collector: {{ endpoint: 'http://127.0.0.1:{grpc if protocol == "grpc" else http}', protocol: {protocol} }}
"""
    sent = 0
    for path in FILES:
        request = messages.ExportProfilesServiceRequest.FromString(path.read_bytes())
        sent += sum(len(p.samples) for r in request.resource_profiles for s in r.scope_profiles for p in s.profiles)

    def received():
        return sum(len(p.get("samples", [])) for line in json_lines(tmp_path / "profiles.jsonl")
                   for r in line["resourceProfiles"] for s in r["scopeProfiles"] for p in s["profiles"])

    with running(Gateway(config=config), process) as (gateway, _):
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        wait_for(lambda: received() == sent, "every sample at the Collector")


def test_a_collector_takes_what_profsend_sends(tmp_path):
    """Raw from profsend, by the Collector's own decoder: resources, frame types, build ids, thread attributes, time."""
    may = subprocess.run([BUILD / "profsend", "--print", "--duration", "1s"], capture_output=True, text=True, timeout=PATIENCE)
    if may.returncode == 3:
        pytest.skip(f"profiling is not permitted here: {may.stderr.strip()[-200:]}")
    process, grpc, _ = collector(tmp_path, ["profiles"])
    busy = Process([sys.executable, "-c", "while True: pass"])
    with running(process, busy):
        sender = Process([BUILD / "profsend", "--endpoint", f"http://127.0.0.1:{grpc}", "--frequency", "97", "--interval", "1s"])
        with running(sender):
            wait_for(lambda: len(json_lines(tmp_path / "profiles.jsonl")) >= 2, "two windows at the Collector")
            assert sender.stop() == 0
    requests = json_lines(tmp_path / "profiles.jsonl")
    request = max(requests, key=lambda r: len(r["dictionary"]["stackTable"]))  # the last window may have lasted a moment only
    dictionary = request["dictionary"]
    strings = dictionary["stringTable"]
    keys = {strings[a.get("keyStrindex", 0)] for a in dictionary["attributeTable"]}
    assert {"profile.frame.type", "thread.name", "thread.id", "cpu.logical_number"} <= keys, keys
    assert any(k.startswith("process.executable.build_id.") for k in keys), keys
    types = {a["value"]["stringValue"] for a in dictionary["attributeTable"]
             if strings[a.get("keyStrindex", 0)] == "profile.frame.type"}
    assert "native" in types and types <= FRAME_TYPES, types
    named = 0
    for resource in request["resourceProfiles"]:
        # the file exporter writes keys as references into the dictionary
        attributes = {a.get("key") or strings[a["keyStrindex"]] for a in resource["resource"]["attributes"]}
        named += "process.executable.name" in attributes  # a kernel thread has none
        assert {"process.pid", "service.name", "host.name"} <= attributes, attributes
        for profile in resource["scopeProfiles"][0]["profiles"]:
            start, end = int(profile["timeUnixNano"]), int(profile["timeUnixNano"]) + int(profile["durationNano"])
            assert int(profile["period"]) == 1_000_000_000 // 97
            for sample in profile["samples"]:
                assert sample["timestampsUnixNano"] and not sample.get("values")
                assert all(start <= int(t) <= end for t in sample["timestampsUnixNano"])
    assert named > 0


def test_thinned_profiles_are_whole_requests_to_a_collector(tmp_path):
    process, grpc, _ = collector(tmp_path, ["profiles"])
    config = f"""
profiles: {{ keep: 20%, exporters: [otlp/collector] }}
exporters: {{ otlp/collector: {{ endpoint: 'http://127.0.0.1:{grpc}' }} }}
"""
    with running(Gateway(config=config), process) as (gateway, _):
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        wait_for(lambda: gateway.total("profgate_export_requests_total", signal="profiles", outcome="sent") == len(FILES),
                 "what was kept taken by the Collector")
        assert gateway.total("profgate_forward_dropped_samples_total") == 0


def test_grpcurl_sends_a_profile(tmp_path):
    binary = peers.grpcurl()
    # grpcurl speaks JSON and needs the schema: ours, by file
    schema = peers.ROOT / "proto/schema"
    body = json.dumps({
        "resourceProfiles": [{"scopeProfiles": [{"profiles": [{
            "sampleType": {"typeStrindex": 1, "unitStrindex": 2},
            "samples": [{"stackIndex": 1, "values": ["3"]}]}]}]}],
        "dictionary": {
            "mappingTable": [{}], "functionTable": [{}, {"nameStrindex": 5}], "linkTable": [{}],
            "locationTable": [{}, {"lines": [{"functionIndex": 1}], "attributeIndices": [1]}],
            "stringTable": ["", "samples", "count", "profile.frame.type", "kernel", "do_idle"],
            "attributeTable": [{}, {"keyStrindex": 3, "value": {"stringValue": "kernel"}}],
            "stackTable": [{}, {"locationIndices": [1]}]}})
    with running(Gateway()) as gateway:
        done = subprocess.run([binary, "-plaintext", "-import-path", schema, "-proto", "profiles_service.proto", "-d", body,
                               f"127.0.0.1:{gateway.ports[0]}", EXPORT_METHOD[1:]], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {}
        wait_for(lambda: gateway.total("samples_kernel_count_total") == 1, "the sample counted")


class TestPythonGrpc:
    """A client from the official Python libraries."""

    @pytest.fixture()
    def grpc(self):
        return pytest.importorskip("grpc")

    @pytest.fixture()
    def service(self):
        return pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2_grpc")

    @pytest.fixture()
    def messages(self):
        return pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")

    @pytest.mark.parametrize("compression", ["NoCompression", "Gzip"])
    def test_sends_profiles(self, grpc, service, messages, compression):
        with running(Gateway()) as gateway:
            with grpc.insecure_channel(f"127.0.0.1:{gateway.ports[1]}",
                                       compression=getattr(grpc.Compression, compression)) as channel:
                stub = service.ProfilesServiceStub(channel)
                for path in FILES:
                    answer = stub.Export(messages.ExportProfilesServiceRequest.FromString(path.read_bytes()), timeout=PATIENCE)
                    assert not answer.HasField("partial_success")
            expected = sum(n for (metric, _), n in EXPECTED.items() if metric == "samples.kernel.count")
            wait_for(lambda: gateway.total("samples_kernel_count_total") == expected, "the recorded counters")

    def test_malformed_bytes_and_unknown_methods(self, grpc):
        with running(Gateway()) as gateway:
            with grpc.insecure_channel(f"127.0.0.1:{gateway.ports[0]}") as channel:
                for method, body, code in ((EXPORT_METHOD, b"\xff\xff\xff", grpc.StatusCode.INVALID_ARGUMENT),
                                           (EXPORT_METHOD + "s", b"", grpc.StatusCode.UNIMPLEMENTED),
                                           ("/no.Service/Export", b"", grpc.StatusCode.UNIMPLEMENTED)):
                    with pytest.raises(grpc.RpcError) as refused:
                        channel.unary_unary(method)(body, timeout=PATIENCE)
                    assert refused.value.code() == code and refused.value.details()
                assert channel.unary_unary(EXPORT_METHOD)(b"", timeout=PATIENCE) == b""

    def test_a_bad_sample_is_a_partial_success(self, grpc, service, messages):
        request = messages.ExportProfilesServiceRequest.FromString(FILES[0].read_bytes())
        profile = request.resource_profiles[0].scope_profiles[0].profiles[0]
        profile.samples[0].stack_index = 1_000_000
        with running(Gateway()) as gateway:
            with grpc.insecure_channel(f"127.0.0.1:{gateway.ports[0]}") as channel:
                answer = service.ProfilesServiceStub(channel).Export(request, timeout=PATIENCE)
        assert answer.partial_success.rejected_profiles == 1
        assert "samples[0]" in answer.partial_success.error_message


def test_curl_speaks_both_versions_to_both_ports(tmp_path):
    body = tmp_path / "body.gz"
    body.write_bytes(gzip.compress(FILES[0].read_bytes()))
    with running(Gateway()) as gateway:
        for port in gateway.ports:
            for version in ("--http1.1", "--http2-prior-knowledge"):
                done = subprocess.run(["curl", "-sS", version, "-o", tmp_path / "answer", "-w", "%{http_code} %{http_version}",
                                       "-H", "Content-Type: application/x-protobuf", "-H", "Content-Encoding: gzip",
                                       "--data-binary", f"@{body}", f"http://127.0.0.1:{port}/v1development/profiles"],
                                      capture_output=True, text=True, timeout=PATIENCE)
                assert done.stdout == ("200 1.1" if version == "--http1.1" else "200 2"), done.stdout + done.stderr
        wait_for(lambda: gateway.total("profgate_requests_total", outcome="accepted") == 4, "four requests")


def test_promtool_likes_our_metrics():
    import shutil
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool (Debian package prometheus) is not installed")
    with running(Gateway()) as gateway:
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        wait_for(lambda: gateway.total("samples_kernel_count_total") > 0, "counters")
        done = subprocess.run([promtool, "check", "metrics"], input=gateway.get("/metrics"), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
