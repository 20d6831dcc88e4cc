"""Which processes profsend sees, and what it says of them."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from profiles import started
from programs import BUILD, Process, folder_for_all, running, wait_for
from test_profsend_kinds import RAW, Kinds, profiled, truth  # noqa: F401 (truth is a fixture)


def encoded(number, payload):
    return bytes([number << 3 | 2, len(payload)]) + payload


def test_processes_of_20_ms_appear_by_name(truth):
    """Each spins for 20 ms and is gone: those that were sampled at all have their names and stacks."""
    script = f"for i in $(seq 60); do {truth} spin 0.02 >/dev/null; done; echo done=1"
    with Kinds() as receiver:
        profiled(receiver, ["--frequency", "397", "--include", "executable=pg-truth"], ["sh", "-c", script])
        short = {hit.pid for hit in receiver.hits if any(n in ("first", "second", "burn") for n in hit.names)}
        named = [receiver.resources[pid].get("process.executable.name") for pid in short]
        assert len(short) >= 40, len(short)  # 8 samples expected of each
        assert set(named) == {"pg-truth"}, set(named)
        everyone = [about for about in receiver.resources.values() if about.get("process.executable.name") == "pg-truth"]
        assert len(everyone) >= 55, len(everyone)


def test_a_program_begun_by_a_link_has_one_name(truth, tmp_path):
    """Those of 20 ms have mostly ended before /proc is asked, where the last one's name is from."""
    link = tmp_path / "pg-linked"
    link.symlink_to(truth)
    script = f"for i in $(seq 30); do {link} spin 0.02 >/dev/null; done; {link} spin 1; echo done=1"
    with Kinds() as receiver:
        profiled(receiver, ["--frequency", "397", "--include", "executable=pg-truth"], ["sh", "-c", script])
    begun = [about for pid, about in receiver.resources.items() if any("burn" in hit.names for hit in receiver.of(pid, "samples/count"))]
    assert len(begun) >= 20, len(begun)
    assert {about["service.name"] for about in begun} == {"pg-truth"}, begun
    assert {about.get("process.executable.path", str(truth)) for about in begun} == {str(truth)}, begun


@pytest.mark.parametrize("linked", ["static", "dynamic"])
def test_processes_of_1_ms_are_whole(tmp_path, linked):
    """Children of vfork that end long before anybody has looked at them: their frames say which file they are in."""
    source = pathlib.Path(__file__).resolve().parent.parent / "sender/load/short.c"
    program = tmp_path / f"pg-{linked}-{os.getpid()}"  # a bench beside this has a pg-short as well
    for path in (tmp_path / "pg-starter", program):
        subprocess.run(["gcc", "-O2", *(["-static"] if linked == "static" else []), source, "-o", path], check=True)
    with Kinds() as receiver:
        profiled(receiver, ["--frequency", "397", "--include", f"executable={program.name}"],
                 [tmp_path / "pg-starter", "300", "3", program])
        short = [hit for hit in receiver.hits if receiver.resources[hit.pid].get("process.executable.name") == program.name]
        warm = short[len(short) // 5:]  # all pages of code that are run have been met
        placed = [hit for hit in warm if RAW not in hit.names]
        named = [hit for hit in placed if "" not in hit.names]
        # Within execve(2) a thread has one program's registers and the other's memory: what is seen of it there is a guess.
        between = [hit for hit in warm if any("execve" in name for name in hit.names)]
        whole = [hit for hit in named if "profsend.stack.incomplete" not in hit.attributes or hit in between]
        said = (len(warm), len(placed), len(named), [(hit.attributes.get("profsend.stack.incomplete"), hit.names) for hit in warm
                                                     if hit not in whole][:9])
        assert len(warm) >= 100 and len(placed) >= 0.98 * len(warm) and len(between) < len(warm) / 4, said
        if linked == "static":  # of the C library's own functions no name is there where its debug symbols are not installed
            assert len(whole) >= 0.97 * len(warm), said


CALLS = """
#include <string.h>
#include <time.h>
static volatile unsigned long sink;
static char long_one[1 << 20];
static double cpu(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
__attribute__((noinline)) static void calls_it(void)
{
    sink += strspn(long_one, "ab");
    __asm__ volatile("");
}
int main(int argc, char **argv)
{
    memset(long_one, 'b', sizeof long_one - 1);
    for (double end = cpu() + 0.3; cpu() < end;)
        if (argc > 1)
            calls_it();
        else
            for (int i = 0; i < 100000; i++)
                sink++;
    return 0;
}
"""


def test_who_called_what_was_met_for_the_first_time_is_known_when_it_has_ended(tmp_path):
    """What the C library does there has no rows yet, the program has: nobody can be asked any more where that was."""
    program = tmp_path / f"pg-calls-{os.getpid()}"
    (tmp_path / "calls.c").write_text(CALLS)
    subprocess.run(["gcc", "-O1", "-fno-builtin", tmp_path / "calls.c", "-o", program], check=True)
    with Kinds() as receiver:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "1s",
                          "--frequency", "397", "--include", f"executable={program.name}"])
        with running(sender):
            started(sender)
            for _ in range(2):  # the first one is walked by user space
                subprocess.run([program], check=True)
            wait_for(lambda: len({hit.pid for hit in receiver.hits if "main" in hit.names}) == 2, "samples of the program's own code")
            sender.process.send_signal(signal.SIGSTOP)
            with running(Process([program, "strspn"])) as ended:
                assert ended.wait() == 0
            sender.process.send_signal(signal.SIGCONT)
            wait_for(lambda: receiver.of(ended.pid, "samples/count"), "samples of what has ended")
            assert sender.stop() == 0, sender.log()
    names = [hit.names for hit in receiver.of(ended.pid, "samples/count") if "strspn" in "".join(hit.names)]
    called = [stack for stack in names if "calls_it" in stack]
    assert called and not [stack for stack in names if RAW in stack], (len(called), len(names), names[:3])


