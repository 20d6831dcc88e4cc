"""Ten million messages that hold nothing, in 20 MB, of every kind and layout: answered, within 64 MB of memory."""
import pytest
from programs import Gateway, captures, running
from test_bad_input import field

BYTES = 20_000_000
RSS_MAX_KIB = 64 << 10
GOOD = captures("ebpf-go*.pb")[0].read_bytes()


def many(piece):
    return piece * (BYTES // len(piece))


def resource(inside):
    return field(1, inside)


def scope(inside):
    return resource(field(2, inside))


def profile(inside):
    return scope(field(2, inside))


def dictionary(inside):
    return field(2, inside)


OLD_SAMPLES = field(2, field(1, 0) + field(2, 1) + field(3, b"\x01")) * 100  # a slice and a value: 1.7 or older
OLD_KEY = field(6, field(1, b"k"))

BODIES = {
    "resource_profiles": lambda: many(resource(b"")),
    "scope_profiles": lambda: resource(many(field(2, b""))),
    "profiles": lambda: scope(many(field(2, b""))),
    "samples": lambda: profile(many(field(2, b""))),
    "sample types": lambda: profile(many(field(1, b""))),
    "resources of one": lambda: resource(many(field(1, b""))),
    "resource attributes": lambda: resource(field(1, many(field(1, b"")))),
    "scope attributes": lambda: scope(field(1, many(field(3, b"")))),
    "attribute values": lambda: resource(field(1, field(1, field(1, b"k") + many(field(2, b""))))),
    "array values": lambda: resource(field(1, field(1, field(1, b"k") + field(2, field(5, many(field(1, b""))))))),
    "mappings": lambda: dictionary(many(field(1, b""))),
    "locations": lambda: dictionary(many(field(2, b""))),
    "lines": lambda: dictionary(field(2, many(field(3, b"")))),
    "functions": lambda: dictionary(many(field(3, b""))),
    "links": lambda: dictionary(many(field(4, b""))),
    "strings": lambda: dictionary(many(field(5, b""))),
    "attributes": lambda: dictionary(many(field(6, b""))),
    "stacks": lambda: dictionary(many(field(7, b""))),
    "dictionaries": lambda: many(dictionary(b"")),
    "unknown fields": lambda: many(field(15, b"")),
    "whole trees": lambda: many(profile(b"")),
    "samples with a zero": lambda: profile(many(field(2, field(1, 0)))),
    "attributes with an empty key": lambda: resource(field(1, many(field(1, field(1, b""))))),
    "1.7 samples": lambda: profile(OLD_SAMPLES + many(field(2, b""))),
    "1.7 strings": lambda: profile(OLD_SAMPLES) + dictionary(OLD_KEY + many(field(5, b""))),
    "1.7 lines": lambda: profile(OLD_SAMPLES) + dictionary(OLD_KEY + field(2, many(field(3, b"")))),
    "1.5 locations": lambda: profile(OLD_SAMPLES + many(field(4, b""))),
    "1.5 profiles": lambda: scope(field(2, OLD_SAMPLES + field(4, b"")) + many(field(2, b""))),
}


def peak_kib(gateway):
    with open(f"/proc/{gateway.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


@pytest.mark.parametrize("kind", BODIES)
def test_ten_million_empty_messages_within_64_mb(kind):
    body = BODIES[kind]()
    assert len(body) >= BYTES - 100
    with running(Gateway("--set", "service.workers=1")) as gateway:
        status, _, answer = gateway.post(body)
        assert status in (200, 400), answer
        assert status == 200 or b"hold nothing" in answer
        assert peak_kib(gateway) < RSS_MAX_KIB
        assert gateway.post(GOOD)[0] == 200
        assert gateway.stop() == 0
