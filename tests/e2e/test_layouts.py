"""One odd message in a request of a real profiler, by the numbers that come out; and many of them, for longer than a unit test may."""
import gzip
import os
import subprocess

import pytest
from programs import BUILD, Gateway, captures, running, wait_for

service = pytest.importorskip("opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2")
CAPTURE = captures("ebpf-go*.pb")[0].read_bytes()


def unpacked(sample):
    """As a writer that packs nothing would send one value more."""
    return sample.SerializeToString() + b"\x20\x07"


def altered(change):
    """The capture with its first sample changed: by a function of the message that gives its bytes."""
    request = service.ExportProfilesServiceRequest.FromString(CAPTURE)
    profile = request.resource_profiles[0].scope_profiles[0].profiles[0]
    marked = profile.samples[0]
    data = change(marked)
    del profile.samples[0]
    profile.MergeFromString(b"\x12" + bytes([len(data)]) + data)  # now the last one: samples have no order
    return request.SerializeToString()


def untimed(sample):
    sample.ClearField("timestamps_unix_nano")
    return sample.SerializeToString()


def cpu_time(gateway):
    wait_for(lambda: gateway.total("profile_cpu_time_seconds_total") > 0, "CPU time counted")
    return gateway.total("profile_cpu_time_seconds_total")


@pytest.mark.parametrize("name, change, rejected", [
    ("without times", untimed, 1),
    ("with a field of a release to come", lambda s: s.SerializeToString() + b"\x32\x02\x08\x01", 0),
    ("with a group", lambda s: s.SerializeToString() + b"\x33\x08\x01\x34", 0),
    ("with a link that is text", lambda s: s.SerializeToString() + b"\x1a\x01x", 1),
    ("with a value that is not packed", unpacked, 0),
])
def test_one_odd_sample_is_one_sample(name, change, rejected):
    flushes = ("--set", "metrics.flush_interval=100ms")
    with running(Gateway(*flushes)) as plain, running(Gateway(*flushes)) as odd:
        assert plain.post(CAPTURE)[0] == 200
        status, _, answer = odd.post(altered(change))
        assert status == 200, answer
        assert odd.total("profgate_requests_by_layout_total", layout="1.10") == 1
        assert odd.total("profgate_samples_rejected_total") == rejected
        want, have = cpu_time(plain), cpu_time(odd)
        samples = plain.total("profgate_samples_total")
        assert want > 0 and abs(have - want) <= 7 * want / samples, (have, want)  # no more than it is itself


def test_a_body_that_unfolds_a_thousandfold_is_taken():
    request = service.ExportProfilesServiceRequest()
    request.dictionary.string_table.extend(["", "x" * 16_000_000])
    body = request.SerializeToString()
    packed = gzip.compress(body, 9)
    assert len(body) > 1000 * len(packed)
    with running(Gateway()) as gateway:
        assert gateway.post(packed, {"Content-Encoding": "gzip"})[0] == 200


@pytest.mark.soak
def test_of_a_hundred_thousand_mutants_none_has_a_wrong_number():
    test = BUILD / "tests" / "unit_proto_otlp_layouts_test_mutants"
    if not test.exists():
        pytest.skip(f"{test} is not built")
    done = subprocess.run([test], env={**os.environ, "PG_MUTANTS": "100000", "CK_FORK": "no"}, capture_output=True, text=True, check=False)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
