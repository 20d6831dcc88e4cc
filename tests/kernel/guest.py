"""A machine of its own with another kernel: qemu without KVM, an initramfs made from files of this machine, a shell.

The shell of the guest reads its second serial port, the kernel's log goes to the first. Programs come with the
initramfs (`Image.add`, with the libraries they are linked with); the guest reaches this machine's loopback at HOST.
"""
import ctypes
import gzip
import lzma
import os
import pathlib
import re
import select
import signal
import socket
import stat
import subprocess
import time

from programs import ROOT

HOST = "10.0.2.2"  # qemu's user network: 127.0.0.1 here
# What virtio devices take, in the order of their dependencies.
MODULES = ("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "failover", "net_failover",
           "virtio_net", "virtio_blk")
PATIENCE = 300  # seconds for anything the guest does, which takes one or two when this machine does nothing else
BOOT_SECONDS = 600  # a dozen when this machine does nothing else
POLL_SECONDS = 0.1  # between two looks: who looks all the time takes our machine from the guest
TOLD = 4000  # characters of a log that a failure tells

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /bin /sbin /usr/bin /usr/sbin
/bin/busybox --install -s
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t securityfs securityfs /sys/kernel/security
mount -t tracefs tracefs /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup
for module in MODULE_LIST; do [ ! -f /modules/$module.ko ] || insmod /modules/$module.ko; done
ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
chmod 1777 /tmp
cd /
exec 3<>/dev/ttyS1
stty -F /dev/ttyS1 raw -echo 115200
echo ready >&3
# as a script: a shell whose input is a terminal prompts and edits
sh /dev/ttyS1 >&3 2>&1 </dev/null
"""


def vmlinuz(root):
    """The kernel in what tests/kernel/fetch made."""
    return next(path for path in (root / "root").rglob("vmlinuz*"))


class Image:
    """An initramfs in the making: path → (mode, bytes)."""

    def __init__(self, root, init=INIT):
        """root: what tests/kernel/fetch made; init: the script that is the first process."""
        self.files = {}
        self.put("init", 0o755, init.replace("MODULE_LIST", " ".join(MODULES)).encode())
        self.put("bin/busybox", 0o755, (root / "root/bin/busybox").read_bytes())
        found = {path.name.split(".")[0]: path for path in (root / "root").rglob("*.ko*")}
        for module in MODULES:
            if module in found:
                content = found[module].read_bytes()
                self.put(f"modules/{module}.ko", 0o644, lzma.decompress(content) if found[module].suffix == ".xz" else content)
        self.put("etc/passwd", 0o644, b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
        self.put("etc/group", 0o644, b"root:x:0:\nnogroup:x:65534:\n")
        self.put("etc/machine-id", 0o444, b"0123456789abcdef0123456789abcdef\n")

    def put(self, path, mode, content):
        self.files[str(path).lstrip("/")] = (stat.S_IFREG | mode, content)

    def link(self, path, target):
        self.files[str(path).lstrip("/")] = (stat.S_IFLNK | 0o777, str(target).encode())

    def add(self, path, to=None):
        """A program or library of this machine and all that it is linked with, or loads later by its name."""
        path = pathlib.Path(path)
        self.put(str(to or path), 0o755, path.read_bytes())
        names = {name for stub in (ROOT / "proto/base/library").glob("*.S") for name in re.findall(r'SONAME "(.+)"', stub.read_text())}
        found = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
        libraries = [library for name, library in re.findall(r"^\t(\S+) .*x86-64.* => (\S+)", found, re.M)
                     if name in names and name.encode() in path.read_bytes()]
        listed = subprocess.run(["ldd", path, *libraries], capture_output=True, text=True)
        for library in {*libraries, *re.findall(r"(/\S+) \(0x", listed.stdout)}:
            self.put(library, 0o755, pathlib.Path(library).read_bytes())

    def write(self, to):
        """As a gzipped "newc" archive (kernel: Documentation/driver-api/early-userspace/buffer-format.rst)."""
        folders = sorted({str(parent) for path in self.files for parent in pathlib.PurePath(path).parents} - {"."})
        entries = [(path, (stat.S_IFDIR | 0o755, b"")) for path in folders] + sorted(self.files.items())
        with gzip.open(to, "wb", compresslevel=1) as out:
            for number, (path, (mode, content)) in enumerate(entries + [("TRAILER!!!", (0, b""))], 1):
                name = path.encode() + b"\0"
                fields = (number, mode, 0, 0, 1, 1_700_000_000, len(content), 0, 0, 0, 0, len(name), 0)
                head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
                for part in (head, content):
                    out.write(part + bytes(-len(part) % 4))


def end_with_us():
    """prctl(PR_SET_PDEATHSIG, SIGKILL): a test run that is killed leaves no emulator behind."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Guest:
    """with Guest(folder, image) as g: status, output = g.run("uname -r")."""

    def __init__(self, kernel, initramfs, folder, command_line="", cpus=2, memory="1G"):
        self.console = folder / "console.log"
        disk = folder / "disk"
        with open(disk, "wb") as f:
            f.truncate(64 << 20)
        ours, theirs = socket.socketpair()
        os.set_inheritable(theirs.fileno(), True)
        self.shell = ours
        # One thread for all CPUs: with one each (thread=multi) qemu 7.2 now and then goes on executing the breakpoint that the
        # kernel puts into code while it patches it, after it is gone: a CPU then traps for ever (seen at the tracepoint in
        # do_exit, as profsend ended, on a busy machine; the guest's log says rcu stalls with asm_exc_int3).
        self.process = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg,thread=single", "-cpu", "max", "-smp", str(cpus), "-m", memory, "-nodefaults",
             "-display", "none", "-no-reboot", "-kernel", kernel, "-initrd", initramfs,
             # (on a busy machine the timer interrupts that are counted at boot come too late: no_timer_check)
             "-append", f"console=ttyS0 panic=-1 no_timer_check nowatchdog {command_line}",
             "-serial", f"file:{self.console}", "-chardev", "stdio,id=shell,signal=off", "-serial", "chardev:shell",
             "-drive", f"file={disk},format=raw,if=virtio,cache=none", "-nic", "user,model=virtio-net-pci"],
            stdin=theirs, stdout=theirs, stderr=subprocess.STDOUT, preexec_fn=end_with_us)
        theirs.close()
        self.pending = b""
        self.number = 0
        self.programs = []

    def __enter__(self):
        """Waits for the shell."""
        try:
            end = time.monotonic() + BOOT_SECONDS
            while b"ready" not in self.pending:  # what is sent before somebody reads is lost
                self._read(end)
            self.pending = b""
            self.check("true")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()
        self.shell.close()

    def tail(self):
        """The end of the kernel's log."""
        return self.console.read_text(errors="replace")[-TOLD:] if self.console.exists() else ""

    def story(self, seconds=20):
        """What there is to tell of a failure: [(title, text)], of a guest that may not answer any more."""
        told = [("this machine", pathlib.Path("/proc/loadavg").read_text()), ("console of the guest", self.tail())]
        try:
            told.append(("processes of the guest", self.run("uptime; ps | grep -v ' \\['", seconds)[1][-TOLD:]))
            for program in self.programs:
                status, log = self.run(f"cat {program.status_file} || echo runs; tail -c {TOLD} {program.log_file}", seconds)
                told.append((f"guest: {program.command}", log))
        except (TimeoutError, OSError) as e:
            told.append(("the guest does not answer", str(e)))
        return told

    def sweep(self):
        """Ends what was started and still runs: it is not to be the next test's load."""
        for program in self.programs:
            self.run(f"test -s {program.status_file} || kill -9 {program.pid}")
        self.programs = []

    def _read(self, end):
        left = end - time.monotonic()
        if left <= 0 or not select.select([self.shell], [], [], left)[0]:
            raise TimeoutError(f"{self.tail()}\n{self.pending!r}")
        got = self.shell.recv(65536)
        if not got:
            raise ConnectionError(f"the guest has ended\n{self.tail()}")
        self.pending += got

    def run(self, command, seconds=PATIENCE):
        """One command of the guest's shell: (exit status, what it printed, both streams)."""
        self.number += 1
        mark = f"=={self.number}=="
        # the mark is put together there: what is echoed is not what is waited for
        self.shell.sendall(f"( {command}\n) </dev/null 2>&1; echo =''={self.number}='='$?=\n".encode())
        pattern = re.compile(rb"(?s)^(.*?)" + mark.encode() + rb"(\d+)=\r?\n")
        end = time.monotonic() + seconds
        while not (found := pattern.match(self.pending)):
            self._read(end)
        self.pending = self.pending[found.end():]
        output = found.group(1).decode(errors="replace").replace("\r\n", "\n")
        # what is left of commands that were given up waiting for
        output = re.sub(r"(?s)^.*==\d+==\d+=\n", "", output)
        return int(found.group(2)), output

    def check(self, command, seconds=PATIENCE):
        """As run, of a command that must succeed: what it printed."""
        status, output = self.run(command, seconds)
        assert status == 0, (command, status, output)
        return output

    def start(self, command):
        """Runs it in the background. The command takes the place of a shell: it is one program with its arguments."""
        log = f"/tmp/{self.number + 1}.log"
        pid = self.check(f"cat >{log}.sh <<'END'\nexec {command}\nEND\n"
                         f"setsid sh -c 'sh {log}.sh >{log} 2>&1 & echo $! >{log}.pid; wait $!; echo $? >{log}.status' &\n"
                         f"until [ -s {log}.pid ]; do sleep 0.05; done; cat {log}.pid")
        self.programs.append(Program(self, int(pid.split()[-1]), log, command))  # behind what the shell says of earlier ones
        return self.programs[-1]

    def read(self, path):
        return self.check(f"cat {path}")

    def put(self, path, text):
        self.check(f"mkdir -p $(dirname {path}); cat >{path} <<'END'\n{text}END\n")

    def wait_for(self, condition, what, seconds):
        end = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, f"did not happen in {seconds} s: {what}"
            time.sleep(POLL_SECONDS)


class Program:
    """Something that runs in the guest."""

    def __init__(self, guest, pid, log, command):
        self.guest, self.pid, self.log_file, self.status_file, self.command = guest, pid, log, f"{log}.status", command

    def log(self):
        return self.guest.read(self.log_file)

    def alive(self):
        return self.guest.run(f"test -s {self.status_file}")[0] != 0

    def wait(self, seconds=PATIENCE):
        """Its exit status, as the shell has it."""
        self.guest.wait_for(lambda: not self.alive(), f"the end of {self.command}", seconds)
        return int(self.guest.read(self.status_file))

    def stop(self, seconds=PATIENCE):
        """SIGTERM, and the exit status."""
        if self.alive():
            self.guest.run(f"kill {self.pid}")
        return self.wait(seconds)