def test_whose_processes_of_1_ms_are_is_known():
    """However soon they have ended: user and parent come with the first sample, and nobody needs to look."""
    if os.getuid() != 0:
        pytest.skip("another user's programs are needed")
    source = pathlib.Path(__file__).resolve().parent.parent / "sender/load/short.c"
    begins = "import os, sys; os.setuid(65534); os.execv(sys.argv[1], sys.argv[1:])"
    with folder_for_all() as folder, Kinds() as receiver:
        starter, program = folder / "pg-starter", folder / f"pg-whose-{os.getpid()}"
        for path in (starter, program):
            subprocess.run(["gcc", "-O2", source, "-o", path], check=True)
        (pid, _), = profiled(receiver, ["--frequency", "397", "--include", f"executable={program.name}"],
                             [sys.executable, "-c", begins, starter, "300", "2", program])
    about = [a for a in receiver.resources.values() if a.get("process.executable.name") == program.name]
    assert len(about) >= 100, len(about)
    wrong = [a for a in about if (a.get("process.real_user.id"), a.get("process.parent_pid")) != (65534, pid)]
    assert not wrong, (len(wrong), len(about), [sorted(said for said in a.items() if said[0].startswith("process.")) for a in wrong[:3]])


def test_a_script_is_never_taken_for_an_executable(tmp_path):
    """Also not one that has ended before anybody looked who it was."""
    shell = pathlib.Path("/bin/sh").resolve().name
    script = tmp_path / "pg-script"
    script.write_text("#!/bin/sh\ni=0; while [ $i -lt 2000 ]; do i=$((i+1)); done\n")
    script.chmod(0o755)
    with Kinds() as receiver:
        profiled(receiver, ["--frequency", "397", "--include", f"executable={shell}"],
                 [sys.executable, "-c", f"import subprocess\nfor _ in range(300): subprocess.run(['{script}'], check=True)"])
    told = [about for about in receiver.resources.values() if about.get("process.executable.name") in ("sh", shell)]
    assert len(told) >= 100, len(told)
    assert not [about for about in receiver.resources.values() if "pg-script" in about.get("process.executable.path", "")]


