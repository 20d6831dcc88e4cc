"""profsend on this very machine, through to the counters; skipped where the kernel does not let us profile."""
import subprocess
import sys
import time

import pytest
from profiles import Receiver, started
from programs import BUILD, PATIENCE, Gateway, Process, free_port, running, wait_for
from sink import plain


@pytest.fixture()
def may_profile():
    done = subprocess.run([BUILD / "profsend", "--print", "--duration", "1s"], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode == 3:
        pytest.skip(f"profiling is not permitted here: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_the_machine_s_cpu_becomes_counters(may_profile, protocol):
    busy = Process([sys.executable, "-c", "while True: pass"])
    with running(Gateway(), busy) as (gateway, _):
        sender = Process([BUILD / "profsend", "--endpoint", f"http://127.0.0.1:{gateway.ports[0]}", "--frequency", "97",
                          "--interval", "1s", "--protocol", protocol])
        with running(sender):
            wait_for(lambda: gateway.total("samples_user_count_total") > 50, "user samples")
            assert gateway.total("profile_cpu_time_seconds_total") > 0.5

            def of_python():
                labels = [dict(l) for (name, l) in gateway.metrics() if name == "samples_native_count_total"]
                return any(l.get("process_executable_name", "").startswith("python") for l in labels)
            wait_for(of_python, "samples of Python's libraries")
            assert gateway.total("profgate_samples_rejected_total") == 0
            assert sender.stop() == 0


def test_a_gateway_that_is_away_costs_no_window(may_profile):
    """Samples wait in profsend's queue while nobody listens and arrive afterwards."""
    port = free_port()
    first = Gateway("--listen", f"127.0.0.1:{port}", listen=0)
    with running(first):
        sender = Process([BUILD / "profsend", "--endpoint", f"http://127.0.0.1:{port}", "--interval", "1s"])
        with running(sender):
            wait_for(lambda: first.total("profgate_requests_total", outcome="accepted") >= 1, "a first window")
            first.stop()
            wait_for(lambda: "retr" in sender.log().lower() or "refused" in sender.log().lower(), "a failed attempt")
            with running(Gateway("--listen", f"127.0.0.1:{port}", listen=0)) as second:
                wait_for(lambda: second.total("profgate_requests_total", outcome="accepted") >= 2,
                         "the windows that waited")
            sender.stop()


class Durations(Receiver):
    """The profiles' durations, by when they begin."""

    def __init__(self):
        super().__init__()
        self.of = {}

    def take(self, path, headers, body):
        from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
        for resource in service.ExportProfilesServiceRequest.FromString(plain(headers, body)).resource_profiles:
            for scope in resource.scope_profiles:
                self.of |= {profile.time_unix_nano: profile.duration_nano for profile in scope.profiles}


def test_the_first_window_is_half_as_long(may_profile):
    """Who has just started it looks for what comes."""
    with Durations() as receiver:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "5s"])
        with running(sender, Process([sys.executable, "-c", "while True: pass"])):
            started(sender)
            at_work = time.time_ns()
            wait_for(lambda: len(receiver.of) >= 2, "two windows")
            assert sender.stop() == 0
    first, second = sorted(receiver.of)[:2]
    assert first + receiver.of[first] - at_work < 3.9e9 < receiver.of[second], (at_work, receiver.of)


def test_without_permission_it_says_which_and_exits_3():
    done = subprocess.run(["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--reuid", "65534", "--clear-groups",
                           BUILD / "profsend", "--print", "--duration", "1s"], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode == 127 or "setpriv:" in done.stderr:
        pytest.skip(f"setpriv cannot drop privileges here: {done.stderr.strip()[-200:]}")
    assert done.returncode == 3, (done.returncode, done.stderr)
    assert "CAP_" in done.stderr
