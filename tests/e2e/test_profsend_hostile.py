"""Programs that any local user may run against profsend: they cost others nothing, and say nothing in others' names."""
import contextlib
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from profiles import started
from programs import BUILD, Process, running, wait_for
from test_profsend_kinds import SIGMAS, Kinds, profiled, truth  # noqa: F401 (truth is a fixture)

NOBODY = 65534
# A file system that shows a folder, by Debian's python3-fusepy. While there is a file `keep` in it, it keeps what it is asked to read.
SHOWS = """
import os, sys, time
sys.path.insert(0, "/usr/lib/python3/dist-packages")
import fusepy
class Shows(fusepy.Operations):
    def getattr(self, path, fh=None):
        st = os.lstat(sys.argv[1] + path)
        return {k: getattr(st, k) for k in dir(st) if k in ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")}
    def open(self, path, flags): return os.open(sys.argv[1] + path, os.O_RDONLY)
    def read(self, path, n, offset, fh):
        while os.path.exists(sys.argv[1] + "/keep"):
            print("kept", flush=True)
            time.sleep(0.1)
        return os.pread(fh, n, offset)
fusepy.FUSE(Shows(), sys.argv[2], foreground=True, nothreads=True, allow_other=True)
"""
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


@contextlib.contextmanager
def shown(folder):
    """A file system on folder/mount that shows folder/source: its server, who goes on at the end if it was stopped."""
    if not pathlib.Path("/usr/lib/python3/dist-packages/fusepy.py").exists() or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("no FUSE here (apt-get install fuse3 python3-fusepy)")
    for name in ("source", "mount"):
        (folder / name).mkdir()
    server = Process(["/usr/bin/python3", "-c", SHOWS, folder / "source", folder / "mount"])
    with running(server):
        try:
            wait_for(lambda: os.path.ismount(folder / "mount") or not server.alive(), "a mount")
            if not server.alive():
                pytest.skip(f"nothing can be mounted here: {server.log()[-200:]}")
            yield server
        finally:
            server.process.send_signal(signal.SIGCONT)
            subprocess.run(["umount", "-l", folder / "mount"], capture_output=True)


def profsend(receiver, *arguments):
    return Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "1s",
                    "--frequency", "97", *arguments])


def test_a_file_without_end_stalls_nobody(truth, everybodys):
    with Kinds() as receiver:
        hostile = Process(as_nobody(sys.executable, "-c", ENDLESS, everybodys / "endless"))
        sender = profsend(receiver)
        with running(sender, hostile):
            started(sender)
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
            started(sender)
            names = lambda pid: {name for hit in receiver.of(pid, "samples/count") for name in hit.names}
            wait_for(lambda: "forged" in names(forged.pid), "names of who is hostile")
            honest = Process([everybodys / "pg-honest"])
            with running(honest):
                wait_for(lambda: {"honest", "forged"} & names(honest.pid), "names of root's program")
                assert "forged" not in names(honest.pid)


@pytest.mark.parametrize("when", ["stopped before profsend", "keeps what it is asked while it samples"])
def test_a_file_system_that_does_not_answer_keeps_nobody_waiting(truth, everybodys, when):
    """A program runs from it, and then it falls silent: what asks there waits for ever, and, if it took the question, with SIGKILL."""
    named = lambda of: any("spinning" in hit.names for hit in receiver.of(of.pid, "samples/count"))

    def begin(name):
        """A program of the server's that has all that it runs: what it had yet to read it would wait for, and not be sampled."""
        shutil.copy(truth, everybodys / "source" / name)
        (everybodys / "source" / name).chmod(0o755)
        program = Process(as_nobody(everybodys / "mount" / name, "spin", "600"))
        about = pathlib.Path(f"/proc/{program.pid}")
        wait_for(lambda: (about / "comm").read_text() == f"{name}\n" and int((about / "schedstat").read_text().split()[0]) > 2e8,
                 "a program of the server's at work")
        return program

    with Kinds() as receiver, shown(everybodys) as server:
        silent, new = begin("pg-silent"), begin("pg-new")
        new.process.send_signal(signal.SIGSTOP)  # so it is not met before it is told to go on
        sender = profsend(receiver)
        with running(sender, silent, new):
            try:
                if when == "stopped before profsend":
                    server.process.send_signal(signal.SIGSTOP)
                    started(sender)
                    wait_for(lambda: receiver.of(silent.pid, "samples/count"), "samples of who is on it")
                else:
                    started(sender)
                    wait_for(lambda: named(silent), "names of who is on it")
                    (everybodys / "source/keep").touch()
                    new.process.send_signal(signal.SIGCONT)
                    wait_for(lambda: "kept" in server.log(), "a question that is kept")
                others = Process([truth, "spin", "600"])
                with running(others):
                    wait_for(lambda: named(others), "others' names")
                assert sender.stop() == 0, sender.log()
            finally:
                (everybodys / "source/keep").unlink(missing_ok=True)  # until then it does not end if it waits


