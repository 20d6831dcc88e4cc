"""An HTTP receiver: the base of all that tests and benches let our programs send to. Nothing but Python's own library."""
import gzip
import http.server
import threading


class _Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128  # of connections that wait while this process has no CPU


class Sink:
    """with Sink() as s: … the body of every POST to s.url goes to s.take, in a thread of its connection.

    Between stop() and start() nobody listens at s.port, which stays the same. What take raises is kept in s.errors, the sender
    hears 200 all the same; and leaving the `with` fails with the first of them.
    """
    keep_alive = True  # False: a connection serves one request, and stop() waits for those that are under way

    def __init__(self, port=0):
        self.port = port
        self.errors = []
        self._server = None

    def take(self, path, headers, body):
        """To be overridden: (status, body of the answer), or None for 200 and nothing."""

    def start(self):
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1" if self.keep_alive else "HTTP/1.0"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = None
                try:
                    answer = sink.take(self.path, self.headers, body)
                except Exception as e:  # noqa: BLE001: whoever it is for looks at them
                    sink.errors.append(repr(e))
                status, said = answer or (200, b"")
                self.send_response(status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *arguments):
                pass

        self._server = _Server(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = self.keep_alive
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def stop(self):
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, *unused):
        self.stop()
        if kind is None:
            assert not self.errors, self.errors[0]


def plain(headers, body):
    """The body without its gzip, if it has one."""
    return gzip.decompress(body) if headers["Content-Encoding"] == "gzip" else body
