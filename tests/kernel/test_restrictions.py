"""profsend where the machine gives it less: in its systemd unit's sandbox, without /proc, without a capability."""
import pathlib
import re
import shutil
import subprocess

import pytest
from programs import BUILD, ROOT, Process, folder_for_all, running, wait_for
from test_profsend_delivery import NEEDED
from test_profsend_kinds import Kinds, truth  # noqa: F401 (truth is a fixture)

HERE = pathlib.Path(__file__).resolve().parent
UNIT = ROOT / "scripts/deploy/profsend.service"
# What systemd-analyze's weighing of the unit may come to, of 100: below 30 of what is "OK".
EXPOSURE_MOST = 30


def setting(key):
    return " ".join(re.findall(rf"^{key}=(.*)$", UNIT.read_text(), re.M))


def expanded(names):
    """System calls by systemd's groups (@name)."""
    calls, waiting, seen = set(), list(names), set()
    while waiting:
        name = waiting.pop()
        if not name.startswith("@"):
            calls.add(name)
        elif name not in seen:
            seen.add(name)
            done = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True)
            if done.returncode != 0:
                pytest.skip(f"systemd-analyze cannot tell {name}: {done.stderr.strip()[-200:]}")
            waiting += [line.strip() for line in done.stdout.splitlines()[1:] if line.strip() and "#" not in line]
    return calls


@pytest.fixture(scope="module")
def for_all():
    with folder_for_all() as folder:
        yield folder


