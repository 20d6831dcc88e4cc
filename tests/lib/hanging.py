"""A disk that does not answer."""
import os
import pathlib
import re
import signal
import subprocess

import pytest
from programs import Process, running, wait_for

# A file system of one folder, by Debian's python3-fusepy. Stopped, it is what a server is that is gone behind a mount by NFS.
KEEPS = """
import os, sys
sys.path.insert(0, "/usr/lib/python3/dist-packages")
import fusepy
class Keeps(fusepy.Operations):
    def getattr(self, path, fh=None):
        st = os.lstat(sys.argv[1] + path)
        return {k: getattr(st, k) for k in dir(st) if k in ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")}
    def create(self, path, mode, fi=None): return os.open(sys.argv[1] + path, os.O_RDWR | os.O_CREAT, mode)
    def open(self, path, flags): return os.open(sys.argv[1] + path, os.O_RDWR)
    def read(self, path, n, offset, fh): return os.pread(fh, n, offset)
    def write(self, path, data, offset, fh): return os.pwrite(fh, data, offset)
    def truncate(self, path, n, fh=None): os.truncate(sys.argv[1] + path, n)
    def fsync(self, path, data_only, fh): os.fsync(fh)
    def unlink(self, path): os.unlink(sys.argv[1] + path)
    def rename(self, old, new): os.rename(sys.argv[1] + old, sys.argv[1] + new)
    def readdir(self, path, fh): return [".", "..", *os.listdir(sys.argv[1] + path)]
fusepy.FUSE(Keeps(), sys.argv[2], foreground=True, nothreads=True)
"""


@pytest.fixture
def hanging(tmp_path):
    """A folder on a file system that answers, and its server."""
    if not pathlib.Path("/usr/lib/python3/dist-packages/fusepy.py").exists() or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("no FUSE here (apt-get install fuse3 python3-fusepy)")
    (tmp_path / "source").mkdir()
    mount = tmp_path / "mount"
    mount.mkdir()
    with running(Process(["/usr/bin/python3", "-c", KEEPS, tmp_path / "source", mount])) as server:
        try:
            wait_for(lambda: os.path.ismount(mount) or not server.alive(), "a mount")
            if not server.alive():
                pytest.skip(f"nothing can be mounted here: {server.log()[-200:]}")
            yield mount, server
        finally:
            server.process.send_signal(signal.SIGCONT)
            subprocess.run(["umount", "-l", mount], capture_output=True)


def ends_without_the_disk(process, server):
    """Its exit code. FUSE, unlike NFS, lets no thread die that waits for an answer: the process has ended but for that."""
    process.process.send_signal(signal.SIGTERM)
    main = pathlib.Path(f"/proc/{process.pid}/status")
    wait_for(lambda: re.search(r"^State:\s+Z", main.read_text(), re.M), "the end")
    server.process.send_signal(signal.SIGCONT)
    return process.wait()
