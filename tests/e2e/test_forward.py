"""Raw profiles downstream: untouched at 100 %, thinned after counting, refused when there is no room."""
import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
import sink as base
from programs import BUILD, PATIENCE, Gateway, captures, running, wait_for
from unanswered import unanswered

FILES = captures("ebpf-*.pb")


class Sink(base.Sink):
    """An OTLP/HTTP destination that keeps the bodies and answers as told."""

    def __init__(self):
        super().__init__()
        self.bodies, self.status, self.asked = [], 200, 0

    def take(self, path, headers, body):
        self.asked += 1
        status = self.status
        if status == 200:
            self.bodies.append(body)
        return status, b""


@pytest.fixture()
def sink():
    with Sink() as started:
        yield started


def config(sink, keep="100%", extra="", when_full="drop"):
    return f"""
profiles: {{ keep: {keep}, exporters: [otlp/sink], when_full: {when_full} }}
exporters: {{ otlp/sink: {{ endpoint: 'http://127.0.0.1:{sink.port}', protocol: http, compression: none{extra} }} }}
"""


def test_each_destination_has_its_own_trouble_told():
    """At the same moment, by the same answer: the line about one is not held back for the line about another."""
    with contextlib.ExitStack() as stack:
        sinks = [stack.enter_context(Sink()) for _ in range(3)]
        for each in sinks:
            each.status = 401
        names = [f"otlp/{n}" for n in ("a", "b", "c")]
        exporters = ", ".join(f"{name}: {{ endpoint: 'http://127.0.0.1:{each.port}', protocol: http }}"
                              for name, each in zip(names, sinks))
        with running(Gateway(config=f"profiles: {{ keep: 100%, exporters: [{', '.join(names)}] }}\n"
                                    f"exporters: {{ {exporters} }}\n")) as gateway:
            assert gateway.post(FILES[0].read_bytes())[0] == 200
            wait_for(lambda: set(re.findall(r"refused for good destination=(\S+)", gateway.log())) == set(names),
                     "a line of each")
            assert gateway.stop() == 0


@pytest.mark.parametrize("layout", ["1.5", "1.7", "1.8", "1.9"])
def test_an_older_layout_goes_out_as_1_10(sink, layout):
    """Read by the official library of 1.10; values are the third sample field of old and the fourth of new."""
    body = (Path(__file__).parents[1] / "fuzz" / "corpus" / "legacy" / f"layout-{layout}").read_bytes()[1:]
    with running(Gateway(config=config(sink))) as gateway:
        assert gateway.post(body)[0] == 200
        wait_for(lambda: sink.bodies, "the request downstream")
    pb = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    request = pb.ExportProfilesServiceRequest.FromString(sink.bodies[0])
    profiles = [p for r in request.resource_profiles for s in r.scope_profiles for p in s.profiles]
    assert [p.original_payload_format for p in profiles] == ["jfr", "jfr"]
    assert list(profiles[0].samples[0].values) == [217632888, 3, 258, 1923041206811221]
    keys = [request.dictionary.string_table[request.dictionary.attribute_table[i].key_strindex]
            for i in profiles[0].attribute_indices]
    assert "pprof.profile.comment" in keys


def test_everything_kept_passes_the_bytes_through_untouched(sink):
    with running(Gateway(config=config(sink))) as gateway:
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        wait_for(lambda: len(sink.bodies) == len(FILES), "all requests downstream")
        assert sorted(sink.bodies) == sorted(path.read_bytes() for path in FILES)


def test_thinned_after_counting(sink):
    with running(Gateway(config=config(sink, "25%"))) as gateway:
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        counted = gateway.total("profgate_samples_total")
        kept = gateway.total("profgate_forward_samples_total")
        thinned = gateway.total("profgate_forward_thinned_samples_total")
        assert kept + thinned == counted and 0.1 * counted < kept < 0.4 * counted
        wait_for(lambda: sink.bodies, "what was kept downstream")
        assert sum(map(len, sink.bodies)) < 0.6 * sum(path.stat().st_size for path in FILES)


def test_a_full_queue_is_told_to_the_producer_and_nothing_counts_twice(sink):
    sink.status = 503
    limits = ", sending_queue: { queue_size: 2 }, retry_on_failure: { initial_interval: 50ms, max_interval: 50ms }"
    with running(Gateway(config=config(sink, extra=limits, when_full="refuse"))) as gateway:
        answers = [gateway.post(FILES[0].read_bytes()) for _ in range(6)]
        assert [a[0] for a in answers] == [200, 200, 503, 503, 503, 503]
        assert all("retry-after" in a[1] for a in answers[2:])
        once = gateway.total("profgate_samples_total") / 2
        assert gateway.total("profgate_requests_total", outcome="busy") == 4
        sink.status = 200
        wait_for(lambda: len(sink.bodies) == 2, "the queue to drain")
        wait_for(lambda: gateway.post(FILES[0].read_bytes())[0] == 200, "room again")
        assert gateway.total("profgate_samples_total") == 3 * once


