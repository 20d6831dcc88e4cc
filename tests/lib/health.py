"""Who asks /healthz again and again, and how long the gateway itself let him wait: without the time for which either of the two was
ready and had no core. So a machine with eight other things to do says the same as a quiet one."""
import http.client
import pathlib
import threading
import time

from programs import PATIENCE, wait_for

ASKED = 5  # at least, however soon what goes on meanwhile is over


def scheduled(pid, tid):
    """Seconds that a thread has run, and those that it waited for a core."""
    ran, waited, _ = pathlib.Path(f"/proc/{pid}/task/{tid}/schedstat").read_text().split()
    return int(ran) / 1e9, int(waited) / 1e9


class Health(threading.Thread):
    """From __enter__ to __exit__ (or `over`). Whoever reads pages besides does it in a process of its own: in this one he would
    hold up who measures."""

    def __init__(self, gateway):
        super().__init__()
        self.gateway, self.over, self.waited, self.failed = gateway, False, [], None

    def ask(self):
        me = ("self", threading.get_native_id())
        control = (self.gateway.pid, self.gateway.pid)  # the main thread is the control loop's
        ran, ready = scheduled(*me)
        delayed, began = scheduled(*control)[1], time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.admin, timeout=PATIENCE)
        connection.request("GET", "/healthz")
        assert connection.getresponse().read() == b"ok\n"
        connection.close()
        took, delayed = time.monotonic() - began, scheduled(*control)[1] - delayed
        ran_since, ready_since = scheduled(*me)
        self.waited.append(max(0.0, took - delayed - (ran_since - ran) - (ready_since - ready)))

    def run(self):
        try:
            while not self.over:
                self.ask()
                time.sleep(0.01)
        except Exception as why:  # told to who waits for us
            self.failed = why

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *why):
        self.end()

    def end(self):
        wait_for(lambda: len(self.waited) > ASKED or self.failed, "questions enough to judge by")
        self.over = True
        self.join()
        if self.failed:
            raise self.failed

    def check(self):
        """Nine of ten within 50 ms; the tenth may have met a page of memory that had to come first."""
        waited = sorted(self.waited)
        assert waited[len(waited) * 9 // 10] < 0.05 and waited[-1] < 0.5, waited[len(waited) * 9 // 10:]