# When it is told to, a child of its own asks for a page of its memory that a file system keeps back, which holds the lock over its
# mappings; another thread waits to change them, and whoever else asks for them, its memory or its environment waits behind that.
KEEPER = """
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>
static void *page;
static volatile unsigned sink;
static void *hold(void *of) { char byte; return (void *)(intptr_t)pread(open("/proc/self/mem", O_RDONLY), &byte, 1, (off_t)page); }
static void *change(void *of) { usleep(200000); return mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void told(int number) {}
int main(int argc, char **argv)
{
    pthread_t thread;
    page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open(argv[1], O_RDONLY), 0);
    signal(SIGUSR1, told);
    write(1, "mapped", 6);
    pause();
    if (fork() > 0)
        for (;;)
            pause();
    pthread_create(&thread, NULL, change, NULL);
    pthread_create(&thread, NULL, hold, NULL);
    usleep(500000);
    write(1, "held", 4);
    for (;;)
        sink++;
}
"""


@pytest.mark.parametrize("when", ["before profsend", "while it samples"])
def test_a_process_that_cannot_be_looked_into_keeps_nobody_waiting(truth, everybodys, when):
    with Kinds() as receiver, shown(everybodys) as server:
        (everybodys / "source/page").write_bytes(bytes(4096))
        (everybodys / "keeper.c").write_text(KEEPER)
        subprocess.run(["gcc", "-O1", "keeper.c", "-o", "pg-keeper", "-lpthread"], check=True, cwd=everybodys)
        keeper = Process(as_nobody(everybodys / "pg-keeper", everybodys / "mount/page"), start_new_session=True)
        with running(keeper):
            try:
                wait_for(lambda: "mapped" in keeper.log(), "a page of the server's")
                sender = None if when == "before profsend" else profsend(receiver)
                if sender:
                    started(sender)
                server.process.send_signal(signal.SIGSTOP)
                keeper.process.send_signal(signal.SIGUSR1)
                wait_for(lambda: "held" in keeper.log(), "a lock that is held")
                sender = sender or profsend(receiver)
                with running(sender):
                    started(sender)
                    others = Process([truth, "spin", "600"])
                    with running(others):
                        wait_for(lambda: any("spinning" in hit.names for hit in receiver.of(others.pid, "samples/count")), "others' names")
                    assert sender.stop() == 0, sender.log()
            finally:
                server.process.send_signal(signal.SIGCONT)  # until then nothing ends who waits
                os.killpg(keeper.pid, signal.SIGKILL)


# Says by its process context that what it publishes is in a page that a file system keeps back.
PUBLISHER = """
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static volatile unsigned sink;
int main(int argc, char **argv)
{
    struct { char signature[8]; uint32_t version, size; uint64_t published, payload; } head = {"OTEL_CTX", 2, 100, 1, 0};
    int fd = memfd_create("OTEL_CTX", 0);
    head.payload = (uintptr_t)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open(argv[1], O_RDONLY), 0);
    ftruncate(fd, 4096);
    memcpy(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0), &head, sizeof head);
    write(1, "published", 9);
    for (;;)
        sink++;
}
"""


