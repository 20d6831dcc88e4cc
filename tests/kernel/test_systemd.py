"""The units of scripts/deploy under a real systemd: Debian 12's kernel under qemu, this machine's systemd the first process.

What each line of a sandbox is to refuse is tried (attempts.c) in the unit's own sandbox, and outside of it, where it must
succeed: an attempt that proves nothing fails there.
"""
import pathlib
import re
import subprocess

import pytest
from guest import HOST, PATIENCE, Guest, vmlinuz
from programs import BUILD, ROOT
from systemd_guest import SystemdImage, missing
from test_profsend_delivery import NEEDED
from test_profsend_kinds import SOURCE as TRUTH
from test_profsend_kinds import Kinds

pytestmark = pytest.mark.soak

HERE = pathlib.Path(__file__).resolve().parent
DEPLOY = ROOT / "scripts/deploy"
UNITS = {name: DEPLOY / f"{name}.service" for name in ("profsend", "profgate")}
# systemd-analyze's weighing of the units as this systemd loaded them, of 100 (of 10 in its own words).
EXPOSURE_MOST = {"profsend": 30, "profgate": 15}


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    if why := missing():
        pytest.skip(why)
    fetched = subprocess.run([HERE / "fetch", "6.1"], capture_output=True, text=True)
    if fetched.returncode == 77:
        pytest.skip(fetched.stderr.strip().splitlines()[-1])
    assert fetched.returncode == 0, fetched.stderr
    root = pathlib.Path(fetched.stdout.strip())
    folder = tmp_path_factory.mktemp("systemd")
    subprocess.run(["gcc", "-O2", HERE / "attempts.c", "-o", folder / "attempts"], check=True)
    subprocess.run(["gcc", "-O2", "-g", "-fno-builtin", "-fno-ipa-icf", TRUTH / "truth.c", "-o", folder / "pg-truth", "-lpthread"],
                   check=True)
    image = SystemdImage(root)
    for name, unit in UNITS.items():
        image.add(BUILD / name, f"/usr/local/bin/{name}")
        image.put(f"/etc/systemd/system/{name}.service", 0o644, unit.read_bytes())
    image.add(folder / "attempts", "/usr/local/bin/attempts")
    image.add(folder / "pg-truth", "/bin/pg-truth")
    for path in ("/home/here", "/tmp/here", "/usr/lib/modules/here"):
        image.put(path, 0o644, b"here\n")
    image.write(folder / "initramfs")
    with Guest(vmlinuz(root), folder / "initramfs", folder,
               "systemd.unit=multi-user.target systemd.show_status=1") as machine:
        yield machine