def test_a_fork_without_exec_has_its_parent_s_name(truth):
    code = ("import os, sys, time\n"
            "for i in range(60):\n"
            "    if os.fork() == 0:\n"
            "        end = time.process_time() + 0.02\n"
            "        while time.process_time() < end: pass\n"
            "        os._exit(0)\n"
            "    os.wait()\n"
            "print('done=1')\n")
    python = pathlib.Path(sys.executable).resolve().name
    with Kinds() as receiver:
        (parent, _), = profiled(receiver, ["--frequency", "397", "--include", f"executable={python}"],
                                [sys.executable, "-c", code])
        # other people's Python may fork and exec here as well: theirs may have another name by now, but one they have
        names = [about.get("process.executable.name") for pid, about in receiver.resources.items() if pid != parent]
        assert names.count(python) >= 40 and None not in names, names


def test_what_a_process_says_of_itself(truth):
    environment = {"OTEL_SERVICE_NAME": "checkout", "OTEL_RESOURCE_ATTRIBUTES":
                   "service.name=other,service.namespace=shop,deployment.environment.name=a%20b,host.name=evil"}
    command = ["env", *[f"{k}={v}" for k, v in environment.items()], truth, "spin", "1"]
    with Kinds() as receiver:
        (pid, _), = profiled(receiver, ["--frequency", "97", "--include", "executable=pg-truth"], command)
        about = receiver.resources[pid]
        assert about["service.name"] == "checkout" and about["service.namespace"] == "shop"
        assert about["deployment.environment.name"] == "a b"
        assert about["host.name"] == os.uname().nodename and about["os.type"] == "linux"
        assert about["process.executable.path"] == str(truth) and about["process.parent_pid"] == os.getpid()
        assert about["process.real_user.id"] == os.getuid()
        assert about["process.creation.time"].startswith("20") and about["process.creation.time"].endswith("Z")
        if pathlib.Path("/etc/machine-id").exists() and pathlib.Path("/etc/machine-id").read_text().strip():
            assert about["host.id"] == pathlib.Path("/etc/machine-id").read_text().strip()


def test_a_published_process_context(truth):
    """OTEP 4719: a region named OTEL_CTX, published while the process runs."""
    resource = b"".join(encoded(1, encoded(1, k) + encoded(2, encoded(1, v)))
                        for k, v in ((b"service.name", b"context"), (b"service.version", b"7")))
    code = ("import ctypes, mmap, os, struct, sys, time\n"
            f"payload = {encoded(1, resource)!r}\n"
            "fd = os.memfd_create('OTEL_CTX')\n"
            "os.ftruncate(fd, 4096)\n"
            "m = mmap.mmap(fd, 4096, mmap.MAP_PRIVATE)\n"
            "os.close(fd)\n"
            "at = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
            "m[64:64 + len(payload)] = payload\n"
            "end = time.process_time() + 2.5\n"
            "while time.process_time() < end - 2: pass\n"
            "m[0:32] = b'OTEL_CTX' + struct.pack('=IIQQ', 2, len(payload), 1, at + 64)\n"
            "while time.process_time() < end: pass\n"
            "print('done=1')\n")
    with Kinds() as receiver:
        (pid, _), = profiled(receiver, ["--frequency", "97", "--include", f"executable={pathlib.Path(sys.executable).resolve().name}"],
                             [sys.executable, "-c", code])
        about = receiver.resources[pid]
        assert about["service.name"] == "context" and about["service.version"] == "7", about


def test_a_deleted_program_and_one_replaced_keep_their_names(truth, tmp_path):
    copy = tmp_path / "pg-gone"
    shutil.copy(truth, copy)
    command = ["sh", "-c", f"{copy} spin 1.5 & sleep 0.1; rm {copy}; printf x > {copy}; wait"]
    with Kinds() as receiver:
        profiled(receiver, ["--frequency", "97", "--include", "executable=pg-gone"], command)
        pids = [pid for pid, about in receiver.resources.items() if about.get("process.executable.name") == "pg-gone"]
        assert len(pids) == 1, pids
        named = [hit for hit in receiver.of(pids[0], "samples/count") if "spinning" in hit.names or "main" in hit.names]
        assert len(named) >= 0.8 * receiver.total(pids[0], "samples/count"), len(named)


def test_a_pid_namespace_is_no_hiding_place(truth):
    if subprocess.run(["unshare", "-p", "-f", "true"]).returncode:
        pytest.skip("no pid namespace can be made here")
    with Kinds() as receiver:
        profiled(receiver, ["--frequency", "97", "--include", "executable=pg-truth"],
                 ["unshare", "-p", "-f", truth, "spin", "1"])
        # by its path: others may run a program of that name
        inside = [pid for pid, about in receiver.resources.items() if about.get("process.executable.path") == str(truth)]
        assert len(inside) == 1 and inside[0] > 1
        assert any("spinning" in hit.names for hit in receiver.of(inside[0], "samples/count"))


