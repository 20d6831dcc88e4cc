"""What one client may do to the others and to whoever operates the gateway: pages too large to write at once, names without end,
bodies that trickle, files that block. The operator is answered meanwhile, memory stays within limits.memory."""
import gzip
import http.client
import os
import pathlib
import signal
import socket
import threading
import time

import attack_content as hostile
import pytest
from programs import PATIENCE, Gateway, captures, running, wait_for


class Health(threading.Thread):
    """Asks /healthz again and again; the longest that it took, in seconds. On its own, so that only its own answers count."""

    def __init__(self, gateway):
        super().__init__()
        self.port, self.worst, self.asked, self.over = gateway.admin, 0.0, 0, False
        self.start()

    def run(self):
        while not self.over:
            began = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            connection.request("GET", "/healthz")
            assert connection.getresponse().read() == b"ok\n"
            connection.close()
            self.worst = max(self.worst, time.monotonic() - began)
            self.asked += 1
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.over = True
        self.join()


def long_names(n=100, length=50_000):
    """So many resources with names of that length: a few hundred KB of gzip, 5 MB of labels on each of their series."""
    stack_of = hostile.Dictionary()
    stack = stack_of.stack(hostile.varint(stack_of.kernel_location("vfs_read")))
    profile = hostile.profile_of(stack_of, hostile.sample_of(stack))
    return hostile.message(stack_of, ((hostile.resource_of((b"service.name", b"%05d" % i + b"n" * (length - 5))), [profile])
                                      for i in range(n)))


def test_long_names_cost_neither_memory_nor_the_operator(tmp_path):
    with running(Gateway("--set", "limits.memory=128MiB", "--set", "metrics.attribute_value_length_limit=65536")) as gateway:
        body = gzip.compress(long_names())
        assert gateway.post(body, {"Content-Encoding": "gzip"})[0] == 200
        before = gateway.rss_kib("VmRSS")
        with Health(gateway) as health:
            pages = []

            def scrape():
                connection = http.client.HTTPConnection("127.0.0.1", gateway.admin, timeout=PATIENCE)
                connection.request("GET", "/metrics?collect[]=profiles")
                answer = connection.getresponse()
                size = 0
                while piece := answer.read(1 << 20):
                    size += len(piece)
                pages.append((answer.status, size))

            readers = [threading.Thread(target=scrape) for _ in range(4)]
            for reader in readers:
                reader.start()
            unread = socket.create_connection(("127.0.0.1", gateway.admin))
            unread.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            for reader in readers:
                reader.join()
            unread.close()
        assert any(status == 200 and size > 10_000_000 for status, size in pages), pages
        assert all(status in (200, 503) for status, size in pages)
        # Two cores for the readers, the pool and this: half a second is what the scheduler may take; a page took 43 s.
        assert health.asked > 5 and health.worst < 0.5, (health.asked, health.worst)
        assert gateway.rss_kib() - before < 128 * 1024
