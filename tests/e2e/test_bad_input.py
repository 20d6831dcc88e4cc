"""Hostile and broken producers: a clear answer, no crash, memory bounded, and the neighbours unharmed."""
import gzip
import random
import select
import socket
import struct
from pathlib import Path

import pytest
from handmade import field, varint
from programs import EXPORT_METHOD, PATIENCE, PROFILES_PATH, Gateway, captures, running, wait_for

GOOD = captures("ebpf-go*.pb")[0].read_bytes()
CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus"


@pytest.fixture()
def gateway():
    with running(Gateway("--set", "service.workers=1")) as started:
        yield started
        assert started.alive(), "the gateway died"
        assert started.post(GOOD)[0] == 200, "the gateway no longer takes good requests"
        assert started.stop() == 0


def request(samples, locations=(b"",), stacks=(b"", field(1, b"\x01"))):
    """A request of wire layout 1.10 with one profile of samples/count."""
    dictionary = field(1, b"") + b"".join(field(2, x) for x in (b"", *locations)) + field(3, b"") + field(4, b"")
    dictionary += field(5, b"") + field(5, b"samples") + field(5, b"count") + field(6, b"")
    dictionary += b"".join(field(7, x) for x in stacks)
    profile = field(1, field(1, 1) + field(2, 2)) + b"".join(field(2, s) for s in samples)
    return field(1, field(2, field(2, profile))) + field(2, dictionary)


SAMPLE = field(1, 1) + field(4, b"\x01")


