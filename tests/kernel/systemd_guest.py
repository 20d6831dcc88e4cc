"""A guest (guest.py) whose first process is systemd: this machine's own, with Debian's units for what a host's are there for."""
import pathlib

from guest import Image

SYSTEMD = pathlib.Path("/lib/systemd/systemd")
UNITS = pathlib.Path("/lib/systemd/system")
PROGRAMS = ("/lib/systemd/systemd-journald", "/lib/systemd/systemd-sysctl", "/bin/systemctl", "/bin/journalctl",
            "/usr/bin/systemd-analyze")
SERVICES = ("systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-sysctl.service")
# What they are wanted by on Debian (systemctl list-dependencies).
WANTED = (("sockets.target", "systemd-journald.socket"), ("sockets.target", "systemd-journald-dev-log.socket"),
          ("sysinit.target", "systemd-journald.service"), ("sysinit.target", "systemd-sysctl.service"),
          ("multi-user.target", "shell.service"))

# As an initramfs hands over to a distribution's root: what systemd does to its root it cannot do to an initramfs.
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /bin /sbin /usr/bin /usr/sbin /root
/bin/busybox --install -s
mount -t proc proc /proc
for module in MODULE_LIST; do [ ! -f /modules/$module.ko ] || insmod /modules/$module.ko; done
ip link set lo up
ip link set eth0 up
ip address add 10.0.2.15/24 dev eth0
umount /proc
mount -t tmpfs -o mode=755 tmpfs /root
for name in *; do [ $name = root ] || [ $name = modules ] || cp -a $name /root/; done
cd /root
mkdir -p proc sys dev run root home var/lib var/log var/tmp tmp
chmod 1777 tmp var/tmp
exec switch_root /root /lib/systemd/systemd
"""

SHELL = """[Unit]
Description=The shell of the test
After=basic.target network.target

[Service]
Environment=PATH=/usr/local/bin:/bin:/sbin:/usr/bin:/usr/sbin
WorkingDirectory=/
ExecStart=/bin/sh -c 'exec 3<>/dev/ttyS1; stty -F /dev/ttyS1 raw -echo 115200; echo ready >&3; exec sh /dev/ttyS1 >&3 2>&1 </dev/null'
"""


def missing():
    """Why there can be no such guest here, or None."""
    for path in (SYSTEMD, *map(pathlib.Path, PROGRAMS)):
        if not path.exists():
            return f"no {path} here"
    return None


class SystemdImage(Image):
    def __init__(self, root):
        super().__init__(root, INIT)
        for path in (SYSTEMD, *PROGRAMS):
            self.add(path)
        for path in sorted(UNITS.glob("*.target")) + [UNITS / name for name in SERVICES]:
            self.put(path, 0o644, path.read_bytes())  # (a link's target by the link's name)
        for target, unit in WANTED:
            self.link(f"/etc/systemd/system/{target}.wants/{unit}",
                      f"/etc/systemd/system/{unit}" if unit == "shell.service" else UNITS / unit)
        self.put("/etc/systemd/system/shell.service", 0o644, SHELL.encode())
        self.put("/etc/os-release", 0o644, pathlib.Path("/etc/os-release").read_bytes())
        for name in ("/usr/lib/x86_64-linux-gnu/libnss_systemd.so.2", "/lib/x86_64-linux-gnu/libnss_files.so.2"):
            if pathlib.Path(name).exists():
                self.add(name)
        self.put("/etc/nsswitch.conf", 0o644, b"passwd: files systemd\ngroup: files systemd\n")