def test_a_full_queue_drops_raw_profiles_and_what_can_be_counted_is(sink):
    """The default: also where the queues may have as much as limits.memory."""
    sink.status = 503
    limits = ", sending_queue: { queue_size: 1000, queue_bytes: 64MiB }"
    with running(Gateway("--set", "limits.memory=16MiB", "--set", "limits.request_bytes=4MiB", config=config(sink, extra=limits))) as gateway:
        assert gateway.post(FILES[0].read_bytes())[0] == 200
        once = gateway.total("profgate_samples_total")
        for _ in range(200):
            assert gateway.post(FILES[0].read_bytes())[0] == 200
        assert gateway.total("profgate_samples_total") == 201 * once
        kept, dropped = (gateway.total(f"profgate_forward_{what}samples_total") for what in ("", "dropped_"))
        assert dropped > once and kept > once and kept + dropped == 201 * once
        assert ready(gateway) == (200, "ok\n")
        sink.status = 200
        wait_for(lambda: len(sink.bodies) == kept / once, "what was kept")


def test_what_is_queued_leaves_before_the_end(sink):
    sink.status = 503
    retry = ", retry_on_failure: { initial_interval: 50ms, max_interval: 50ms }"
    with running(Gateway(config=config(sink, extra=retry))) as gateway:
        assert gateway.post(FILES[0].read_bytes())[0] == 200
        sink.status = 200
        assert gateway.stop() == 0
        assert sink.bodies == [FILES[0].read_bytes()]


def test_a_final_refusal_downstream_is_a_counter_not_a_silence(sink):
    sink.status = 400
    with running(Gateway(config=config(sink))) as gateway:
        assert gateway.post(FILES[0].read_bytes())[0] == 200
        wait_for(lambda: gateway.total("profgate_forward_dropped_samples_total") > 0, "the drop counted")
        assert gateway.total("profgate_forward_dropped_samples_total") == gateway.total("profgate_samples_total")


def samples_of(body):
    """The samples of a request as what they say: (service, thread, stack), and each profile's attributes."""
    pb = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
    request = pb.ExportProfilesServiceRequest.FromString(body)
    table = request.dictionary
    samples, marks = [], []

    def frame(index):
        location = table.location_table[index]
        names = tuple(table.string_table[table.function_table[line.function_index].name_strindex]
                      for line in location.lines)
        return (location.address,) + names

    for resource in request.resource_profiles:
        of = {a.key: a.value.string_value for a in resource.resource.attributes}
        for scope in resource.scope_profiles:
            for profile in scope.profiles:
                attributes = {table.string_table[table.attribute_table[i].key_strindex]:
                              table.attribute_table[i].value for i in profile.attribute_indices}
                mark = attributes.get("profgate.keep.share")
                marks.append(mark.double_value if mark is not None else 1.0)
                for sample in profile.samples:
                    stack = tuple(frame(i) for i in table.stack_table[sample.stack_index].location_indices)
                    samples.append((tuple(sorted(of.items())), stack, tuple(sample.values),
                                    tuple(sample.timestamps_unix_nano)))
    return samples, marks


def test_what_is_larger_than_the_destination_takes_is_split(sink):
    """Every piece is below the limit, and together they are all samples exactly once."""
    body = max(FILES, key=lambda path: path.stat().st_size).read_bytes()
    limit = len(body) // 3
    with running(Gateway(config=config(sink, extra=f", max_request_bytes: {limit}"))) as gateway:
        assert gateway.post(body)[0] == 200
        counted = gateway.total("profgate_samples_total")
        wait_for(lambda: sum(len(samples_of(b)[0]) for b in sink.bodies) == counted, "all samples downstream")
        assert gateway.total("profgate_forward_samples_total") == counted
        assert gateway.total("profgate_forward_dropped_samples_total") == 0
    assert len(sink.bodies) > 3 and max(map(len, sink.bodies)) <= limit
    pieces = [sample for b in sink.bodies for sample in samples_of(b)[0]]
    assert sorted(map(repr, pieces)) == sorted(map(repr, samples_of(body)[0]))