# What attempts.c meets for root outside of a sandbox, and in the sandbox of each unit. EROFS is a mount's answer, EACCES and
# ENOENT what is hidden, EPERM the system call filter's or a missing capability's.
ATTEMPTS = {
    "write-usr": ("OK", "EROFS", "EROFS"),
    "write-etc": ("OK", "EROFS", "EROFS"),
    "write-var": ("OK", "EROFS", "EROFS"),
    "write-root": ("OK", "EROFS", "EROFS"),
    "write-home": ("OK", "EROFS", "EACCES"),
    "write-tmp": ("OK", "OK", "OK"),
    "write-cgroup": ("OK", "EROFS", "EROFS"),
    "write-state": ("OK", "OK", "OK"),
    "write-run": ("OK", "OK", "OK"),
    "write-sysctl": ("OK", "EROFS", "EROFS"),
    "write-sys": ("OK", "EROFS", "EROFS"),
    "see-home": ("OK", "OK", "EACCES"),
    "see-tmp": ("OK", "ENOENT", "ENOENT"),
    "see-modules": ("OK", "ENOENT", "EACCES"),
    "see-process": ("OK", "OK", "ENOENT"),
    "see-environment": ("OK", "OK", "ENOENT"),
    "see-kernel-log": ("OK", "ENOENT", "ENOENT"),
    "see-disk": ("OK", "ENOENT", "ENOENT"),
    "see-symbols": ("OK", "OK", "EACCES"),
    "see-null": ("OK", "OK", "OK"),
    "load-module": ("ENOEXEC", "EPERM", "EPERM"),
    "read-kernel-log": ("OK", "EPERM", "EPERM"),
    "set-clock": ("OK", "EPERM", "EPERM"),
    "set-host-name": ("OK", "EPERM", "EPERM"),
    "make-device": ("OK", "EPERM", "EPERM"),
    "unmount": ("ENOENT", "EPERM", "EPERM"),
    "root-elsewhere": ("ENOENT", "EPERM", "EPERM"),
    "raw-ports": ("OK", "EPERM", "EPERM"),
    "make-bpf-map": ("OK", "OK", "EPERM"),
    "count-a-cpu": ("OK", "OK", "EPERM"),
    "share-memory": ("OK", "OK", "OK"),
    "see-keys": ("OK", "EPERM", "EPERM"),
    "change-personality": ("OK", "EPERM", "EPERM"),
    "map-writable-code": ("OK", "EPERM", "EPERM"),
    "make-code": ("OK", "EPERM", "EPERM"),
    "run-real-time": ("OK", "EPERM", "EPERM"),
    "be-nicer": ("OK", "EPERM", "OK"),
    "choose-cpus": ("OK", "EPERM", "EPERM"),
    "make-setuid": ("OK", "EPERM", "EPERM"),
    "change-owner": ("OK", "EPERM", "EPERM"),
    "change-user": ("OK", "EPERM", "EPERM"),
    "socket-inet": ("OK", "OK", "OK"),
    "socket-inet6": ("OK", "OK", "OK"),
    "socket-unix": ("OK", "OK", "OK"),
    "socket-netlink": ("OK", "EAFNOSUPPORT", "EAFNOSUPPORT"),
    "socket-packet": ("OK", "EAFNOSUPPORT", "EAFNOSUPPORT"),
    "be-traced": ("OK", "EPERM", "EPERM"),
    "new-namespace": ("OK", "EPERM", "EPERM"),
    "new-user-namespace": ("OK", "EPERM", "EPERM"),
    "foreign-call": ("OK", "SIGSYS", "SIGSYS"),
    "end": ("OK", "OK", "OK"),
}
# By what each line of [Service] is proved: attempts, or what the kernel says of the running program (facts). The rest is how it
# runs, which the other tests are about.
PROOF = {
    "ProtectSystem": "write-usr write-etc write-var write-root", "ProtectHome": "see-home write-home",
    "ProtectProc": "see-process see-environment", "ProtectControlGroups": "write-cgroup", "ProtectKernelLogs": "read-kernel-log",
    "ProtectKernelModules": "load-module see-modules", "ProtectKernelTunables": "write-sysctl write-sys see-symbols",
    "ReadOnlyPaths": "write-sysctl write-sys", "InaccessiblePaths": "core", "ProtectClock": "set-clock",
    "ProtectHostname": "set-host-name uts", "PrivateDevices": "see-disk make-device raw-ports see-null", "PrivateTmp": "see-tmp",
    "PrivateUsers": "user", "DevicePolicy": "device", "KeyringMode": "keyring", "LockPersonality": "change-personality",
    "MemoryDenyWriteExecute": "map-writable-code make-code", "RemoveIPC": "share-memory",
    "RestrictNamespaces": "new-namespace new-user-namespace", "RestrictRealtime": "run-real-time",
    "RestrictSUIDSGID": "make-setuid", "RestrictAddressFamilies": "socket-netlink socket-packet socket-inet",
    "SystemCallArchitectures": "foreign-call", "SystemCallFilter": "unmount root-elsewhere be-traced see-keys choose-cpus",
    "SystemCallErrorNumber": "unmount", "User": "uid", "DynamicUser": "uid", "StateDirectory": "write-state",
    "StateDirectoryMode": "state", "RuntimeDirectory": "write-run", "AmbientCapabilities": "capabilities",
    "CapabilityBoundingSet": "capabilities", "NoNewPrivileges": "no-new-privileges", "MemoryMax": "memory", "TasksMax": "tasks",
    "CPUQuota": "cpu", "LimitNOFILE": "files", "LimitMEMLOCK": "locked",
    "UMask": "umask",
}
HOW_IT_RUNS = {"Type", "ExecStart", "ExecReload", "Restart", "RestartSec", "RestartPreventExitStatus", "TimeoutStopSec"}


