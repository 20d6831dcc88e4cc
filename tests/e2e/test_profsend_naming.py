"""Names are looked up beside the sampling: however long they take, no sample is lost for it."""
import os
import re
import subprocess
import urllib.request

import pytest
from profiles import started
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
#include <unistd.h>
int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    if (strcmp(path, "/proc/kallsyms") == 0)
        sleep(SECONDS);
    return ((int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open"))(path, flags, mode);
}
"""
SECONDS = 5


@pytest.fixture()
def built(tmp_path):
    """The deep program, and the environment in which names are slow."""
    (tmp_path / "deep.c").write_text(DEEP)
    (tmp_path / "slow.c").write_text(SLOW)
    subprocess.run(["gcc", "-O1", "-fasynchronous-unwind-tables", "deep.c", "-o", "pg-deep"], check=True, cwd=tmp_path)
    subprocess.run(["gcc", "-shared", "-fPIC", f"-DSECONDS={SECONDS}", "slow.c", "-o", "slow.so", "-ldl"], check=True, cwd=tmp_path)
    # in builds with AddressSanitizer its library may come second
    sanitizer = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")))
    return tmp_path / "pg-deep", {**os.environ, "LD_PRELOAD": str(tmp_path / "slow.so"), "ASAN_OPTIONS": sanitizer}


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
            stretched = figure(status, "profsend.windows.stretched")
            took = figure(status, "profsend.naming.time")
            sender.stop()
            last = [line for line in sender.log().splitlines() if "own use:" in line][-1]
        said = {word: int(n) for word, n in re.findall(r"(\w+)=(\d+)", last)}
        assert took >= SECONDS and stretched >= 1, (took, stretched, last)  # it was as slow as it was meant to be
        assert said["lost"] == said["dropped"] == 0, last
        # unsent: what a busy receiver did not take within the farewell
        assert said["sent"] + said["unsent"] == said["samples"] and len(receiver.hits) >= said["sent"], (last, len(receiver.hits))
