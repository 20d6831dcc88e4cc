"""Every BPF program loads and runs on the kernels of test_linux.py: the oldest of them every day, for the first mistake
anybody makes in bpf/ is what the oldest refuses. Twelve seconds of one CPU a kernel.

Prints (pytest -s, or PG_KERNEL_TABLE=FILE) what the verifier made of each program.
"""
import re

import pytest
from programs import ROOT
from test_linux import RELEASES, booted, show, start
from test_profsend_kinds import Kinds

# Programs that a kernel before a release cannot have, which must not keep the rest from loading.
SINCE = {"on_sched_exit": (6, 16), "dump_files": (6, 1)}
COUNTS = (5, 16)  # the kernel says how many instructions its verifier processed
EVERYTHING = ["--off-cpu", "--block-io", "--lock-wait", "--event", "page-faults/16", "--alloc", "libc", "--probe",
              "/bin/pg-truth:want_memory", "--exclude", "executable=nobody", "--trace-map", "/sys/fs/bpf/traces_ctx_v1"]


@pytest.fixture(scope="module", params=[RELEASES[0], *(pytest.param(release, marks=pytest.mark.soak) for release in RELEASES[1:])])
def guest(request, tmp_path_factory):
    with booted(request.param, tmp_path_factory.mktemp("guest")) as machine:
        yield machine


def test_every_program_loads_and_runs(guest):
    """And the verifier is far from its limit of a million instructions."""
    sources = "\n".join(path.read_text() for path in sorted((ROOT / "bpf").glob("*.bpf.[ch]")))
    ours = set(re.findall(r'^SEC\("(?:perf_event|uprobe|tp_btf/|iter/)[^"]*"\)\nint (?:BPF_PROG\()?(\w+)', sources, re.M))
    assert len(ours) >= 12, ours
    guest.check("sysctl -w kernel.bpf_stats_enabled=1")
    guest.check("mkdir -p /sys/fs/bpf; mount -t bpf bpf /sys/fs/bpf")
    before = guest.check("programs")
    with Kinds() as receiver:
        sender = start(guest, receiver, "--frequency 97", *EVERYTHING)
        guest.check("pg-truth spin 1; pg-truth alloc 300; pg-truth touch 512; pg-truth direct 20 /dev/vda")
        listed = guest.check("programs")
        assert sender.stop() == 0, sender.log()
    guest.check("sysctl -w kernel.bpf_stats_enabled=0")
    show(guest, "programs", listed)
    there = {name: int(n) for name, n in re.findall(r"^(\w+) verified=(\d+)", listed, re.M)}
    assert before == "" and set(there) == {name[:15] for name in ours if guest.release >= SINCE.get(name, ())}, \
        sorted(there)  # BPF_OBJ_NAME_LEN
    assert all(0 < n < 100_000 for n in there.values()) or guest.release < COUNTS, there
    idle = [name for name, runs in re.findall(r"^(\w+) .* runs=(\d+)", listed, re.M) if int(runs) == 0]
    assert set(idle) <= {"dump_files", "dump_names", "on_block_insert", "on_block_merge"}, idle  # iterators are not counted; a disk without scheduler