def test_memory_that_never_comes_does_not_keep_profsend_from_ending(truth, everybodys):
    """Who has asked for it is not ended by SIGKILL, either: it is not profsend itself."""
    with Kinds() as receiver, shown(everybodys) as server:
        (everybodys / "source/page").write_bytes(bytes(4096))
        (everybodys / "publisher.c").write_text(PUBLISHER)
        subprocess.run(["gcc", "-D_GNU_SOURCE", "-O1", "publisher.c", "-o", "pg-publisher"], check=True, cwd=everybodys)
        publisher = Process(as_nobody(everybodys / "pg-publisher", everybodys / "mount/page"))
        with running(publisher):
            wait_for(lambda: "published" in publisher.log(), "a context")
            (everybodys / "source/keep").touch()
            sender = profsend(receiver)
            with running(sender):
                try:
                    started(sender)
                    wait_for(lambda: "kept" in server.log(), "a look at what is published")
                    others = Process([truth, "spin", "600"])
                    with running(others):
                        wait_for(lambda: any("spinning" in hit.names for hit in receiver.of(others.pid, "samples/count")), "others' names")
                    assert sender.stop() == 0, sender.log()
                finally:
                    (everybodys / "source/keep").unlink()  # until then it does not end if it waits


def test_a_perf_map_of_another_user_names_nothing(everybodys):
    """/tmp is everybody's: whoever guesses a pid would choose what another's generated code is called."""
    code = ("import ctypes, mmap, os\n"
            "m = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
            "m[0:2] = b'\\xeb\\xfe'\n"  # jumps to itself
            "at = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
            "print(f'at={at:x}', flush=True)\n"
            "ctypes.CFUNCTYPE(None)(at)()\n")
    with Kinds() as receiver:
        victim = Process([sys.executable, "-c", code])
        sender = profsend(receiver)
        path = pathlib.Path(f"/tmp/perf-{victim.pid}.map")
        with running(sender, victim):
            path.unlink(missing_ok=True)  # of a process before it
            try:
                at = int(wait_for(lambda: re.search(r"at=(\w+)", victim.log()), "generated code").group(1), 16)
                subprocess.run(as_nobody("sh", "-c", f"echo '{at:x} 1000 forged' >{path}"), check=True)
                started(sender)
                names = lambda: {name for hit in receiver.of(victim.pid, "samples/count") for name in hit.names[:1]}
                wait_for(names, "samples of the generated code")
                assert "forged" not in names()
                path.unlink()
                path.write_text(f"{at:x} 1000 honest\n")
                wait_for(lambda: "honest" in names(), "what its own user says")
                assert "forged" not in names()
            finally:
                path.unlink(missing_ok=True)


# So many threads that nap, or wait for a lock that nobody gives back, for so many seconds; says how often and how long by its own clock.
NAPPERS = """
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static double seconds;
static int for_lock, word;
static long depth;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
struct said { double waited; long naps; };
static __attribute__((noinline)) void *nap_at(long deep, struct said *said)
{
    const struct timespec time = {0, 50000000};
    if (deep > 0) {
        nap_at(deep - 1, said);
        __asm__ volatile("");
        return NULL;
    }
    for (double end = now() + seconds; now() < end; said->naps++) {
        double begun = now();
        if (for_lock)
            syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0);
        else
            nanosleep(&time, NULL);
        said->waited += now() - begun;
    }
    return NULL;
}
static void *nap(void *of) { return nap_at(depth, of); }
int main(int argc, char **argv)
{
    long n = atol(argv[1]), made = 0, naps = 0;
    double waited = 0;
    seconds = atof(argv[2]);
    for_lock = argv[3][0] == 'l';
    depth = atol(argv[4]);
    pthread_t *thread = calloc(n, sizeof *thread);
    struct said *said = calloc(n, sizeof *said);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384 + 64 * depth);
    while (made < n && pthread_create(&thread[made], &small, nap, &said[made]) == 0)
        made++;
    for (long i = 0; i < made; i++) {
        pthread_join(thread[i], NULL);
        waited += said[i].waited;
        naps += said[i].naps;
    }
    printf("waited=%.6f naps=%ld threads=%ld\\n", waited, naps, made);
}
"""