def test_a_destination_of_layout_1_9(sink):
    """Read as 1.10 the samples would be wrong; another gateway that is told takes them and counts the same."""
    body = FILES[0].read_bytes()
    with running(Gateway(config=config(sink, extra=", wire_version: '1.9'"))) as gateway:
        assert gateway.post(body)[0] == 200
        counted = gateway.total("profgate_samples_total")
        wait_for(lambda: sink.bodies, "the request downstream")
    with running(Gateway()) as second:
        assert second.post(sink.bodies[0])[0] == 200
        assert second.total("profgate_samples_total") == counted
        assert second.total("profgate_samples_rejected_total") == 0
        assert second.total("profgate_requests_by_layout_total", layout="1.9") == 1


def with_rules(sink, tmp_path, rules, keep):
    path = tmp_path / "keep.rules"
    path.write_text("rules 1\npack kept\n\n" + rules)
    return config(sink, keep) + f"rules: {{ files: [{path}] }}\n"


def test_rules_keep_before_the_configuration_does(sink, tmp_path):
    """keep 10 % of stacks: two gateways agree, and every stack has its kept samples always or never."""
    text = with_rules(sink, tmp_path, "keep 10% of stacks\n", "0%")
    for _ in range(2):
        with running(Gateway(config=text)) as gateway:
            for path in FILES:
                assert gateway.post(path.read_bytes())[0] == 200
            counted = gateway.total("profgate_samples_total")
            kept = gateway.total("profgate_forward_samples_total")
            assert kept + gateway.total("profgate_forward_thinned_samples_total") == counted
            assert 0.02 * counted < kept < 0.2 * counted
            assert gateway.stop() == 0  # what is queued has left
    half = len(sink.bodies) // 2
    assert sorted(sink.bodies[:half]) == sorted(sink.bodies[half:])
    assert {mark for body in sink.bodies for mark in samples_of(body)[1]} == {0.1}


def test_keep_all_where_something_holds(sink, tmp_path):
    rules = 'keep all where any frame is kernel\nkeep 5% of stacks\n'
    with running(Gateway(config=with_rules(sink, tmp_path, rules, "100%"))) as gateway:
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        kept = gateway.total("profgate_forward_samples_total")
        thinned = gateway.total("profgate_forward_thinned_samples_total")
        assert kept > 0 and thinned > 0
        wait_for(lambda: sum(len(samples_of(b)[0]) for b in sink.bodies) == kept, "what was kept downstream")
    marks = {}
    for body in sink.bodies:
        samples, of = samples_of(body)
        assert len(set(of)) == 1
        marks[of[0]] = marks.get(of[0], 0) + len(samples)
    assert set(marks) == {1.0, 0.05} and marks[1.0] > marks[0.05]


def test_dropped_by_rule_is_counted_all_the_same(sink, tmp_path):
    with running(Gateway(config=with_rules(sink, tmp_path, "keep all\ndrop\n", "0%"))) as g:
        assert g.post(FILES[0].read_bytes())[0] == 200
        assert g.total("profgate_samples_total") > 0
        assert g.total("profgate_forward_samples_total") == 0
        assert g.total("profgate_forward_thinned_samples_total") == g.total("profgate_samples_total")


def counted(*files):
    """What `profgate count` prints of the files; of lines with equal numbers the order is that of the requests."""
    said = subprocess.run([BUILD / "profgate", "count", *files], check=True, capture_output=True, text=True).stdout
    return sorted(said.splitlines())


@pytest.mark.parametrize("format", ["json", "proto"])
def test_to_a_file_and_back(format, tmp_path):
    """As the Collector's file exporter writes them; what is written counts as what came."""
    out = tmp_path / "profiles"
    with running(Gateway(config=f"profiles: {{ exporters: [file/x] }}\n"
                                f"exporters: {{ file/x: {{ path: {out}, format: {format} }} }}\n")) as gateway:
        for path in FILES:
            assert gateway.post(path.read_bytes())[0] == 200
        assert gateway.stop() == 0
    assert counted(out) == counted(*FILES)
    if format == "json":
        lines = [json.loads(line) for line in out.read_text().splitlines()]
        assert len(lines) == len(FILES) and all(line["resourceProfiles"] for line in lines)


@pytest.mark.parametrize("cut", [1, 3, 5, -1])
def test_a_file_cut_off_inside_a_request_is_told(cut, tmp_path):
    out = tmp_path / "profiles"
    body = FILES[0].read_bytes()
    out.write_bytes((len(body).to_bytes(4, "big") + body)[:cut])
    said = subprocess.run([BUILD / "profgate", "count", out], capture_output=True, text=True)
    assert said.returncode == 1 and f"{out}: request 1: the file ends inside it, read as requests behind their lengths" in said.stderr


