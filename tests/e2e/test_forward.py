"""Raw profiles downstream: untouched at 100 %, thinned after counting, refused when there is no room."""
import http.server
import threading
from pathlib import Path

import pytest
from programs import Gateway, captures, running, wait_for

FILES = captures("ebpf-*.pb")


class Sink:
    """An OTLP/HTTP destination that keeps the bodies and answers as told."""

    def __init__(self, status=200):
        self.bodies, self.status, sink = [], status, self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if sink.status == 200:
                    sink.bodies.append(body)
                self.send_response(sink.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *unused):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture()
def sink():
    started = Sink()
    yield started
    started.close()


def config(sink, keep="100%", extra=""):
    return f"""
profiles: {{ keep: {keep}, exporters: [otlp/sink] }}
exporters: {{ otlp/sink: {{ endpoint: 'http://127.0.0.1:{sink.port}', protocol: http, compression: none{extra} }} }}
"""


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
    with running(Gateway(config=config(sink, extra=limits))) as gateway:
        answers = [gateway.post(FILES[0].read_bytes()) for _ in range(6)]
        assert [a[0] for a in answers] == [200, 200, 503, 503, 503, 503]
        assert all("retry-after" in a[1] for a in answers[2:])
        once = gateway.total("profgate_samples_total") / 2
        assert gateway.total("profgate_requests_total", outcome="busy") == 4
        sink.status = 200
        wait_for(lambda: len(sink.bodies) == 2, "the queue to drain")
        wait_for(lambda: gateway.post(FILES[0].read_bytes())[0] == 200, "room again")
        assert gateway.total("profgate_samples_total") == 3 * once


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
