"""Real producers send to us: what they say is counted exactly, and so is who they are and which wire layout they speak."""
import contextlib
import json
import os
import subprocess
import urllib.request

import peers
import producers
import pytest
from programs import EXPORT_METHOD, PATIENCE, PROFILES_PATH, Gateway, Process, captures, free_port, running, wait_for
from recorded import all_totals, prometheus_name

TIMES = 4
FLUSH = ("--set", "metrics.flush_interval=200ms")
# interop/producers/README.md: what one request of the known profile says
KNOWN = {"samples_kernel_count_total": 1, "samples_native_count_total": 2, "samples_go_count_total": 1}


def counted(gateway):
    return {name: gateway.total(name) for name in KNOWN}


def times(n):
    return {name: n * value for name, value in KNOWN.items()}


def send(command, protocol, layout, producer):
    with running(Gateway(*FLUSH)) as gateway:
        done = subprocess.run([*(str(part) for part in command), protocol, str(gateway.ports[0]), str(TIMES)],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr + gateway.log()
        wait_for(lambda: gateway.total("profgate_requests_total", outcome="accepted") == TIMES, "all requests accepted")
        wait_for(lambda: counted(gateway) == times(TIMES), "the known counters")
        assert gateway.total("profgate_samples_total") == 3 * TIMES
        assert gateway.total("profgate_samples_rejected_total") == 0
        assert gateway.total("profgate_requests_by_layout_total", layout=layout) == TIMES
        assert gateway.total("profgate_requests_by_producer_total", layout=layout, producer=producer) == TIMES
        assert gateway.total("profgate_requests_by_producer_total") == TIMES
        assert gateway.stop() == 0


def json_layout(layout):
    """1.9 and 1.10 have the same names in JSON."""
    return layout if layout in ("1.7", "1.8") else "1.10"


@pytest.mark.parametrize("protocol", ["http", "json", "grpc"])
@pytest.mark.parametrize("version, layout", producers.PYTHON_VERSIONS.items())
def test_python(version, layout, protocol):
    command = producers.python(version)
    send(command, protocol, json_layout(layout) if protocol == "json" else layout, "producer-python")


@pytest.mark.parametrize("protocol", ["http", "json", "grpc"])
@pytest.mark.parametrize("release, layout", producers.GO_RELEASES.items())
def test_go(release, layout, protocol):
    command = producers.go(release)
    send(command, protocol, json_layout(layout) if protocol == "json" else layout, "producer-go")


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("version, layout", producers.JAVA_VERSIONS.items())
def test_java(version, layout, protocol):
    send(producers.java(version), protocol, layout, "producer-java")


def test_ghz_load_is_counted_exactly(tmp_path):
    """A load generator on both workers: every one of its calls is answered and counted once."""
    binary = producers.ghz()
    capture = captures("ebpf-go*.pb")[0]
    calls = 800
    with running(Gateway("--set", "service.workers=2", *FLUSH)) as gateway:
        done = subprocess.run(
            [binary, "--insecure", "-i", str(peers.ROOT / "proto/schema"), "--proto", "profiles_service.proto",
             "--call", EXPORT_METHOD.lstrip("/"), "--binary-file", str(capture), "-n", str(calls), "-c", "32",
             "--connections", "16", "-O", "json", f"127.0.0.1:{gateway.ports[0]}"],
            capture_output=True, text=True, timeout=300, cwd=tmp_path, env={**os.environ, "GOMAXPROCS": "1"})
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
        assert report["count"] == calls and report["statusCodeDistribution"] == {"OK": calls}, report.get("errorDistribution")
        assert gateway.total("profgate_requests_total", outcome="accepted") == calls
        expected = {}
        for (metric, _), value in all_totals([capture.stem]).items():
            expected[prometheus_name(metric)] = expected.get(prometheus_name(metric), 0) + calls * value
        wait_for(lambda: {name: gateway.total(name) for name in expected} == expected, "the recorded counters")
        assert gateway.total("profgate_requests_by_layout_total", layout="1.10") == calls
        assert gateway.stop() == 0


@pytest.mark.parametrize("exporter, compressions", [
    ("otlp_grpc", ["none", "gzip", "zstd", "snappy"]),
    ("otlp_http", ["none", "gzip", "zstd", "zlib", "deflate", "snappy", "x-snappy-framed"])])
def test_a_collector_sends_to_us(tmp_path, exporter, compressions):
    """Every compression that a Collector's exporters have and we take, by its own encoders: one Collector, a gateway each."""
    files = captures("ebpf-*.pb")
    expected = {}
    for (metric, _), value in all_totals([path.stem for path in files]).items():
        expected[prometheus_name(metric)] = expected.get(prometheus_name(metric), 0) + value
    with contextlib.ExitStack() as stack:
        gateways = {how: stack.enter_context(running(Gateway(*FLUSH))) for how in compressions}
        scheme = "http://" if exporter == "otlp_http" else ""
        lines = [f"  {exporter}/{how}: {{ endpoint: '{scheme}127.0.0.1:{to.ports[0]}', compression: {how}, "
                 "tls: { insecure: true }, retry_on_failure: { enabled: false } }" for how, to in gateways.items()]
        port, path = free_port(), tmp_path / "collector.yaml"
        path.write_text("\n".join([
            f"receivers: {{ otlp: {{ protocols: {{ http: {{ endpoint: '127.0.0.1:{port}' }} }} }} }}", "exporters:", *lines,
            "service:", "  telemetry: { metrics: { level: none } }",
            f"  pipelines: {{ profiles: {{ receivers: [otlp], exporters: [{', '.join(f'{exporter}/{how}' for how in compressions)}] }} }}"]))
        process = Process([peers.collector(), "--config", f"file:{path}", "--feature-gates=+service.profilesSupport"])
        stack.enter_context(running(process))
        wait_for(lambda: "Everything is ready" in process.log() or not process.alive(), "the Collector ready")
        assert process.alive(), process.log()
        for file in files:
            call = urllib.request.Request(f"http://127.0.0.1:{port}{PROFILES_PATH}", file.read_bytes(),
                                          {"Content-Type": "application/x-protobuf"})
            assert urllib.request.urlopen(call, timeout=PATIENCE).status == 200
        for how, gateway in gateways.items():
            wait_for(lambda: gateway.total("profgate_requests_total") == len(files), f"all requests passed on with {how}")
            assert gateway.total("profgate_requests_total", outcome="accepted") == len(files), process.log()[-2000:]
            wait_for(lambda: {name: gateway.total(name) for name in expected} == expected, f"the recorded counters with {how}")
            assert gateway.total("profgate_requests_by_producer_total", layout="1.10") == len(files)
            plain = gateway.total("profgate_request_plain_bytes_total")
            packed = gateway.total("profgate_request_bytes_total")
            if how == "none":
                assert plain <= packed <= plain + 5 * len(files)  # gRPC's prefix
            else:
                assert packed < plain * 0.8
            assert gateway.stop() == 0
