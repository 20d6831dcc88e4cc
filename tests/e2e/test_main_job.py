"""The main job with real processes: captured requests in, the recorded counters out, by every way out."""
import collections
import gzip
import json
import pathlib
import signal
import subprocess

import pytest
from programs import BUILD, PATIENCE, Gateway, captures, json_lines, running, wait_for
from recorded import add_up, all_totals, prometheus_name

FILES = captures("ebpf-*.pb")
EXPECTED = all_totals([path.stem for path in FILES])


def protobuf():
    return pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")


def sent(path):
    """(samples, events, seconds of CPU) in a capture, by the official decoder."""
    request = protobuf().ExportProfilesServiceRequest.FromString(path.read_bytes())
    samples, events, seconds = 0, 0, 0.0
    for resource in request.resource_profiles:
        for scope in resource.scope_profiles:
            for profile in scope.profiles:
                counts = [max(len(sample.timestamps_unix_nano), 1) for sample in profile.samples]
                samples += len(counts)
                events += sum(counts)
                seconds += sum(counts) * profile.period / 1e9
    return samples, events, seconds



def connector_totals(gateway):
    """The connector pack's counters at /metrics, added up over resources, as {(metric name, labels): number}."""
    kept = {"syscall_name", "kernel_area", "kernel_proto", "kernel_io", "shlib_name"}
    found = collections.Counter()
    for (name, labels), value in gateway.metrics().items():
        if name.startswith("samples_"):
            found[name, frozenset((k, v) for k, v in labels if k in kept)] += int(value)
    return found


def expected_totals(times=1):
    return {(prometheus_name(metric), labels): n * times for (metric, labels), n in EXPECTED.items()}


@pytest.mark.parametrize("port", [0, 1])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_http1_counts_what_the_connector_counted(port, encoding):
    with running(Gateway()) as gateway:
        for path in FILES:
            body = path.read_bytes()
            headers = {}
            if encoding == "gzip":
                body, headers = gzip.compress(body), {"Content-Encoding": "gzip"}
            status, answer, content = gateway.post(body, headers, port=port)
            assert (status, content) == (200, b"")
            assert answer["content-type"] == "application/x-protobuf"
        wait_for(lambda: connector_totals(gateway) == expected_totals(), "the recorded counters at /metrics")
        assert gateway.total("profgate_requests_total", outcome="accepted") == len(FILES)
        assert gateway.total("profgate_samples_total") == sum(sent(path)[0] for path in FILES)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
@pytest.mark.parametrize("compression", [0, 6])
def test_many_connections_and_both_workers_lose_and_double_nothing(protocol, compression):
    rounds = 40
    with running(Gateway("--set", "service.workers=2")) as gateway:
        done = subprocess.run([BUILD / "bench/load", "--protocol", protocol, "--port", str(gateway.ports[0]), "--connections",
                               "64", "--requests", str(rounds * len(FILES)), "--gzip", str(compression), *FILES],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout)["errors"] == 0
        wait_for(lambda: connector_totals(gateway) == expected_totals(rounds), "every sample counted exactly once")


def test_what_was_acknowledged_before_sigterm_is_in_the_file(tmp_path):
    out = tmp_path / "metrics.jsonl"
    config = f"""
metrics: {{ flush_interval: 1h, exporters: [file/out] }}
exporters: {{ file/out: {{ path: {out} }} }}
"""
    with running(Gateway(config=config)) as gateway:
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        assert gateway.stop() == 0
        assert add_up(json_lines(out)) == EXPECTED


def test_delta_flushes_add_up(tmp_path):
    out = tmp_path / "metrics.jsonl"
    config = f"""
metrics: {{ flush_interval: 200ms, temporality: delta, exporters: [file/out, prometheus] }}
exporters: {{ file/out: {{ path: {out} }} }}
"""
    with running(Gateway(config=config)) as gateway:
        for path in FILES:
            lines = len(json_lines(out))  # before: the flush may come at once
            assert gateway.post(path.read_bytes())[0] == 200
            wait_for(lambda: len(json_lines(out)) > lines, "a flush")
        assert gateway.stop() == 0
        assert add_up(json_lines(out)) == EXPECTED
        windows = collections.defaultdict(list)
        for line in json_lines(out):
            for resource in line["resourceMetrics"]:
                for metric in resource["scopeMetrics"][0]["metrics"]:
                    for point in metric.get("sum", {"dataPoints": []})["dataPoints"]:
                        assert metric["sum"]["aggregationTemporality"] == 1
                        key = json.dumps([resource["resource"], metric["name"], point.get("attributes")])
                        windows[key].append((int(point["startTimeUnixNano"]), int(point["timeUnixNano"])))
        for points in windows.values():
            for (start, end), (next_start, _) in zip(points, points[1:]):
                assert start < end <= next_start, "delta windows overlap"


def test_count_offline_gives_the_same_numbers():
    done = subprocess.run([BUILD / "profgate", "count", "--builtin", "connector", "--json", *FILES], capture_output=True,
                          text=True, check=True)
    answer = json.loads(done.stdout)
    assert answer["files"] == len(FILES) and answer["samples"] == sum(sent(path)[0] for path in FILES)
    assert add_up([answer["metrics"]]) == EXPECTED


def test_cpu_time_adds_up_to_the_samples_taken():
    """profile.cpu.time is events x period of every sample, also those with a leaf no counter knows."""
    seconds = sum(sent(path)[2] for path in FILES)
    with running(Gateway()) as gateway:
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        wait_for(lambda: gateway.total("profile_cpu_time_seconds_total") == pytest.approx(seconds, rel=1e-9), "CPU time")


def test_more_signals_end_it_as_one_does():
    with running(Gateway()) as gateway:
        while gateway.process.poll() is None:  # and whenever one comes until it is gone
            gateway.process.send_signal(signal.SIGTERM)
        assert gateway.wait() == 0


def test_health_readiness_and_self_telemetry():
    with running(Gateway()) as gateway:
        assert gateway.get("/healthz").strip() == "ok"
        assert gateway.get("/readyz")
        text = gateway.get("/metrics")
        for name in ("profgate_requests_total", "profgate_samples_total", "profgate_build_info"):
            assert f"# HELP {name} " in text and f"# TYPE {name} " in text


def test_wrong_configuration_and_taken_ports_say_so_with_their_exit_code(tmp_path):
    path = tmp_path / "bad.yaml"
    path.write_text("metrics: { flush_interval: soon }\n")
    done = subprocess.run([BUILD / "profgate", "serve", "--config", path], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and f"{path}:1:28: metrics.flush_interval" in done.stderr
    with running(Gateway(listen=1)) as gateway:
        done = subprocess.run([BUILD / "profgate", "serve", "--listen", f"127.0.0.1:{gateway.ports[0]}", "--set",
                               "admin.endpoint=127.0.0.1:0"], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 3 and str(gateway.ports[0]) in done.stderr
    assert pathlib.Path(path).exists()


def test_bad_rules_name_the_place(tmp_path):
    path = tmp_path / "my.rules"
    path.write_text('rules 1\npack my\ncounter app.time {\n    describe "x"\n    unit "s"\n    where leaf is kernel\n}\n')
    config = tmp_path / "profgate.yaml"
    config.write_text(f"rules: {{ files: [{path}] }}\n")
    done = subprocess.run([BUILD / "profgate", "serve", "--config", config], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2 and "my.rules:3:1" in done.stderr and "on cpu" in done.stderr