def test_a_stop_repeats_what_can_still_be_delivered(sink):
    """With the usual pauses of seconds between attempts; only a destination that stays away costs the queue."""
    sink.status = 503
    with running(Gateway("--set", "service.shutdown_timeout=60s", config=config(sink))) as gateway:
        for path in FILES[:3]:
            assert gateway.post(path.read_bytes())[0] == 200
        wait_for(lambda: sink.asked >= 3, "a first attempt each")
        gateway.process.send_signal(signal.SIGTERM)
        wait_for(lambda: sink.asked >= 12, "several more of each")
        sink.status = 200
        assert gateway.wait() == 0
    assert sorted(sink.bodies) == sorted(path.read_bytes() for path in FILES[:3])


def test_a_stop_ends_when_its_time_is_over(sink):
    sink.status = 503
    with running(Gateway("--set", "service.shutdown_timeout=300ms", config=config(sink))) as gateway:
        for _ in range(3):
            assert gateway.post(FILES[0].read_bytes())[0] == 200
        wait_for(lambda: sink.asked >= 1, "the first attempt")
        items = int(gateway.total("profgate_samples_total"))
        assert gateway.stop() == 0
        assert f"left at the end destination=otlp/sink of=samples requests=3 items={items} error=" in gateway.log()
        assert gateway.log().count("left at the end") == 1


def test_a_name_that_nobody_resolves_does_not_keep_a_stop(tmp_path):
    text = "profiles: { exporters: [otlp/away] }\nexporters: { otlp/away: { endpoint: 'http://receiver.invalid:4318' } }\n"
    with running(Gateway("--set", "service.shutdown_timeout=300ms", config=text, env=unanswered(tmp_path))) as gateway:
        assert gateway.post(FILES[0].read_bytes())[0] == 200
        wait_for(lambda: "asked" in gateway.log(), "a name that is asked for")
        assert gateway.stop() == 0
        assert "left at the end destination=otlp/away" in gateway.log() and "stopped" in gateway.log()


def ready(gateway, accept="text/plain"):
    """GET /readyz: (status, text)."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.admin, timeout=PATIENCE)
    connection.request("GET", "/readyz", headers={"Accept": accept})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_ready_is_who_would_take_a_request(sink):
    """A full queue, no connection left, stopping: each with its reason, and back when it is over."""
    sink.status = 503
    retry = ", sending_queue: { queue_size: 2 }, retry_on_failure: { initial_interval: 50ms, max_interval: 50ms }"
    with running(Gateway("--set", "limits.connections=2", config=config(sink, extra=retry, when_full="refuse"), listen=1)) as gateway:
        assert ready(gateway) == (200, "ok\n")
        while gateway.post(FILES[0].read_bytes())[0] == 200:
            pass
        full = "the queue of exporter otlp/sink has no room for raw profiles"
        wait_for(lambda: ready(gateway) == (503, f"not ready: queues: {full}\n"), "its queue alone, when the connections are gone")
        status, text = ready(gateway, "application/json")
        assert status == 503 and {c["name"]: c.get("reason") for c in json.loads(text)["checks"]} == {
            "receiver": None, "connections": None, "memory": None, "queues": full}
        sink.status = 200
        wait_for(lambda: ready(gateway)[0] == 200, "the queue drained")
        with contextlib.ExitStack() as idle:
            for _ in range(2):
                idle.enter_context(socket.create_connection(("127.0.0.1", gateway.ports[0])))
            wait_for(lambda: ready(gateway) == (503, "not ready: connections: all of limits.connections=2 are open\n"),
                     "no connection left")
        wait_for(lambda: ready(gateway)[0] == 200, "the connections gone")
        sink.status = 503
        assert gateway.post(FILES[0].read_bytes())[0] == 200
        gateway.process.send_signal(signal.SIGTERM)
        wait_for(lambda: ready(gateway)[1].startswith("not ready: receiver: stopping\n"), "it stops")
        sink.status = 200
        assert gateway.wait() == 0


def test_without_memory_it_is_not_ready(sink):
    """Queues may hold all of limits.memory: what is left does not do for a request."""
    sink.status = 503
    with running(Gateway("--set", "limits.memory=16MiB", "--set", "limits.request_bytes=4MiB",
                         config=config(sink, extra=", sending_queue: { queue_size: 1000, queue_bytes: 64MiB }", when_full="refuse"),
                         listen=1)) as gateway:
        while gateway.post(FILES[0].read_bytes())[0] == 200:
            pass
        status, text = ready(gateway)
        assert status == 503 and re.search(r"not ready: memory: \d+ of limits.memory=16777216 bytes are in use\n", text), text
        sink.status = 200
        wait_for(lambda: ready(gateway)[0] == 200, "the queue drained")
