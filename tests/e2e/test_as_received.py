"""Raw profiles that leave as they came: the very bytes of a request, whatever its coding, to destinations that send it in that."""
import gzip
import socket
import struct
import threading

import pytest
import sink as base
from programs import PATIENCE, Gateway, captures, running, wait_for

BODY = captures("ebpf-go-*.pb")[0].read_bytes()
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SERVICE = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"


def zstd(body):
    """RFC 8878 §3.1.1: a frame of raw blocks, with its size: nobody else's encoder makes these bytes."""
    blocks = [body[at:at + 100000] for at in range(0, len(body), 100000)]
    heads = (struct.pack("<I", len(block) << 3 | (block is blocks[-1]))[:3] for block in blocks)
    return b"\x28\xb5\x2f\xfd\xa0" + struct.pack("<I", len(body)) + b"".join(a + b for a, b in zip(heads, blocks))


def stored(body):
    """gzip of one member that no encoder of ours would make: level 1, with a name in its head."""
    packed = gzip.compress(body, 1, mtime=1)
    return packed[:3] + b"\x08" + packed[4:10] + b"as it came\0" + packed[10:]


CODINGS = {"gzip": stored(BODY), "zstd": zstd(BODY), "identity": BODY}


class Sink(base.Sink):
    """An OTLP/HTTP destination that keeps (coding, body) and answers `statuses` first."""

    def __init__(self, *statuses):
        super().__init__()
        self.got, self.statuses = [], list(statuses)

    def take(self, path, headers, body):
        self.got.append((headers.get("Content-Encoding", "identity"), body))
        return (self.statuses.pop(0) if self.statuses else 200), b""


class Tap:
    """Stands before a server and keeps what its clients send."""

    def __init__(self, port):
        self.to, self.sent = port, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.to))
            self.sent.append(bytearray())
            for one, other, kept in ((client, server, self.sent[-1]), (server, client, bytearray())):
                threading.Thread(target=self._pass, args=(one, other, kept), daemon=True).start()

    @staticmethod
    def _pass(one, other, kept):
        try:
            while piece := one.recv(65536):
                kept += piece
                other.sendall(piece)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def messages(self):
        """The gRPC messages so far, prefix included: DATA of each stream (RFC 9113 §6.1)."""
        found = {}
        for number, sent in enumerate(self.sent):
            at = len(PREFACE)
            while len(sent) - at >= 9:
                n, kind, stream = int.from_bytes(sent[at:at + 3], "big"), sent[at + 3], int.from_bytes(sent[at + 5:at + 9], "big")
                if kind == 0 and len(sent) - at >= 9 + n:
                    found[number, stream] = found.get((number, stream), b"") + bytes(sent[at + 9:at + 9 + n])
                at += 9 + n
        return [m for m in found.values() if len(m) >= 5 and len(m) == 5 + int.from_bytes(m[1:5], "big")]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.listener.close()


def config(port, protocol="http", keep="100%", extra=""):
    return f"""
profiles: {{ keep: {keep}, exporters: [otlp/sink] }}
exporters: {{ otlp/sink: {{ endpoint: 'http://127.0.0.1:{port}', protocol: {protocol}{extra} }} }}
"""


def encoded(coding):
    return {} if coding == "identity" else {"Content-Encoding": coding}


@pytest.mark.parametrize("coding", CODINGS)
def test_by_http_it_is_the_bytes_that_came(coding):
    with Sink() as sink, running(Gateway(config=config(sink.port))) as gateway:
        assert gateway.post(CODINGS[coding], encoded(coding))[0] == 200
        wait_for(lambda: sink.got, "the request downstream")
        assert sink.got == [(coding, CODINGS[coding])]


@pytest.mark.parametrize("coding", CODINGS)
def test_by_grpc_it_is_the_bytes_that_came(coding):
    with running(Gateway()) as end, Tap(end.ports[0]) as tap, running(Gateway(config=config(tap.port, "grpc"))) as gateway:
        assert gateway.post(CODINGS[coding], encoded(coding))[0] == 200
        wait_for(lambda: end.total("profgate_samples_total") > 0, "the request downstream")
        sent = CODINGS[coding]
        assert tap.messages() == [struct.pack(">BI", coding != "identity", len(sent)) + sent]
        assert end.total("profgate_samples_total") == gateway.total("profgate_samples_total")


@pytest.mark.parametrize("coding", ["gzip", "identity"])
def test_a_grpc_message_is_passed_on(coding):
    grpc = pytest.importorskip("grpc")
    how = grpc.Compression.Gzip if coding == "gzip" else grpc.Compression.NoCompression
    with running(Gateway()) as end, Tap(end.ports[0]) as behind, \
            running(Gateway(config=config(behind.port, "grpc"))) as gateway, Tap(gateway.ports[0]) as before:
        with grpc.insecure_channel(f"127.0.0.1:{before.port}") as channel:
            channel.unary_unary(SERVICE)(BODY, timeout=PATIENCE, compression=how)
        wait_for(lambda: end.total("profgate_samples_total") > 0, "the request downstream")
        assert behind.messages() == before.messages() and len(behind.messages()) == 1
        assert behind.messages()[0][0] == (coding == "gzip")