@pytest.mark.parametrize("kind, how", [("off_cpu", ["--off-cpu", "--off-cpu-min", "0ms"]), ("off_cpu", ["--off-cpu", "--off-cpu-min", "0ms",
                         "--off-cpu-at-leave"]), ("lock", ["--lock-wait"])], ids=["at return", "at leave", "for a lock"])
def test_thousands_of_threads_that_wait_lose_nobody_s_samples(truth, everybodys, kind, how):
    """Each nap is longer than the clock's period, so each would be taken: of a CPU's a thousand a second are, and they add up."""
    (everybodys / "nappers.c").write_text(NAPPERS)
    subprocess.run(["gcc", "-O2", "nappers.c", "-o", "pg-nappers", "-lpthread"], check=True, cwd=everybodys)
    cpus = os.cpu_count()
    with Kinds() as receiver:
        begun = time.monotonic()
        (pid, said), = profiled(receiver, ["--no-cpu", "--frequency", "97", "--include", "executable=pg-nappers", *how],
                                as_nobody(everybodys / "pg-nappers", 1500 * cpus, 2, kind, 0))
        took = time.monotonic() - begun
        hits = [hit.value for hit in receiver.of(pid, f"{kind}/nanoseconds")]
        # 128 in 128 ms and CPU; what it takes to find the rate: 128 for each time that the period is doubled
        assert len(hits) < cpus * (2 * 1000 * took + 4 * 12 * 128), (len(hits), took, said)
        assert said["naps"] > 20 * said["threads"], said
        # each stands for what it weighs; preemption between two looks at the clock is in one and not in the other
        far = SIGMAS * math.sqrt(sum(v * v for v in hits)) / 1e9 + 0.05 * said["waited"]
        assert sum(hits) / 1e9 == pytest.approx(said["waited"], abs=far), (sum(hits) / 1e9, far, len(hits), said)


@pytest.mark.parametrize("how", [["--off-cpu", "--off-cpu-min", "0ms"], ["--off-cpu", "--off-cpu-min", "0ms", "--off-cpu-at-leave"],
                         ["--lock-wait"]], ids=["at return", "at leave", "for a lock"])
def test_deep_stacks_of_thousands_of_threads_that_wait_lose_nobody_s_samples(everybodys, how):
    """A stack of 450 frames is as many bytes as of ten shallow ones, in the ring and in what is kept: fewer are taken, and they add up."""
    (everybodys / "nappers.c").write_text(NAPPERS)
    subprocess.run(["gcc", "-O1", "-fno-optimize-sibling-calls", "nappers.c", "-o", "pg-nappers", "-lpthread"], check=True, cwd=everybodys)
    cpus, kind = os.cpu_count(), "lock" if how == ["--lock-wait"] else "off_cpu"
    with Kinds() as receiver:
        begun = time.monotonic()
        (pid, said), = profiled(receiver, ["--no-cpu", "--frequency", "97", "--include", "executable=pg-nappers", *how],
                                as_nobody(everybodys / "pg-nappers", 500 * cpus, 4, kind, 450))
        took = time.monotonic() - begun
        hits = receiver.of(pid, f"{kind}/nanoseconds")
        deep = [hit for hit in hits if len(hit.names) >= 450]
        assert len(deep) > len(hits) / 2, (len(deep), len(hits))
        assert len(hits) < cpus * (1.5 * 125 * took + 4 * 12 * 16), (len(hits), took, said)  # eight times fewer than shallow ones
        far = SIGMAS * math.sqrt(sum(hit.value ** 2 for hit in hits)) / 1e9 + 0.05 * said["waited"]
        assert sum(hit.value for hit in hits) / 1e9 == pytest.approx(said["waited"], abs=far), (far, len(hits), said)


