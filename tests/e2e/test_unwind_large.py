"""Stacks of programs nobody made for it: compilers of 100 MB of code, whose rows come as samples ask for them."""
import os
import pathlib
import shutil
import subprocess

import pytest
from profiles import Receiver, started
from programs import BUILD, ROOT, Process, running, wait_for

LOAD = ROOT / "tests/sender/load"
LEAST = 0.985  # of a compiler's stacks, its first included; 99.4 to 99.7 % on a machine with six times its CPUs' work
os.environ["PATH"] += f":{pathlib.Path.home() / '.cargo/bin'}"

COMPILERS = {
    "clang": ["clang++", "-O2", "-DLAYERS=40", "-c", LOAD / "large.cc"],
    "cc1plus": ["g++", "-O2", "-DLAYERS=40", "-c", LOAD / "large.cc"],
    "rustc": ["rustc", "-O", "--emit", "obj", LOAD / "large.rs"],
}


def works(program):
    return bool(shutil.which(program)) and subprocess.run([program, "--version"], capture_output=True).returncode == 0


def user_stacks(receiver):
    """Hits with user frames, whole and all; what is in exec or exit has none."""
    whole = n = 0
    for stack, hits in receiver.stacks.items():
        if any(kind != "kernel" for kind in stack.kinds):
            n += hits
            whole += hits * (stack.incomplete is None)
    return whole, n


@pytest.mark.parametrize("name", COMPILERS)
def test_a_compiler_s_stacks_are_whole_from_the_first_on(name, tmp_path):
    command = COMPILERS[name]
    if not works(command[0]):
        pytest.skip(f"no {command[0]} here")
    with Receiver() as receiver:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", "97",
                          "--interval", "1s", "--include", f"executable={name}", "--include", "executable=clang-14"])
        with running(sender):
            started(sender)
            subprocess.run([*command, "-o", tmp_path / "out.o"], check=True, capture_output=True)
            assert sender.stop() == 0, sender.log()
    assert not receiver.errors, receiver.errors[0]
    whole, n = user_stacks(receiver)
    assert n >= 200, n
    assert whole >= LEAST * n, (whole, n, [(s.incomplete, s.names[-3:], hits) for s, hits in receiver.stacks.items() if s.incomplete])


BECOMES = """
#include <time.h>
#include <unistd.h>
static volatile int n;
__attribute__((noinline)) static void NAME(spin)(double ms)
{
    struct timespec now;
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), n++;
    while (now.tv_sec * 1e3 + now.tv_nsec / 1e6 < ms);
}
__attribute__((noinline)) static void NAME(above)(double ms) { char room[ROOM]; room[n & 63] = 1; NAME(spin)(ms); n += room[5]; }
int main(int count, char **words)
{
    NAME(above)(MS * (1 + atoi(words[2])));
    char next[12];
    sprintf(next, "%d", atoi(words[2]) + 1);
    if (atoi(words[2]) < 100)
        execl(words[1], words[1], words[0], next, (char *)0);
    return 0;
}
"""


def test_a_process_that_becomes_another_program_is_not_taken_for_it(tmp_path):
    """Samples whose walk goes on in user space, some of them behind an execve that made other mappings."""
    for name, room in (("one", 100), ("two", 1000)):
        (tmp_path / f"{name}.c").write_text("#include <stdio.h>\n#include <stdlib.h>\n#define NAME(x) " + name + "_##x\n" + BECOMES)
        subprocess.run(["gcc", "-O2", "-no-pie", "-fomit-frame-pointer", f"-DROOM={room}", "-DMS=3.0", tmp_path / f"{name}.c", "-o",
                        tmp_path / f"pg-{name}"], check=True)
    with Receiver() as receiver:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", "997",
                          "--interval", "1s", "--include", "executable=pg-one", "--include", "executable=pg-two"])
        with running(sender):
            started(sender)
            for _ in range(5):
                subprocess.run([tmp_path / "pg-one", tmp_path / "pg-two", "0"], check=True)
            assert sender.stop() == 0, sender.log()
    mixed = [s for s in receiver.stacks if any(n.startswith("one_") for n in s.names) and any(n.startswith("two_") for n in s.names)]
    whole, n = user_stacks(receiver)
    assert not mixed and n >= 200, (mixed, n)


REPLACED = """
#include <time.h>
static volatile int n;
__attribute__((noinline)) static void NAME(spin)(void) { volatile char room[ROOM]; room[n & 7] = 1; for (int i = 0; i < 300000; i++) n += room[n & 7]; }
__attribute__((noinline)) static void NAME(above)(void) { volatile char room[2 * ROOM]; room[n & 7] = 1; NAME(spin)(); n += room[n & 7]; }
int main(void)
{
    struct timespec now;
    do
        NAME(above)(), clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    while (now.tv_sec < 2);
    return 0;
}
"""


def test_a_program_made_anew_within_a_second_is_not_taken_for_the_one_before(tmp_path):
    """As a build's small programs are: of equal size, where the one before was, and of the same second."""
    names = {}
    for name, room in (("first", 64), ("later", 400)):
        path = tmp_path / f"{name}.c"
        path.write_text(f"#define NAME(x) {name}_##x\n#define ROOM {room}\n" + REPLACED)
        subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", "-Wl,-z,noseparate-code", path, "-o", tmp_path / name], check=True)
        names[name] = (f"{name}_spin", f"{name}_above", "main")
    assert (tmp_path / "first").stat().st_size == (tmp_path / "later").stat().st_size
    program = tmp_path / "pg-anew"
    shutil.copy(tmp_path / "first", program)
    with Receiver() as receiver:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", "397",
                          "--interval", "1s", "--include", "executable=pg-anew"])
        with running(sender):
            started(sender)
            for name, chain in names.items():
                program.write_bytes((tmp_path / name).read_bytes())  # the same inode
                os.utime(program, ns=(0, 1_700_000_000_000_000_000 + len(receiver.begun)))
                process = Process([program])
                with running(process):
                    assert process.wait() == 0

                def spinning():
                    return {stack: n for stack, n in receiver.of(process.pid).items() if stack.names[0] == chain[0]}
                wait_for(lambda: sum(spinning().values()) >= 400, "most of its samples")
                assert sum(n for stack, n in spinning().items() if stack.names[:3] == chain) >= LEAST * sum(spinning().values()), spinning()
            assert sender.stop() == 0, sender.log()
