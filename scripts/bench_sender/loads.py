"""Programs that make this machine busy (tests/sender/load), built once."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/sender/load"
SHORT_RATE = 500


class Loads:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for source, name in (("busy", "pg-busy"), ("short", "pg-short"), ("short", "pg-spawn"), ("switching", "pg-switching")):
            subprocess.run(["gcc", "-O2", "-fomit-frame-pointer", SOURCE / f"{source}.c", "-o", self.folder / name, "-lpthread"],
                           check=True)
        self.mixed = [("C", [self.folder / "pg-busy"]), ("Python", [sys.executable, SOURCE / "busy.py"])]
        go = shutil.which("go") or "/usr/local/go/bin/go"
        if os.path.exists(go) and subprocess.run([go, "build", "-o", self.folder / "pg-busy-go", SOURCE / "busy.go"]).returncode == 0:
            self.mixed.append(("Go", [self.folder / "pg-busy-go"]))
        if shutil.which("node"):
            self.mixed.append(("Node.js", ["node", SOURCE / "busy.js"]))
        if shutil.which("javac") and subprocess.run(["javac", "-d", self.folder, SOURCE / "Busy.java"]).returncode == 0:
            self.mixed.append(("Java", ["java", "-Xmx256m", "-cp", self.folder, "Busy"]))

    def start(self, case, seconds):
        """The processes of a case; the one of "short" says at its end what there was (said)."""
        programs = []
        if case == "mixed":
            programs = [argv for _, argv in self.mixed]
        elif case == "short":
            programs = [[self.folder / "pg-spawn", str(SHORT_RATE), str(seconds), self.folder / "pg-short"]]
        elif case == "switching":
            programs = [[self.folder / "pg-switching"]]
        return [subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE if case == "short" else subprocess.DEVNULL,
                                 text=True) for argv in programs]


def said(process):
    """What the starter of short processes prints: processes, cpu (seconds), failed."""
    return dict(re.findall(r"(\w+)=(\S+)", process.communicate(timeout=120)[0]))


def stop(processes):
    for process in processes:
        process.kill()
        process.wait()
