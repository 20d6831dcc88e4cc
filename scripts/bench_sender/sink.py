"""Where both profilers send: a gRPC server that keeps each request as it came, to be read when nothing is measured any more.

HTTP/2 without TLS (RFC 9113, prior knowledge), as little of it as a unary call takes, so that the sink costs next to nothing and
the bytes counted are those on the wire. Header blocks are not read: all there is to know of a request is in its body. Each is
answered with an empty message and grpc-status 0, whatever it asks.
"""
import socket
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # RFC 9113 §3.4
DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8  # §6
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
WINDOW = 1 << 30  # nobody waits for room: what is measured is the sender
LONGEST = 64 << 20  # of a request; profilers split theirs at 4 or 32 MiB
# RFC 7541 Appendix A: 8 is ":status: 200", 31 is content-type (15 in the prefix and 16 behind it), 0 a name written out.
HEAD = b"\x88\x0f\x10\x10application/grpc"
TRAILERS = b"\x00\x0bgrpc-status\x010"


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


class Sink:
    """with Sink() as sink: … sink.address is "host:port"; sink.requests are (time, bytes on the wire, compressed, message)."""

    def __enter__(self):
        self.requests = []
        self.errors = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *unused):
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes accept(2), which close(2) does not
        self.listener.close()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            try:
                self._converse(connection, stream)
            except (EOFError, ConnectionError):
                pass  # it is gone
            except Exception as e:  # noqa: BLE001: whoever measures looks at errors
                self.errors.append(repr(e))

    def _converse(self, connection, stream):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if exactly(stream, len(PREFACE)) != PREFACE:
            raise ValueError("not HTTP/2 with prior knowledge")
        # SETTINGS_INITIAL_WINDOW_SIZE is 4 (§6.5.2); the connection's own window starts at 65,535 (§6.9.2)
        connection.sendall(frame(SETTINGS, 0, 0, b"\x00\x04" + WINDOW.to_bytes(4, "big")) +
                           frame(WINDOW_UPDATE, 0, 0, (WINDOW - 65535).to_bytes(4, "big")))
        bodies = {}
        while True:
            head = exactly(stream, 9)
            kind, flags, number = head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF
            payload = exactly(stream, int.from_bytes(head[:3], "big"))
            if kind == SETTINGS and not flags & ACK:
                connection.sendall(frame(SETTINGS, ACK, 0))
            elif kind == PING and not flags & ACK:
                connection.sendall(frame(PING, ACK, 0, payload))
            elif kind == HEADERS:
                bodies[number] = bytearray()
            elif kind == RST_STREAM:
                bodies.pop(number, None)
            elif kind == DATA:
                if payload:
                    connection.sendall(frame(WINDOW_UPDATE, 0, 0, len(payload).to_bytes(4, "big")))
                bodies[number] += payload[1:len(payload) - payload[0]] if flags & PADDED else payload
                if len(bodies[number]) > LONGEST:
                    raise ValueError(f"a request above {LONGEST} bytes")
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                self._take(bytes(bodies.pop(number)))
                connection.sendall(frame(HEADERS, END_HEADERS, number, HEAD) + frame(DATA, 0, number, bytes(5)) +
                                   frame(HEADERS, END_HEADERS | END_STREAM, number, TRAILERS))

    def _take(self, body):
        """One gRPC message: a byte that says whether it is compressed, four of its length, itself."""
        if len(body) < 5 or int.from_bytes(body[1:5], "big") != len(body) - 5:
            raise ValueError("not one whole gRPC message")
        self.requests.append((time.time(), len(body), body[0] == 1, body[5:]))


def exactly(stream, size):
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