def lines(name):
    """{key: [values]} of the unit's [Service]."""
    found = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", UNITS[name].read_text().partition("\n[Service]\n")[2].partition("\n[Install]\n")[0], re.M):
        found.setdefault(key, []).append(value)
    return found


def shown(guest, name, key):
    return guest.check(f"systemctl show -p {key} --value {name}").strip()


def journal(guest, name, *options):
    return guest.check(f"journalctl --no-pager -o cat -u {name} " + " ".join(options))


def configure(guest, name, text):
    guest.put(f"/etc/{name}/{name}.yaml", text)


def sends(guest, receiver, frequency=19):
    port = receiver.url.rsplit(":", 1)[1]
    configure(guest, "profsend", f"endpoint: http://{HOST}:{port}\nprotocol: http/protobuf\ninterval: 1s\nfrequency: {frequency}\n")


def permit(guest):
    """Our file for sysctl, and what systemd makes of it at every boot."""
    guest.put("/etc/sysctl.d/60-profsend.conf", (DEPLOY / "profsend-sysctl.conf").read_text())
    guest.check("systemctl restart systemd-sysctl")
    assert guest.read("/proc/sys/kernel/perf_event_paranoid").strip() == "2"


@pytest.fixture
def unhurried(guest):
    """Without CPUQuota=, but else as it is: a fifth of an emulated CPU is a hundredth of a real one. (That the line is in force
    is tried without this.)"""
    permit(guest)
    guest.put("/etc/systemd/system/profsend.service.d/slow.conf", "[Service]\nCPUQuota=\n")
    guest.check("systemctl daemon-reload")
    yield
    guest.run("systemctl stop profsend; rm -r /etc/systemd/system/profsend.service.d; systemctl daemon-reload")


def until(guest, condition, what):
    return guest.wait_for(condition, what, PATIENCE)


def process(guest, name):
    """The main process's id."""
    return int(shown(guest, name, "MainPID"))


