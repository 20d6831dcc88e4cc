"""Names are looked up beside the sampling: however long they take, no sample is lost for it."""
import os
import re
import signal
import subprocess
import urllib.request

import pytest
from profiles import Receiver as Stacks, cpu_seconds, started
from programs import BUILD, Process, free_port, running, wait_for
from test_profsend_kinds import Kinds

# Stacks of 4 KB each fill the ring, half a megabyte, within a second.
DEEP = """
static volatile unsigned sink;
__attribute__((noinline, noclone)) unsigned deep(unsigned n)
{
    if (n == 0)
        for (;;)
            sink++;
    unsigned r = deep(n - 1);
    __asm__ volatile("" : "+r"(r));
    return r + 1;
}
int main(void)
{
    return (int)deep(470);
}
"""
# Loaded into profsend: the kernel's symbols, which the first names ask for, take as long as those of a disk that is away.
SLOW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static double cpu(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
static inline void work(double seconds)
{
    for (double end = cpu() + seconds; cpu() < end;)
        ;
}
int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    if (strcmp(path, "/proc/kallsyms") == 0)
        TAKES;
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"))(path, flags, mode);
}
long syscall(long number, ...)
{
    va_list rest;
    long argument[6], result;
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        argument[i] = va_arg(rest, long);
    va_end(rest);
    result = ((long (*)(long, ...))dlsym(RTLD_NEXT, "syscall"))(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
    if (number == SYS_close_range)
        sleep(1); /* it closes hundreds */
    return result;
}
"""
SECONDS = 5


@pytest.fixture()
def built(tmp_path):
    """The deep program, and the environment in which names are slow."""
    (tmp_path / "deep.c").write_text(DEEP)
    subprocess.run(["gcc", "-O1", "-fasynchronous-unwind-tables", "deep.c", "-o", "pg-deep"], check=True, cwd=tmp_path)
    return tmp_path / "pg-deep", slowed(tmp_path, f"sleep({SECONDS})")


def slowed(folder, takes):
    """The environment in which the kernel's names take what C says."""
    (folder / "slow.c").write_text(SLOW)
    subprocess.run(["gcc", "-shared", "-fPIC", f"-DTAKES={takes}", "slow.c", "-o", "slow.so", "-ldl"], check=True, cwd=folder)
    # in builds with AddressSanitizer its library may come second
    sanitizer = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")))
    return {**os.environ, "LD_PRELOAD": str(folder / "slow.so"), "ASAN_OPTIONS": sanitizer}


def figure(port, name):
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=30).read().decode()
    return float(re.search(rf"^{re.escape(name)}\s+(\S+)", page, re.MULTILINE).group(1))


def test_names_that_take_seconds_cost_no_sample(built):
    deep, environment = built
    status = free_port()
    with Kinds() as receiver:
        busy = [Process([deep]) for _ in range(2 * os.cpu_count())]
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "1s",
                          "--frequency", "97", "--status", f"127.0.0.1:{status}"], env=environment)
        with running(sender, *busy):
            started(sender)
            wait_for(lambda: all(receiver.of(process.pid, "samples/count") for process in busy), "samples of all of them")
            # The first report may be of nothing but how they began, which has names at once.
            wait_for(lambda: figure(status, "profsend.naming.time") >= SECONDS, "names that take as long as they were meant to")
            stretched = figure(status, "profsend.windows.stretched")
            sender.stop()
            last = [line for line in sender.log().splitlines() if "own use:" in line][-1]
        said = {word: int(n) for word, n in re.findall(r"(\w+)=(\d+)", last)}
        assert stretched >= 1, (stretched, last)
        assert said["lost"] == said["dropped"] == 0, last
        # unsent: what a busy receiver did not take within the farewell
        assert said["sent"] + said["unsent"] == said["samples"] and len(receiver.hits) >= said["sent"], (last, len(receiver.hits))


@pytest.mark.parametrize("takes, is_waited_for", [("for (int i = 0; i < 13; i++) { work(.05); sleep(1); }", True), ("sleep(13)", False),
                         ("{ int fd[2]; if (pipe(fd) == 0) (void)!read(fd[0], fd, 1); }", False)],
                         ids=["a CPU", "a disk that is away", "a disk that is there again when all is closed"])