def test_every_attempt_sends_the_same():
    retry = ", retry_on_failure: { initial_interval: 50ms, max_interval: 50ms }"
    with Sink(503, 503) as sink, running(Gateway(config=config(sink.port, extra=retry))) as gateway:
        assert gateway.post(CODINGS["gzip"], encoded("gzip"))[0] == 200
        wait_for(lambda: len(sink.got) == 3, "the third attempt")
        assert sink.got == [("gzip", CODINGS["gzip"])] * 3


def test_what_waits_takes_what_it_is():
    """The queue is charged for the coded bytes, and holds as many requests as fit of those."""
    packed = CODINGS["gzip"]
    retry = ", retry_on_failure: { initial_interval: 50ms, max_interval: 50ms }"
    with Sink(*[503] * 10000) as sink, running(Gateway(config=config(sink.port, extra=retry))) as gateway:
        for _ in range(5):
            assert gateway.post(packed, encoded("gzip"))[0] == 200
        wait_for(lambda: gateway.total("profgate_export_queue_bytes") == 5 * len(packed), "the gauge")
        sink.statuses.clear()
        wait_for(lambda: gateway.total("profgate_export_queue_bytes") == 0, "the queue to drain")


BROKEN = BODY + bytes([0x0A, 8, 0x12, 6, 0x12, 4, 0x12, 2, 0x08, 0x7F])  # another resource whose sample has no such stack


@pytest.mark.parametrize("why, keep, extra, body", [
    ("thinned", "50%", "", stored(BODY)),
    ("rejected in part", "100%", "", stored(BROKEN)),
    ("another layout", "100%", ", wire_version: '1.9'", stored(BODY)),
    ("split", "100%", f", max_request_bytes: {len(BODY) // 2}", stored(BODY)),
    ("two members", "100%", "", stored(BODY[:1000]) + stored(BODY[1000:])),
    ("another coding is wanted", "100%", ", compression: zstd", stored(BODY)),
], ids=["thinned", "rejected", "layout", "split", "members", "coding"])  # not the bodies
def test_else_it_is_encoded_anew(why, keep, extra, body):
    with Sink() as sink, running(Gateway(config=config(sink.port, keep=keep, extra=extra))) as gateway:
        assert gateway.post(body, encoded("gzip"))[0] == 200
        counted = gateway.total("profgate_forward_samples_total")
        assert counted > 0
        wait_for(lambda: gateway.total("profgate_export_requests_total", outcome="sent") >= (2 if why == "split" else 1),
                 "the request downstream")
        wanted = "zstd" if "compression" in extra else "gzip"
        assert all(coding == wanted and sent != body for coding, sent in sink.got)
        if why in ("two members", "rejected in part"):
            assert gzip.decompress(sink.got[0][1]) == gzip.decompress(body)
            assert len(sink.got) == 1


@pytest.mark.parametrize("coding", CODINGS)
def test_no_compression_is_the_plain_bytes(coding):
    with Sink() as sink, running(Gateway(config=config(sink.port, extra=", compression: none"))) as gateway:
        assert gateway.post(CODINGS[coding], encoded(coding))[0] == 200
        wait_for(lambda: sink.got, "the request downstream")
        assert sink.got == [("identity", BODY)]


def test_each_of_several_destinations_gets_its_form():
    with Sink() as as_received, Sink() as plain, Sink() as packed:
        text = "profiles: { keep: 100%, exporters: [otlp/a, otlp/b, otlp/c] }\nexporters:\n"
        for name, to, how in (("a", as_received, "as_received"), ("b", plain, "none"), ("c", packed, "gzip")):
            text += f"  otlp/{name}: {{ endpoint: 'http://127.0.0.1:{to.port}', protocol: http, compression: {how} }}\n"
        with running(Gateway(config=text)) as gateway:
            assert gateway.post(CODINGS["zstd"], encoded("zstd"))[0] == 200
            wait_for(lambda: as_received.got and plain.got and packed.got, "the request everywhere")
        assert as_received.got == [("zstd", CODINGS["zstd"])] and plain.got == [("identity", BODY)]
        assert packed.got[0][0] == "gzip" and gzip.decompress(packed.got[0][1]) == BODY


def test_what_is_damaged_is_not_passed_on():
    wrong_crc = bytearray(CODINGS["gzip"])
    wrong_crc[-8] ^= 1
    with Sink() as sink, running(Gateway(config=config(sink.port))) as gateway:
        assert gateway.post(bytes(wrong_crc), encoded("gzip"))[0] == 400
        assert gateway.post(CODINGS["gzip"] + b"garbage behind it", encoded("gzip"))[0] == 400
        assert gateway.stop() == 0
        assert sink.got == []
