"""A receiver that goes away and comes back: with a spool it misses nothing, to the sample."""
import gzip
import http.server
import re
import threading
import time

import pytest
from programs import BUILD, Process, free_port, running, wait_for
from test_profsend_delivery import figure, spooled
from test_profsend_kinds import truth  # noqa: F401 (a fixture)


class Sink:
    """Counts samples at one port; away between stop() and start(). A connection serves one request, so none outlives it."""

    def __init__(self):
        self.port = free_port()
        self.server = None
        self.samples = 0
        self.lock = threading.Lock()

    def start(self):
        from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                body = gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body
                request = service.ExportProfilesServiceRequest.FromString(body)
                n = sum(len(sample.timestamps_unix_nano) for resource in request.resource_profiles
                        for scope in resource.scope_profiles for profile in scope.profiles for sample in profile.samples)
                with sink.lock:
                    sink.samples += n
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.server.daemon_threads = False  # server_close waits for requests under way: they are counted and answered
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()
            self.server = None


@pytest.mark.parametrize("seconds", [pytest.param(10, id="10 s"), pytest.param(600, id="10 minutes", marks=pytest.mark.soak)])
def test_an_absence_costs_no_sample(truth, tmp_path, seconds):
    spool, status = tmp_path / "spool", free_port()
    sink, busy = Sink(), Process([truth, "spin", "3600"])
    sender = Process([BUILD / "profsend", "--endpoint", f"http://127.0.0.1:{sink.port}", "--protocol", "http/protobuf",
                      "--interval", "1s", "--frequency", "49", "--spool", spool,
                      "--status", f"127.0.0.1:{status}"])
    sink.start()
    try:
        with running(busy, sender):
            wait_for(lambda: "sampling" in sender.log() or not sender.alive(), "profsend at work", 30)
            if not sender.alive() and sender.wait() == 3:
                pytest.skip(f"profiling is not permitted here: {sender.log().strip()[-200:]}")
            wait_for(lambda: sink.samples, "a first window", 30)
            sink.stop()
            before, begun = sink.samples, time.monotonic()
            # how long it is away, not a wait for something; and windows are put by all the while
            while time.monotonic() - begun < seconds:
                time.sleep(min(5, seconds / 4))
                assert sender.alive(), sender.log()
            wait_for(lambda: figure(status, "profsend.spool.files") >= seconds / 3, "windows put by")  # a busy machine's last for longer
            put_by = 49 * seconds / 2
            assert sink.samples == before
            sink.start()
            # twice the longest pause between attempts; then as fast as they are taken
            wait_for(lambda: sink.samples >= before + put_by and figure(status, "profsend.spool.files") <= 1, "what waited to be sent", 150)
            assert sender.rss_kib() < 64 << 10, sender.rss_kib()
            assert sender.stop() == 0, sender.log()
            last = [line for line in sender.log().splitlines() if "own use:" in line][-1]
            own = {word: int(n) for word, n in re.findall(r"\b(samples|lost|dropped|sent|rejected|unsent)=(\d+)", last)}
            assert sink.samples == own["sent"] >= before + put_by and spooled(spool) == (0, 0), (sink.samples, own)
            assert own["rejected"] == own["unsent"] == own["dropped"] == 0, own
            # lost counts notices of processes too, which are no samples
            assert own["samples"] - own["lost"] <= own["sent"] <= own["samples"], own
    finally:
        sink.stop()