@pytest.fixture(scope="module")
def sandbox(for_all):
    """launcher(*left_out) → the command line that runs a program in the unit's sandbox, as nobody with its capabilities."""
    for tool in ("systemd-analyze", "setpriv"):
        if not shutil.which(tool):
            pytest.skip(f"no {tool} here")
    folder = for_all
    subprocess.run(["gcc", "-O2", HERE / "sandbox.c", "-o", folder / "sandbox"], check=True)
    shutil.copy(BUILD / "profsend", folder / "profsend")
    header = subprocess.run(["gcc", "-E", "-dM", "-include", "asm/unistd.h", "-x", "c", "/dev/null"], capture_output=True, text=True,
                            check=True).stdout
    number = {name: int(n) for name, n in re.findall(r"^#define __NR_(\w+) (\d+)$", header, re.M)}
    lines = re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.M)
    allowed = expanded(["@default"] + [word for line in lines if not line.startswith("~") for word in line.split()])
    allowed -= expanded([word for line in lines if line.startswith("~") for word in line[1:].split()])
    caps = ",".join("+" + name[4:].lower() for name in setting("CapabilityBoundingSet").split())

    def launcher(*left_out):
        numbers = folder / ("allowed" + "-".join(left_out))
        numbers.write_text("\n".join(str(number[name]) for name in sorted(allowed - set(left_out)) if name in number))
        return ["prlimit", f"--nofile={setting('LimitNOFILE')}", "setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                "--bounding-set", f"-all,{caps}", "--inh-caps", f"-all,{caps}", "--ambient-caps", f"-all,{caps}",
                folder / "sandbox", numbers, folder / "profsend"]
    done = subprocess.run([*launcher(), "--version"], capture_output=True, text=True)
    if "setpriv" in done.stderr or "prlimit" in done.stderr:
        pytest.skip(f"no such rights can be set here: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    return launcher


def sampling(sender):
    wait_for(lambda: "sampling" in sender.log() or not sender.alive(), "profsend at work", 30)
    if not sender.alive() and sender.wait() == 3:
        pytest.skip(f"profiling is not permitted here: {sender.log().strip()[-200:]}")
    assert sender.alive(), (sender.process.returncode, sender.log())
    return sender


def test_the_unit_s_sandbox_lets_it_do_its_work(sandbox, truth, for_all):
    """Every kind that needs no more than the unit has, delivery with a spool, the status page, names of files and kernel."""
    spool = for_all / "spool"
    spool.mkdir()
    shutil.chown(spool, 65534, 65534)
    with Kinds() as receiver:
        busy, naps = Process([truth, "spin", "60"]), Process([truth, "naps", "60"])
        with running(busy, naps):
            sender = Process([*sandbox(), "--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "1s",
                              "--frequency", "97", "--off-cpu", "--block-io", "--lock-wait", "--event", "page-faults/16",
                              "--include", "executable=pg-truth",
                              "--spool", spool, "--status", "127.0.0.1:0"])
            with running(sender):
                sampling(sender)
                wait_for(lambda: any("spinning" in hit.names for hit in receiver.of(busy.pid, "samples/count")), "named frames", 30)
                wait_for(lambda: any("wait_here" in hit.names and hit.names[0] == "__schedule"
                                     for hit in receiver.of(naps.pid, "off_cpu/nanoseconds")), "waits", 30)
                assert "status page at port" in sender.log()
                assert "is missing" not in sender.log() and "cannot" not in sender.log(), sender.log()
                assert sender.stop() == 0, sender.log()
        assert receiver.resources[busy.pid]["process.executable.name"] == "pg-truth"


@pytest.mark.parametrize("call", ["bpf", "perf_event_open"])
def test_the_sandbox_is_one(sandbox, call):
    """The control of the test above: a call that is left out is refused, and profsend says what may be the reason."""
    done = subprocess.run([*sandbox(call), "--print", "--duration", "1s"], capture_output=True, text=True, timeout=60)
    if "CAP_" in done.stderr:
        pytest.skip(f"profiling is not permitted here: {done.stderr.strip()[-200:]}")
    assert done.returncode == 3 and "seccomp" in done.stderr, (done.returncode, done.stderr)


def test_the_unit_is_as_tight_as_it_says():
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze here")
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE_MOST}", "--no-pager", UNIT],
                          capture_output=True, text=True)
    if "Unknown" in done.stderr or "unrecognized" in done.stderr:
        pytest.skip(f"systemd-analyze is too old here: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_a_host_that_hides_proc_still_gives_samples(truth):
    """An empty /proc: nothing has a file, but the kernel side goes by its own tables, and execve says names."""
    command = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"', BUILD / "profsend"]
    if subprocess.run([*command[:4], "mount -t tmpfs none /proc"], capture_output=True).returncode:
        pytest.skip("no mount namespace can be made here")
    with Kinds() as receiver:
        sender = Process([*command, "--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "1s", "--frequency", "97"])
        with running(sender):
            sampling(sender)
            assert "/proc cannot be read" in sender.log(), sender.log()
            busy = Process([truth, "spin", "60"])
            with running(busy):
                wait_for(lambda: receiver.total(busy.pid, "samples/count") > 50, "samples", 30)
            assert sender.stop() == 0, sender.log()
        assert receiver.resources[busy.pid]["process.executable.name"] == "pg-truth", receiver.resources[busy.pid]


def test_without_ptrace_it_says_what_is_lost_and_goes_on(truth, for_all):
    """Nobody, without CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH: root's processes are sampled, by the name execve gave."""
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv here")
    caps = ",".join("+" + name[4:].lower() for name in NEEDED if name not in ("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"))
    program = for_all / "profsend-for-nobody"
    shutil.copy(BUILD / "profsend", program)
    with Kinds() as receiver:
        sender = Process(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--bounding-set", f"-all,{caps}",
                          "--inh-caps", f"-all,{caps}", "--ambient-caps", f"-all,{caps}", program, "--protocol", "http/protobuf",
                          "--endpoint", receiver.url, "--interval", "1s", "--frequency", "97"])
        with running(sender):
            wait_for(lambda: "sampling" in sender.log() or not sender.alive(), "profsend at work", 30)
            if not sender.alive() and ("setpriv" in sender.log() or sender.wait() == 3):
                pytest.skip(f"not permitted here: {sender.log().strip()[-200:]}")
            for name in ("CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"):
                assert f"{name} is missing: " in sender.log(), sender.log()
            assert "CAP_SYSLOG" not in sender.log() and sender.log().count("is missing") == 2, sender.log()
            busy = Process([truth, "spin", "60"])
            with running(busy):
                wait_for(lambda: receiver.total(busy.pid, "samples/count") > 50, "samples", 30)
            assert sender.stop() == 0, sender.log()
        assert receiver.resources[busy.pid]["process.executable.name"] == "pg-truth", receiver.resources[busy.pid]
