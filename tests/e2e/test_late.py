"""A thread that stands still keeps back its own counts, and nobody else's."""
import ctypes
import pathlib

import attack_content as hostile
import pytest
from programs import Gateway, captures, running, wait_for

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17  # ptrace(2)


class Stopped:
    """A thread of another process, which does not run until the end of the block (or of this thread)."""

    def __init__(self, tid):
        self.tid, self.libc = tid, ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        self.libc.ptrace.restype = ctypes.c_long

    def __enter__(self):
        if self.libc.ptrace(SEIZE, self.tid, None, None) < 0:
            pytest.skip(f"no thread can be stopped here: ptrace(2): errno {ctypes.get_errno()}")
        assert self.libc.ptrace(INTERRUPT, self.tid, None, None) == 0
        wait_for(lambda: "State:\tt" in pathlib.Path(f"/proc/{self.tid}/status").read_text(), "the thread stopped")

    def __exit__(self, *why):
        self.libc.ptrace(DETACH, self.tid, None, None)


def thread(gateway, name):
    tasks = pathlib.Path(f"/proc/{gateway.pid}/task").iterdir()
    return next((int(task.name) for task in tasks if (task / "comm").read_text().strip() == name), None)


def cpu_time(gateway):
    return gateway.total("profile_cpu_time_seconds_total")


def test_a_thread_that_stands_still_keeps_nobody_elses_counts_back():
    body = captures("ebpf-*.pb")[0].read_bytes()
    with running(Gateway()) as gateway:
        assert gateway.post(body)[0] == 200
        wait_for(lambda: cpu_time(gateway) > 0, "CPU time counted")
        one = cpu_time(gateway)
        assert gateway.post(hostile.build("stacks", 1 << 20))[0] == 200
        lane = wait_for(lambda: thread(gateway, "lane0"), "a lane for the large one")
        with Stopped(lane):
            wait_for(lambda: gateway.total("profgate_counts_age_seconds") > 1.5, "a round that waits for the lane")
            assert gateway.post(body)[0] == 200
            wait_for(lambda: cpu_time(gateway) == pytest.approx(2 * one), "what was acknowledged meanwhile")
        wait_for(lambda: gateway.total("profgate_counts_age_seconds") < 1.5, "the lane's counts, too")
        assert gateway.stop() == 0