def facts(guest, name):
    """What the kernel says of the unit's running program."""
    pid = process(guest, name)
    status = dict(re.findall(r"^(\w+):\s+(.*)$", guest.read(f"/proc/{pid}/status"), re.M))
    cgroup = f"/sys/fs/cgroup/system.slice/{name}.service"
    limits = {what: guest.run(f"cat {cgroup}/{what}.max")[1].split() for what in ("memory", "pids", "cpu")}
    spaces = {what for what in ("uts", "user", "mnt")
              if guest.check(f"readlink /proc/{pid}/ns/{what}") != guest.check(f"readlink /proc/1/ns/{what}")}
    wanted = f"{sum(1 << NEEDED[capability] for capability in ' '.join(lines(name)['CapabilityBoundingSet']).split()):016x}"
    in_bytes = {"256M": 256 << 20, "1G": 1 << 30}
    own = lines(name)
    inside = f"sh -c 'echo $$ >{cgroup}/cgroup.procs; exec"
    found = {
        "uid": 61184 <= int(status["Uid"].split()[0]) <= 65519 and set(status["Uid"].split()) == set(status["Gid"].split()),
        "capabilities": {status[key] for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {wanted},
        "no-new-privileges": status["NoNewPrivs"] == "1" and status["Seccomp"] == "2",
        "umask": status["Umask"] == own["UMask"][0],
        "files": re.search(r"^Max open files +(\d+) +(\d+)", guest.read(f"/proc/{pid}/limits"), re.M).groups()
        == (own["LimitNOFILE"][0],) * 2,
        "locked": re.search(r"^Max locked memory +unlimited +unlimited", guest.read(f"/proc/{pid}/limits"), re.M) is not None,
        "memory": limits["memory"] == [str(in_bytes[own["MemoryMax"][0]])],
        "tasks": limits["pids"] == own["TasksMax"],
        "cpu": own.get("CPUQuota") == ["20%"] and limits["cpu"] == ["20000", "100000"],
        "uts": "uts" in spaces, "user": "user" in spaces,
        "core": " /proc/kcore ro" in guest.read(f"/proc/{pid}/mountinfo"),
        # even root is refused a device, once in its control group, and not one of those that everything needs
        "device": "not permitted" in guest.run(f"{inside} head -c 1 /dev/vda'")[1]
        and guest.run(f"{inside} cat /dev/null'") == (0, "") and guest.run("head -c 1 /dev/vda")[0] == 0,
        "keyring": shown(guest, name, "KeyringMode") == "private",
        "state": guest.check(f"stat -c 0%a /var/lib/private/{name}").strip() == own["StateDirectoryMode"][0],
    }
    assert "mnt" in spaces
    return {what for what, holds in found.items() if holds}, status


def judge_sandbox(guest, name):
    """Every line of the unit by its proof, the running program's facts first."""
    held, status = facts(guest, name)
    keys = set(lines(name)) - HOW_IT_RUNS
    assert keys <= set(PROOF), keys - set(PROOF)  # a line with no proof
    not_held = {key: word for key in keys for word in PROOF[key].split() if word not in ATTEMPTS and word not in held}
    assert not not_held, (not_held, status)
    guest.check(f"systemctl stop {name}; mkdir -p /run/systemd/system/{name}.service.d; "
                f"cat >/run/systemd/system/{name}.service.d/attempts.conf <<'END'\n"
                "[Service]\nType=oneshot\nRestart=no\nExecStart=\nExecStart=/usr/local/bin/attempts\n"
                f"StandardOutput=truncate:/run/attempts.{name}\nEND\nsystemctl daemon-reload")
    try:
        guest.check(f"systemctl start {name}")
        inside = dict(line.split() for line in guest.read(f"/run/attempts.{name}").splitlines())
    finally:
        guest.check(f"rm -r /run/systemd/system/{name}.service.d; systemctl daemon-reload; systemctl stop {name}")
    # of shared memory nothing is left but what other users made
    assert set(re.findall(r"^ +\d+ +\d+ +600 +4096 +\d+ +\d+ +\d+ +(\d+)", guest.read("/proc/sysvipc/shm"), re.M)) <= {"0"}
    outside = dict(line.split() for line in guest.check("mkdir -p /home; attempts").splitlines())
    column = 1 + list(UNITS).index(name)
    for found, at in ((outside, 0), (inside, column)):
        other = {what: (found.get(what), expected[at]) for what, expected in ATTEMPTS.items() if found.get(what) != expected[at]}
        assert not other and len(found) == len(ATTEMPTS), f"(found, expected): {other}"
    weight = float(re.search(r"Overall exposure level for \S+: ([\d.]+)", guest.check(f"systemd-analyze security --no-pager {name}")).group(1))
    print(f"{name}: systemd-analyze security {weight}")
    assert weight * 10 <= EXPOSURE_MOST[name]


def test_systemd_takes_every_line(guest):
    for name in UNITS:
        assert guest.check(f"systemd-analyze verify --man=no /etc/systemd/system/{name}.service") == ""
        assert shown(guest, name, "LoadState") == "loaded" and shown(guest, name, "NeedDaemonReload") == "no"
    assert "Unknown" not in guest.check("journalctl --no-pager -b -o cat"), "a line that systemd does not know"


def test_where_perf_events_are_root_s_it_says_so_and_is_left_alone(guest):
    """Debian's kernel.perf_event_paranoid, before our sysctl file is there."""
    guest.check("rm -f /etc/sysctl.d/60-profsend.conf; sysctl -w kernel.perf_event_paranoid=3")  # as it is at boot
    configure(guest, "profsend", "endpoint: http://127.0.0.1:9\n")
    guest.check("systemctl start profsend")
    until(guest, lambda: shown(guest, "profsend", "ActiveState") == "failed", "the refusal")  # not "activating", as before a restart
    assert (shown(guest, "profsend", "ExecMainStatus"), shown(guest, "profsend", "NRestarts")) == ("3", "0")
    assert "perf_event_paranoid above 2" in journal(guest, "profsend")
    guest.check("systemctl reset-failed profsend")


@pytest.mark.parametrize("name", UNITS)
def test_each_line_of_a_sandbox_is_in_force(guest, name):
    permit(guest)
    configure(guest, name, {"profsend": "endpoint: http://127.0.0.1:9\n", "profgate": "{}\n"}[name])
    guest.check(f"systemctl start {name}")
    judge_sandbox(guest, name)


def test_the_profiler_does_its_work_in_its_sandbox(guest, unhurried):
    """Names of functions of a program that root alone may read, of kernel functions, of processes."""
    guest.check("cp /bin/pg-truth /tmp/pg-secret; chmod 700 /tmp/pg-secret")
    busy, reads = guest.start("/tmp/pg-secret spin 36000"), guest.start("dd if=/dev/zero of=/dev/null bs=64k")
    with Kinds() as receiver:
        sends(guest, receiver)
        guest.check("systemctl start profsend")
        until(guest, lambda: any("spinning" in hit.names for hit in receiver.of(busy.pid, "samples/count")), "named frames")
        until(guest, lambda: any("ksys_read" in hit.names for hit in receiver.of(reads.pid, "samples/count")), "names of the kernel")
        assert receiver.resources[busy.pid]["process.executable.name"] == "pg-secret"
        said = journal(guest, "profsend")
        said = said[said.index("sampling"):]
        assert "missing" not in said and "cannot" not in said and "no names" not in said, said
        assert shown(guest, "profsend", "ActiveState") == "active"
        assert not receiver.errors, receiver.errors[0]


def test_reloaded_stopped_killed_and_away_from_its_receiver(guest, unhurried):
    busy = guest.start("pg-truth spin 36000")
    with Kinds() as receiver:
        sends(guest, receiver)
        guest.check("systemctl start profsend")
        until(guest, lambda: receiver.of(busy.pid, "samples/count"), "samples at 19 Hz")
        pid = process(guest, "profsend")
        sends(guest, receiver, 50)
        guest.check("systemctl reload profsend")
        until(guest, lambda: any(p[2] == 20_000_000 for p in list(receiver.profiles)), "samples at 50 Hz")
        assert process(guest, "profsend") == pid and shown(guest, "profsend", "NRestarts") == "0"  # the same process, anew
        held, status = facts(guest, "profsend")
        assert {"capabilities", "no-new-privileges", "uid"} <= held, status
        # twice, the second time while it starts anew: whatever becomes of that one, it comes back
        before = len(receiver.hits)
        guest.check("systemctl reload profsend; systemctl reload profsend || true")
        until(guest, lambda: len(receiver.hits) > before + 50 and shown(guest, "profsend", "ActiveState") == "active", "samples again")
        pid, restarts = process(guest, "profsend"), int(shown(guest, "profsend", "NRestarts"))
        before = len(receiver.hits)
        guest.check(f"kill -9 {pid}")
        until(guest, lambda: int(shown(guest, "profsend", "NRestarts")) == restarts + 1, "a restart")
        until(guest, lambda: len(receiver.hits) > before + 50, "samples after a restart")
        assert not receiver.errors, receiver.errors[0]
    # where nobody listens: what was seen is put by, and the stop ends in time all the same
    configure(guest, "profsend", "endpoint: http://127.0.0.1:9\ninterval: 1s\n")
    guest.check("systemctl reload profsend")
    until(guest, lambda: "sending to http://127.0.0.1:9\n" in journal(guest, "profsend"), "sending to where nobody listens")
    count = "ls /var/lib/private/profsend | wc -l"
    until(guest, lambda: int(guest.check(count)) >= 3, "windows put by")
    guest.check("systemctl stop profsend")
    assert (shown(guest, "profsend", "Result"), shown(guest, "profsend", "ExecMainStatus")) == ("success", "0"), journal(guest, "profsend", "-n 20")
    waiting = guest.check("ls /var/lib/private/profsend").split()
    assert len(waiting) >= 3 and guest.check("ls -n /var/lib/private/profsend | awk '/otlp/ {print $1, $3}' | sort -u").startswith("-rw------- 6")
    with Kinds() as receiver:
        sends(guest, receiver)
        guest.check("systemctl start profsend")
        until(guest, lambda: not set(waiting) & set(guest.check("ls /var/lib/private/profsend").split()), "what waited to be sent")
        guest.check("systemctl stop profsend")
        assert shown(guest, "profsend", "Result") == "success" and receiver.of(busy.pid, "samples/count")


def page(guest, path):
    return guest.run(f"wget -q -O - http://127.0.0.1:9464{path}")[1]


def test_the_gateway_counts_what_the_profiler_sends(guest, unhurried):
    configure(guest, "profgate", "receivers: { otlp: [{ endpoint: 127.0.0.1:4317 }, { endpoint: 'unix:/run/profgate/otlp.sock' }] }\n"
                                 "metrics: { flush_interval: 1s, exporters: [prometheus, file/here] }\n"
                                 "exporters: { file/here: { path: /var/lib/profgate/metrics.jsonl } }\n")
    configure(guest, "profsend", "endpoint: http://127.0.0.1:4317\ninterval: 1s\n")
    guest.check("systemctl start profgate profsend")
    busy = guest.start("pg-truth spin 36000")
    until(guest, lambda: 'process_executable_name="pg-truth"' in page(guest, "/metrics"), "the program in the gateway's figures")
    assert busy.alive()
    guest.check("test -S /run/profgate/otlp.sock; test -s /var/lib/private/profgate/metrics.jsonl")
    assert re.search(r"^process_start_time_seconds 1\.?\d+", page(guest, "/metrics"), re.M), page(guest, "/metrics")[:2000]
    pid = process(guest, "profgate")
    configure(guest, "profgate", "receivers: { otlp: [{ endpoint: 127.0.0.1:4317 }, { endpoint: 'unix:/run/profgate/otlp.sock' }] }\n"
                                 "rules: { builtin: none }\n")
    guest.check("systemctl reload profgate")
    until(guest, lambda: "profile_cpu_time" not in page(guest, "/metrics"), "the rules of the new configuration")
    configure(guest, "profgate", "rules: { builtin: nonsense }\n")
    guest.check("systemctl reload profgate")
    until(guest, lambda: "nonsense" in journal(guest, "profgate"), "the refusal")
    assert process(guest, "profgate") == pid and "ok" in page(guest, "/healthz")
    guest.check("systemctl stop profsend; systemctl stop profgate")
    assert (shown(guest, "profgate", "Result"), shown(guest, "profgate", "ExecMainStatus")) == ("success", "0"), journal(guest, "profgate")


def test_the_gateway_with_a_user_of_its_own_and_a_low_port(guest):
    """As the unit's comments say: files for the group, the capability for ports below 1024 by a drop-in."""
    guest.check("echo profgate:x:990: >>/etc/group; echo profgate:x:990:990::/:/bin/false >>/etc/passwd; mkdir -p /etc/profgate; "
                "echo secret somebody >/etc/profgate/tokens; chgrp profgate /etc/profgate/tokens; chmod 640 /etc/profgate/tokens")
    configure(guest, "profgate", "receivers: { otlp: [{ endpoint: 127.0.0.1:443, auth: { bearer_tokens_file: /etc/profgate/tokens } }] }\n")
    drop_in = re.search(r"^#   (\[Service\]\n(?:#   .*\n)+)", UNITS["profgate"].read_text(), re.M).group(1).replace("#   ", "")
    guest.put("/etc/systemd/system/profgate.service.d/override.conf", drop_in)
    guest.check("systemctl daemon-reload; systemctl start profgate")
    until(guest, lambda: "ok" in page(guest, "/healthz") or shown(guest, "profgate", "ActiveState") == "failed", "the gateway to be healthy")
    assert shown(guest, "profgate", "ActiveState") == "active", journal(guest, "profgate")
    status = guest.read(f"/proc/{process(guest, 'profgate')}/status")
    assert re.search(r"^Uid:\s+990\s", status, re.M) and re.search(r"^CapEff:\s+0000000000000400$", status, re.M), status
    assert "refused" not in guest.run("wget -q -O - http://127.0.0.1:443/")[1]
    guest.check("systemctl stop profgate")
    assert shown(guest, "profgate", "Result") == "success"
