"""The wall clock is set, by an hour and by a year, back and forward, while requests come: every sample counts once, and what
receivers are told ascends."""
import collections
import contextlib
import json
import os
import re
import struct
import subprocess
import time
import urllib.request

import sink as base
from programs import PATIENCE, Gateway, captures, running, wait_for

SMALL = min(captures("ebpf-*.pb"), key=lambda p: p.stat().st_size).read_bytes()
HOUR, YEAR = 3600, 365 * 86400

# What the process takes for the wall clock: the machine's, and as many seconds as the file says.
CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static volatile int64_t *set_by;
__attribute__((constructor)) static void open_it(void)
{
    int fd = open(getenv("PG_TEST_CLOCK"), O_RDONLY);
    void *p = mmap(NULL, sizeof *set_by, PROT_READ, MAP_SHARED, fd, 0);
    set_by = p == MAP_FAILED ? NULL : p;
    close(fd);
}
int clock_gettime(clockid_t id, struct timespec *t)
{
    int r = (int)syscall(SYS_clock_gettime, id, t);
    if (r == 0 && id == CLOCK_REALTIME && set_by)
        t->tv_sec += *set_by;
    return r;
}
time_t time(time_t *ret)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (ret)
        *ret = t.tv_sec;
    return t.tv_sec;
}
int gettimeofday(struct timeval *tv, void *zone)
{
    struct timespec t;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    *tv = (struct timeval){t.tv_sec, t.tv_nsec / 1000};
    return 0;
}
"""


class Clock:
    def __init__(self, folder):
        self.path, self.library = folder / "clock", folder / "clock.so"
        (folder / "clock.c").write_text(CLOCK)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", self.library, folder / "clock.c"], check=True)
        self.path.write_bytes(struct.pack("=q", 0))
        self.env = {**os.environ, "LD_PRELOAD": str(self.library), "PG_TEST_CLOCK": str(self.path)}

    def set_by(self, seconds):
        with open(self.path, "r+b") as f:
            f.write(struct.pack("=q", seconds))


class Metrics(base.Sink):
    """Takes OTLP/JSON deltas; their sum, and their windows by series in the order they came."""

    def __init__(self):
        super().__init__()
        self.sum, self.windows = 0, collections.defaultdict(list)

    def take(self, path, headers, body):
        for resource in json.loads(base.plain(headers, body))["resourceMetrics"]:
            for metric in (m for scope in resource["scopeMetrics"] for m in scope["metrics"]):
                for point in metric["sum"]["dataPoints"] if metric["name"] == "samples.native.count" else ():
                    self.sum += int(point.get("asInt", 0))
                    key = json.dumps([resource["resource"], point.get("attributes")])
                    self.windows[key].append((int(point["startTimeUnixNano"]) / 1e9, int(point["timeUnixNano"]) / 1e9))
        return 200, b""


class Scraper:
    """What a Prometheus that knows when each series began adds up of the cumulative page."""

    def __init__(self, gateway):
        self.gateway, self.known = gateway, {}

    def look(self):
        request = urllib.request.Request(f"http://127.0.0.1:{self.gateway.admin}/metrics",
                                         headers={"Accept": "application/openmetrics-text; version=1.0.0"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            page = answer.read().decode()
        found = {kind: dict(re.findall(rf"^samples_native_count_{kind}(\{{[^}}]*\}}) ([^ \n]+)", page, re.M)) for kind in ("total", "created")}
        for labels, value in found["total"].items():
            key = labels, found["created"][labels]
            assert int(value) >= self.known.get(key, 0), "a series of one beginning fell"
            self.known[key] = int(value)
        return sum(self.known.values())


def test_a_clock_that_is_set_loses_and_doubles_nothing(tmp_path):
    clock = Clock(tmp_path)
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(Metrics())
        config = f"""
metrics: {{ flush_interval: 100ms, temporality: delta, prometheus_created: true, exporters: [otlp/metrics, prometheus] }}
exporters:
  otlp/metrics: {{ endpoint: 'http://127.0.0.1:{sink.port}', protocol: http, encoding: json }}
"""
        gateway = stack.enter_context(running(Gateway(config=config, env=clock.env)))
        scraper = Scraper(gateway)
        assert gateway.post(SMALL)[0] == 200
        wait_for(lambda: scraper.look() > 0, "the first request counted")
        each, sent = scraper.look(), 1
        for by in (HOUR, 0, -HOUR, 0, YEAR, 0, -YEAR, 0):
            for _ in range(3):
                assert gateway.post(SMALL)[0] == 200
            seen = {key: len(windows) for key, windows in sink.windows.items()}
            clock.set_by(by)  # what was just sent is not looked at yet
            for _ in range(3):
                assert gateway.post(SMALL)[0] == 200
            sent += 6
            wait_for(lambda: sink.sum == sent * each, f"{by}: {sent * each} by OTLP")
            wait_for(lambda: scraper.look() == sent * each, f"{by}: {sent * each} by scrape")
            assert gateway.post(SMALL)[0] == 200  # a window of the new time only
            sent += 1
            wait_for(lambda: sink.sum == sent * each, f"{by}: the next window by OTLP")
            assert any(abs(windows[-1][1] - time.time() - by) < HOUR / 2 for windows in sink.windows.values()), "the clock's time"
            for key, windows in sink.windows.items():
                new = windows[seen.get(key, 0):]
                assert all(start < end for start, end in new)
                # in one time, or from the one before into it: never twice the same
                assert all(b[0] >= a[1] or b[0] < a[1] - 60 for a, b in zip(windows, windows[1:]))
        assert gateway.total("profgate_export_points_dropped_total") == 0
        assert gateway.stop() == 0