def test_a_receiver_that_answers_without_end_is_not_listened_to():
    """In pieces of a byte each, so that what may come of an answer is many times as much to read."""
    taken = []

    def answer(connection):
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            taken.append(0)
            mine = len(taken) - 1
            while True:
                taken[mine] += connection.send(b"1\r\nx\r\n" * 1000)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=answer, args=[listener.accept()[0]], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        sender = Process([BUILD / "profsend", "--endpoint", f"http://127.0.0.1:{listener.getsockname()[1]}", "--protocol",
                          "http/protobuf", "--interval", "1s"])
        with running(sender):
            started(sender)
            wait_for(lambda: len(taken) > 2, "three answers")
            sender.stop()
    assert max(taken) < 12 << 20, taken  # 1.5 MB of them are read, and what waits in the sockets


class ByProgram(Kinds):
    """Counts hits by pid and program, too: a pid may be another's soon."""

    def __init__(self):
        super().__init__()
        self.programs = {}

    def _add(self, request):
        for resource in request.resource_profiles:
            about = {a.key: a.value for a in resource.resource.attributes}
            key = about["process.pid"].int_value, about["process.executable.name"].string_value
            hits = sum(len(s.timestamps_unix_nano) for scope in resource.scope_profiles for p in scope.profiles for s in p.samples)
            self.programs[key] = self.programs.get(key, 0) + hits
        super()._add(request)


# Runs the first program, then the second with its very pid (kernel.ns_last_pid), and says which that was.
REUSE = """
import os, sys
first, second = sys.argv[1:]
for attempt in range(2000):
    pid = os.posix_spawn(first, [first, "spin", "0.3"], os.environ)
    os.waitpid(pid, 0)
    with open("/proc/sys/kernel/ns_last_pid", "w") as last:
        last.write(str(pid - 1))
    again = os.posix_spawn(second, [second, "spin", "0.3"], os.environ)
    os.waitpid(again, 0)
    if again == pid:
        os.write(1, b"pid=%d\\n" % pid)
        break
    if attempt == 40:
        sys.exit("others were always faster")
"""


def test_a_pid_that_is_another_s_at_once_is_not_mistaken(truth, tmp_path):
    try:
        pathlib.Path("/proc/sys/kernel/ns_last_pid").write_text("1000")
    except OSError:
        pytest.skip("no pid can be chosen here")
    first, second = (shutil.copy(truth, tmp_path / f"pg-{name}") for name in ("first", "second"))
    with ByProgram() as receiver:
        (_, said), = profiled(receiver, ["--frequency", "397", "--interval", "5s", "--include", "executable=pg-first", "--include",
                                         "executable=pg-second"], [sys.executable, "-c", REUSE, first, second])
        hits = [receiver.programs.get((int(said["pid"]), f"pg-{name}"), 0) for name in ("first", "second")]
        for n in hits:
            assert n == pytest.approx(0.3 * 397, abs=SIGMAS * math.sqrt(0.3 * 397)), receiver.programs


def test_what_programs_are_called_does_not_reach_a_terminal_as_it_is():
    """A thread's name is any fifteen bytes; a person reads --print as root."""
    program = ("import ctypes, time\n"
               "ctypes.CDLL(None).prctl(15, b'\\x1b[2J\\xc2\\x9b\\xff\\xe2\\x80\\xaepg')\n"
               "end = time.monotonic() + 60\n"
               "while time.monotonic() < end: pass\n")
    process = Process([sys.executable, "-c", program])
    with running(process):
        wait_for(lambda: b"\x1b" in pathlib.Path(f"/proc/{process.pid}/comm").read_bytes(), "its name")
        done = subprocess.run([BUILD / "profsend", "--print", "--duration", "1s", "--pid", str(process.pid)], capture_output=True)
    if done.returncode == 3:
        pytest.skip(f"profiling is not permitted here: {done.stderr[-200:]}")
    text = done.stdout.decode()  # all of it is UTF-8
    assert "?[2J??pg" in text.replace("???", "??"), text
    assert not [c for c in text if c != "\n" and not c.isprintable()], text