def test_what_runs_already_is_known(truth):
    """Alive before profsend, asleep, and gone when its samples are sent: its name was learned at the start."""
    sleeper = Process([truth, "naps", "600"])
    with running(sleeper), Kinds() as receiver:
        wait_for(lambda: pathlib.Path(f"/proc/{sleeper.pid}/exe").exists(), "a sleeper")
        profiled(receiver, ["--no-cpu", "--off-cpu", "--off-cpu-min", "0ms", "--include", f"pid={sleeper.pid}"],
                 ["sh", "-c", f"sleep 1; kill -9 {sleeper.pid}"])
        assert receiver.resources[sleeper.pid]["process.executable.name"] == "pg-truth"


HEADLESS = """
#include <pthread.h>
#include <unistd.h>
static volatile int n;
__attribute__((noinline)) static void spins(void) { for (int i = 0; i < 1000000; i++) n++; }
static void *goes_on(void *of) { for (;;) spins(), n++; }
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, goes_on, NULL);
    sleep(1);
    pthread_exit(NULL);
}
"""


@pytest.mark.parametrize("when", ["before profsend", "while it samples"])
def test_a_process_whose_first_thread_has_ended_is_known(tmp_path, when):
    """It goes on in its others, though /proc/PID has neither its executable nor its mappings any more."""
    (tmp_path / "headless.c").write_text(HEADLESS)
    program = tmp_path / "pg-headless"
    subprocess.run(["gcc", "-O1", tmp_path / "headless.c", "-o", program, "-lpthread"], check=True)
    with Kinds() as receiver, running(Process([program])) as headless:
        sender = None

        def begin():
            sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "1s",
                              "--frequency", "97", "--include", "executable=pg-headless"])
            started(sender)
            return sender
        if when == "while it samples":
            sender = begin()
        wait_for(lambda: ") Z " in pathlib.Path(f"/proc/{headless.pid}/stat").read_text(), "the end of its first thread")
        sender = sender or begin()
        with running(sender):
            before = len(receiver.of(headless.pid, "samples/count"))
            # four seconds: what is told to have ended is forgotten after two
            wait_for(lambda: len(receiver.of(headless.pid, "samples/count")) >= before + 400, "samples")
            assert sender.stop() == 0, sender.log()
    hits = receiver.of(headless.pid, "samples/count")[before:]
    about = receiver.resources[headless.pid]
    assert about.get("process.executable.path") == str(program) and about["process.executable.name"] == "pg-headless", about
    whole = [hit for hit in hits if hit.names[-4:-2] == ("spins", "goes_on") and "profsend.stack.incomplete" not in hit.attributes]
    assert len(whole) >= 0.95 * len(hits), (len(whole), len(hits), hits[-1], sender.log())


DROPS = """
#include <time.h>
#include <unistd.h>
static volatile int n;
int main(void)
{
    struct timespec now;
    do
        n++, clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    while (now.tv_sec < 1);
    if (setuid(65534))
        return 1;
    for (;;)
        n++;
}
"""


def test_who_drops_root_s_rights_is_not_root_s_any_more(tmp_path):
    if os.getuid() != 0:
        pytest.skip("a program of root's is needed")
    (tmp_path / "drops.c").write_text(DROPS)
    subprocess.run(["gcc", "-O1", tmp_path / "drops.c", "-o", tmp_path / "pg-drops"], check=True)
    with Kinds() as receiver:
        sender = Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "1s",
                          "--frequency", "97", "--include", "executable=pg-drops", "--owner"])
        with running(sender):
            started(sender)
            server = Process([tmp_path / "pg-drops"])
            with running(server):
                said = lambda: tuple(receiver.resources.get(server.pid, {}).get(key) for key in ("process.real_user.id", "process.owner"))
                wait_for(lambda: said() == (0, "root"), "samples of root's")
                wait_for(lambda: said() == (65534, "nobody"), "samples of nobody's")
            assert sender.stop() == 0, sender.log()