def test_at_the_end_names_that_use_a_cpu_are_waited_for(tmp_path, takes, is_waited_for):
    """A little, as on a machine with more to do than CPUs: what was sampled is sent. For others 10 s are enough."""
    with Kinds() as receiver:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--duration", "1s"],
                         env=slowed(tmp_path, takes))
        with running(sender, Process(["dd", "if=/dev/zero", "of=/dev/null", "bs=64k"])):
            code, log = sender.wait(90), sender.log()
    last = [line for line in log.splitlines() if "own use:" in line][-1]
    said = {word: int(n) for word, n in re.findall(r"(\w+)=(\d+)", last)}
    assert ("names took longer than" in log) != is_waited_for, log
    assert (code == 0 and said["sent"] == said["samples"] > 0) if is_waited_for else (code == 1 and said["dropped"] > 0), last


# With each signal it begins, some time later, to call another function that nobody has seen.
MORE = """
#include <signal.h>
static volatile int asked = 1;
static volatile unsigned sink;
static void on(int signal) { asked++; }
#define F(n) __attribute__((noinline)) void f##n(void) { for (int i = 0; i < 50000 + n; i++) sink++; }
F(1) F(2) F(3) F(4) F(5) F(6) F(7)
static void (*const f[])(void) = { f1, f2, f3, f4, f5, f6, f7 };
int main(void)
{
    signal(SIGUSR1, on);
    for (int called = 1;; called += called < asked && called < 7) {
        for (int i = 0; i < 1000; i++)
            f[i % called]();
    }
}
"""


def test_a_file_whose_inode_changes_keeps_its_names(tmp_path):
    """As package managers (a link to it before it is replaced), chmod and backups by links do."""
    (tmp_path / "more.c").write_text(MORE)
    subprocess.run(["gcc", "-O1", "more.c", "-o", "pg-more"], check=True, cwd=tmp_path)
    busy = Process([tmp_path / "pg-more"])
    with Stacks() as receiver, running(busy):
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "1s",
                          "--frequency", "97", "--pid", busy.pid])
        with running(sender):
            started(sender)
            for n in range(1, 8):
                wait_for(lambda n=n: any(f"f{n}" in stack.names for stack in dict(receiver.stacks)), f"the name of function {n}")
                (tmp_path / "pg-more").chmod((0o700, 0o755)[n % 2])
                os.kill(busy.pid, signal.SIGUSR1)
            assert sender.stop() == 0, sender.log()
    unnamed = {stack.names: n for stack, n in receiver.stacks.items() if any(name.startswith("0x") for name in stack.names)}
    assert not unnamed, unnamed


def test_what_is_written_over_is_not_called_by_what_came_after(tmp_path):
    """One inode, another program each time, all in one window: a name is the right one, or there is none."""
    texts = {}
    for i in range(4):
        (tmp_path / "p.c").write_text(f"static volatile unsigned s; __attribute__((noinline)) void work_{i}(void) "
                                      f"{{ for (int i = 0; i < 1000000; i++) s++; }} int main(void) {{ for (;;) work_{i}(); }}")
        subprocess.run(["gcc", "-O1", "p.c", "-o", f"p{i}"], check=True, cwd=tmp_path)
        texts[i] = (tmp_path / f"p{i}").read_bytes()
    program, pids = tmp_path / "pg-over", {}
    with Stacks() as receiver:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "30s",
                          "--frequency", "199", "--include", "executable=pg-over"])
        with running(sender):
            started(sender)
            for i, text in texts.items():
                program.write_bytes(text)
                program.chmod(0o755)
                busy = Process([program])
                with running(busy):
                    pids[busy.pid] = i
                    wait_for(lambda: cpu_seconds(busy.pid) > 0.5, "its CPU time")
            assert sender.stop() == 0, sender.log()
    said = {pid: {name for stack in receiver.of(pid) for name in stack.names if name.startswith("work_")} for pid in pids}
    assert all(names <= {f"work_{pids[pid]}"} for pid, names in said.items()), (said, pids)
    assert said[max(pids, key=pids.get)], "the last one is there to be read"