def test_heads_that_are_none_are_counted_as_requests(gateway):
    """What the session answers by itself: no intake hears of it."""
    before = gateway.total("profgate_requests_total", outcome="refused"), gateway.total("profgate_requests_total", outcome="malformed")
    for head, status in ((b"POST /" + b"x" * 70000 + b" HTTP/1.1\r\nhost: a\r\n\r\n", b"414"),
                         (b"POST / HTTP/1.1\r\nhost: a\r\nexpect: cake\r\n\r\n", b"417"),
                         (b"POST / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 40000 + b"\r\n\r\n", b"431"),
                         (b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: x\r\n\r\n", b"400")):
        with socket.create_connection(("127.0.0.1", gateway.ports[0]), timeout=PATIENCE) as s:
            s.sendall(head)
            assert s.recv(64).split()[1] == status
    assert gateway.total("profgate_requests_total", outcome="refused") == before[0] + 3
    assert gateway.total("profgate_requests_total", outcome="malformed") == before[1] + 1


def test_truncated_at_every_hundredth_byte(gateway):
    for cut in range(1, len(GOOD), len(GOOD) // 100):
        status, _, body = gateway.post(GOOD[:cut])
        assert status in (200, 400), status
        assert status == 200 or body, "a refusal has a google.rpc.Status"


def test_random_bytes(gateway):
    random.seed(7)
    for size in (1, 2, 10, 1000, 100_000):
        for _ in range(20):
            assert gateway.post(random.randbytes(size))[0] in (200, 400)


@pytest.mark.parametrize("name, sample, kwargs", [
    ("stack", field(1, 99) + field(4, b"\x01"), {}),
    ("negative stack", field(1, -1) + field(4, b"\x01"), {}),
    ("link", SAMPLE + field(3, 7), {}),
    ("attribute", SAMPLE + field(2, b"\x63"), {}),
    ("location", SAMPLE, {"stacks": (b"", field(1, b"\x63"))}),
    ("mapping", SAMPLE, {"locations": (field(1, 99),)}),
    ("function", SAMPLE, {"locations": (field(3, field(1, 99)),)}),
    ("billion", field(1, 1 << 30) + field(4, b"\x01"), {}),
])
def test_an_index_that_leads_nowhere_rejects_its_sample_alone(gateway, name, sample, kwargs):
    good = field(4, b"\x01")  # stack 0: nothing to reject
    status, _, body = gateway.post(request([good, sample, good], **kwargs))
    assert status == 200
    assert b"samples[1]" in body, body
    wait_for(lambda: gateway.total("profgate_samples_rejected_total") == 1, "one sample rejected")
    assert gateway.total("profgate_samples_total") == 2


def test_two_million_deep_nesting_is_refused(gateway):
    # AnyValue { array_value { values { array_value … } } }, lengths from the inside out
    inner, parts = 0, []
    for _ in range(1_000_000):
        for number in (1, 5):
            head = varint(number << 3 | 2) + varint(inner)
            parts.append(head)
            inner += len(head)
    nested = b"".join(reversed(parts))
    attribute = field(1, b"k") + varint(2 << 3 | 2) + varint(len(nested)) + nested
    body = field(1, field(1, field(1, attribute)))
    assert len(body) > 9_000_000
    assert gateway.post(body)[0] == 400
    assert gateway.rss_kib() < 100_000


@pytest.mark.parametrize("piece", [field(1, b""), field(1, field(2, field(2, field(2, b"") * 100)))])
def test_millions_of_empty_messages_stay_within_memory(gateway, piece):
    body = piece * (20_000_000 // len(piece))
    assert gateway.post(body)[0] in (200, 400, 413, 503)
    assert gateway.rss_kib() < 400_000


def test_gzip_bomb(gateway):
    bomb = gzip.compress(bytes(200 << 20), 9)
    status, _, body = gateway.post(bomb, {"Content-Encoding": "gzip"})
    assert status == 413 and body
    assert gateway.rss_kib() < 200_000


def test_corrupt_gzip_is_400(gateway):
    packed = bytearray(gzip.compress(GOOD))
    packed[len(packed) // 2] ^= 0xff
    assert gateway.post(bytes(packed), {"Content-Encoding": "gzip"})[0] == 400
    assert gateway.post(gzip.compress(GOOD)[:-9], {"Content-Encoding": "gzip"})[0] == 400


def test_100_mb_announced_is_refused_before_it_is_read(gateway):
    with socket.create_connection(("127.0.0.1", gateway.ports[0]), timeout=PATIENCE) as s:
        s.sendall(f"POST {PROFILES_PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                  f"Content-Length: {100 << 20}\r\n\r\n".encode())
        assert s.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_100_mb_streamed_in_chunks_is_refused_on_the_way(gateway):
    with socket.create_connection(("127.0.0.1", gateway.ports[0]), timeout=PATIENCE) as s:
        s.sendall(f"POST {PROFILES_PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n".encode())
        chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
        answer = b""
        try:
            for _ in range(100):
                s.sendall(chunk)
        except OSError:
            pass  # closed on us in the middle: as announced
        try:
            answer = s.recv(4096)
        except OSError:
            pytest.skip("the answer was lost to the reset that ended the upload")
        assert answer.startswith(b"HTTP/1.1 413 ")
    assert gateway.rss_kib() < 250_000


def test_half_closed_client_still_gets_its_answer(gateway):
    with socket.create_connection(("127.0.0.1", gateway.ports[0]), timeout=PATIENCE) as s:
        s.sendall(f"POST {PROFILES_PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
                  f"Content-Length: {len(GOOD)}\r\n\r\n".encode() + GOOD)
        s.shutdown(socket.SHUT_WR)
        assert s.recv(4096).startswith(b"HTTP/1.1 200 ")


def test_clients_that_leave_in_the_middle(gateway):
    head = (f"POST {PROFILES_PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
            f"Content-Length: {len(GOOD)}\r\n\r\n").encode()
    for cut in (1, 10, len(head), len(head) + 100, len(head) + len(GOOD) - 1):
        with socket.create_connection(("127.0.0.1", gateway.ports[0]), timeout=PATIENCE) as s:
            s.sendall((head + GOOD)[:cut])
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_for(lambda: gateway.total("profgate_connections") == 0, "all connections closed")


def test_slow_clients_do_not_hold_up_others(gateway):
    slow = [socket.create_connection(("127.0.0.1", gateway.ports[0]), timeout=PATIENCE) for _ in range(200)]
    for s in slow:
        s.sendall(b"POST /v1development/profiles HTTP/1.1\r\nHost: x\r\nContent-Le")
    for _ in range(10):
        assert gateway.post(GOOD)[0] == 200
    # They are still in the middle of their heads, and were not told that ten seconds (408) are over: nobody waited for that.
    answered, _, _ = select.select(slow, [], [], 0)
    assert not answered, answered[0].recv(4096)
    for s in slow:
        s.close()


def test_what_is_no_http_is_closed(gateway):
    for junk in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\x00" * 100, b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", gateway.ports[0]), timeout=PATIENCE) as s:
            s.sendall(junk)
            s.shutdown(socket.SHUT_WR)
            s.settimeout(PATIENCE)
            while s.recv(4096):
                pass


@pytest.mark.parametrize("method, path, headers, status", [
    ("GET", PROFILES_PATH, {}, 405),
    ("POST", "/v1/traces", {}, 404),
    ("POST", EXPORT_METHOD, {"Content-Type": "text/plain"}, 404),
    ("POST", PROFILES_PATH, {"Content-Type": "text/plain"}, 415),
    ("POST", PROFILES_PATH, {"Content-Encoding": "br"}, 415),
])
def test_the_wrong_request_gets_the_right_word(gateway, method, path, headers, status):
    answer = gateway.post(b"", headers, path=path, method=method)
    assert answer[0] == status


def test_an_empty_request_is_fine(gateway):
    assert gateway.post(b"")[0] == 200


@pytest.mark.parametrize("layout", ["1.5", "1.7", "1.8", "1.9"])
def test_older_layouts_are_read_as_what_they_are(gateway, layout):
    """The same request in each of them: two profiles, nothing rejected; what comes behind is unharmed."""
    body = (CORPUS / "legacy" / f"layout-{layout}").read_bytes()[1:]  # the first byte is the fuzzer's
    status, _, answer = gateway.post(body)
    assert status == 200, answer
    assert gateway.post(GOOD)[0] == 200
    assert gateway.total("profgate_requests_by_layout_total", layout=layout) == 1
    assert gateway.total("profgate_requests_by_layout_total", layout="1.10") == 1
    assert gateway.total("profgate_samples_rejected_total") == 0


def test_a_request_of_1_9_cut_short_names_its_layout(gateway):
    body = (CORPUS / "legacy" / "layout-1.9").read_bytes()[1:]
    status, _, answer = gateway.post(body[:-3])
    assert status == 400 and b"1.9" in answer
