"""Programs that any local user may run against profsend: they cost others nothing, and say nothing in others' names."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest
from programs import BUILD, Process, running, wait_for
from test_profsend_kinds import Kinds, truth  # noqa: F401 (truth is a fixture)
from test_profsend_processes import encoded

NOBODY = 65534
# Says by its process context that its threads publish theirs, in a file of which a search would never end: the chain of symbols
# leads nowhere, each is looked for in a thousand segments, and what is not written are holes.
ENDLESS = f"""
import ctypes, mmap, os, struct, sys
encoded = lambda number, payload: bytes([number << 3 | 2, len(payload)]) + payload
at = {{"tls": 0, "dynamic": 1, "load": 1023}}
header = b"\\x7fELF\\x02\\x01\\x01" + bytes(9) + struct.pack("=HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 1024, 0, 0, 0)
def segment(kind, flags, offset, address, in_file, memory):
    return struct.pack("=IIQQQQQQ", kind, flags, offset, address, address, in_file, memory, 4096)
program = segment(7, 4, 0, 0, 0, 64) + segment(2, 4, 0x80000, 0x80000, 160, 160)
program += segment(4, 4, 0, 0, 65536, 65536) * 61 + segment(1, 5, 0, 0, 1 << 40, 1 << 40) + segment(4, 4, 0, 0, 65536, 65536) * 960
dynamic = b"".join(struct.pack("=QQ", *d) for d in ((6, 0x100000), (5, 0x90000), (10, 64), (4, 0xa0000), (0, 0)))
with open(sys.argv[1], "w+b") as f:
    f.truncate(1 << 40)
    for offset, data in ((0, header), (64, program), (0x80000, dynamic), (0xa0000, struct.pack("=IIII", 1, 1 << 20, 1, 0) + struct.pack("=I", 1))):
        f.seek(offset)
        f.write(data)
    f.flush()
    library = mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
entry = encoded(1, b"threadlocal.schema_version") + encoded(2, encoded(1, b"tls_v1"))
payload = encoded(2, entry)
fd = os.memfd_create("OTEL_CTX")
os.ftruncate(fd, 4096)
m = mmap.mmap(fd, 4096, mmap.MAP_PRIVATE)
where = ctypes.addressof(ctypes.c_char.from_buffer(m))
m[64:64 + len(payload)] = payload
m[0:32] = b"OTEL_CTX" + struct.pack("=IIQQ", 2, len(payload), 1, where + 64)
print("at work", flush=True)
while True: pass
"""


def as_nobody(*command):
    if os.getuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("another user's programs are run by root, with setpriv")
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]


@pytest.fixture()
def everybodys():
    """A folder that every user may write to."""
    with tempfile.TemporaryDirectory(prefix="pg-hostile-") as folder:
        os.chmod(folder, 0o1777)
        yield pathlib.Path(folder)


def profsend(receiver, *arguments):
    return Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "1s",
                    "--frequency", "97", *arguments])


def at_work(sender):
    wait_for(lambda: "sampling" in sender.log() or not sender.alive(), "profsend at work")
    if not sender.alive() and sender.wait() == 3:
        pytest.skip(f"profiling is not permitted here: {sender.log().strip()[-200:]}")


def test_a_file_without_end_stalls_nobody(truth, everybodys):
    with Kinds() as receiver:
        hostile = Process(as_nobody(sys.executable, "-c", ENDLESS, everybodys / "endless"))
        sender = profsend(receiver)
        with running(sender, hostile):
            at_work(sender)
            wait_for(lambda: receiver.of(hostile.pid, "samples/count"), "samples of who is hostile")
            others = Process([truth, "spin", "2"])
            with running(others):
                wait_for(lambda: receiver.of(others.pid, "samples/count"), "samples of another's program")
            assert sender.stop() == 0, sender.log()


FORGED = """
volatile unsigned sink;
__attribute__((noinline)) void NAME(void) { for (unsigned i = 0; i < 100000000; i++) sink += i; }
int main(void) { for (;;) NAME(); }
"""


def test_a_copied_build_id_lends_no_names(everybodys):
    """Whoever copies root's program into his own, with other names in it, does not choose what root's is said to do."""
    for name in ("honest", "forged"):
        (everybodys / f"{name}.c").write_text(FORGED.replace("NAME", name))
        subprocess.run(["gcc", "-O1", "-Wl,--build-id=0x00112233445566778899aabbccddeeff00112233", f"{name}.c", "-o", f"pg-{name}"],
                       check=True, cwd=everybodys)
    with Kinds() as receiver:
        sender = profsend(receiver)
        forged = Process(as_nobody(everybodys / "pg-forged"))
        with running(sender, forged):
            at_work(sender)
            names = lambda pid: {name for hit in receiver.of(pid, "samples/count") for name in hit.names}
            wait_for(lambda: "forged" in names(forged.pid), "names of who is hostile")
            honest = Process([everybodys / "pg-honest"])
            with running(honest):
                wait_for(lambda: {"honest", "forged"} & names(honest.pid), "names of root's program")
                assert "forged" not in names(honest.pid)
