"""What the kernel has accounted to a process: CPU time, memory, BPF programs and maps."""
import contextlib
import ctypes
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess


BPF_ENABLE_STATS = 32  # linux/bpf.h; BPF_STATS_RUN_TIME is 0
SYS_BPF = {"x86_64": 321, "aarch64": 280}


@contextlib.contextmanager
def bpf_stats():
    """The kernel counts what BPF programs run. By a descriptor and not by the sysctl kernel.bpf_stats_enabled, which two that measure
    at the same time take from one another, and one that is killed leaves on."""
    attribute = ctypes.c_uint32(0)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(SYS_BPF[platform.machine()], BPF_ENABLE_STATS, ctypes.byref(attribute), ctypes.sizeof(attribute))
    if fd < 0:
        raise SystemExit(f"BPF_ENABLE_STATS: {os.strerror(ctypes.get_errno())}: needs root")
    try:
        yield
    finally:
        os.close(fd)


def cpu_ns(pid):
    """Of all its threads, and of the processes they have: who runs profsend's errands is one."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
            total += sum(map(cpu_ns, (task / "children").read_text().split()))
        except OSError:
            continue  # a thread that ended meanwhile
    return total


def status_mib(pid, field):
    return int(re.search(rf"{field}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


def fdinfo(pid):
    """What the kernel says of each descriptor, as {name: text}."""
    for fd in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            yield dict(re.findall(r"^(\w+):\s+(\S+)", fd.read_text(), re.M))
        except OSError:
            continue  # closed meanwhile


def bpf_runs(pid):
    """{program id: (ns, runs)}, of programs loaded by the process."""
    return {about["prog_id"]: (int(about["run_time_ns"]), int(about["run_cnt"]))
            for about in fdinfo(pid) if "run_time_ns" in about}


def shown(what):
    """What bpftool knows of the machine's programs ("prog") or maps ("map")."""
    bpftool = shutil.which("bpftool") or "/usr/sbin/bpftool"
    for _ in range(5):
        done = subprocess.run([bpftool, what, "show", "-j"], capture_output=True, text=True)
        if done.returncode == 0:
            return json.loads(done.stdout)
    return []  # one that went away while it looked, each time: others' come and go


def program_names():
    return {str(program["id"]): program.get("name", "?") for program in shown("prog")}


def map_ids():
    return {each["id"] for each in shown("map")}


def map_mib(pid, before):
    """Memory of a process's maps. Maps within maps need no descriptor and the peer keeps none: those made since `before`
    that have the name of one of its own, and no other holder, are its too."""
    held = {int(about["map_id"]) for about in fdinfo(pid) if "map_id" in about}
    maps = shown("map")
    names = {each.get("name") for each in maps if each["id"] in held}
    loose = {each["id"] for each in maps if each["id"] not in before | held and each.get("name") in names}
    loose -= held_by_others(pid)
    return sum(each["bytes_memlock"] for each in maps if each["id"] in held | loose) / (1 << 20)


def held_by_others(pid):
    """Ids of maps that other processes have descriptors of: another profiler's, or another run's of this one."""
    ids = set()
    for process in pathlib.Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != pid:
            try:
                ids |= {int(about["map_id"]) for about in fdinfo(process.name) if "map_id" in about}
            except OSError:
                continue  # it ended
    return ids
