"""Where profsend runs and whom it is told to sample: what cannot work is said."""
import os
import pathlib
import shutil
import subprocess

import pytest
from programs import BUILD, PATIENCE, Process, free_port, running, wait_for
from test_profsend_kinds import Kinds, profiled, truth  # noqa: F401 (truth is a fixture)


def profsend(*arguments, before=()):
    done = subprocess.run([*before, BUILD / "profsend", "--print", *arguments], capture_output=True, text=True, timeout=PATIENCE)
    if done.returncode == 3 and "CAP_" in done.stderr:
        pytest.skip(f"profiling is not permitted here: {done.stderr.strip()[-200:]}")
    return done


def test_a_pid_namespace_of_its_own_is_refused():
    if subprocess.run(["unshare", "-p", "-f", "--mount-proc", "true"]).returncode:
        pytest.skip("no pid namespace can be made here")
    done = profsend("--duration", "1s", before=["unshare", "-p", "-f", "--mount-proc"])
    assert done.returncode == 3 and "PID namespace" in done.stderr and "--pid=host" in done.stderr, (done.returncode, done.stderr)


def test_the_host_s_proc_in_another_pid_namespace_is_fine():
    if subprocess.run(["unshare", "-p", "-f", "true"]).returncode:
        pytest.skip("no pid namespace can be made here")
    done = profsend("--duration", "1s", before=["unshare", "-p", "-f"])
    assert done.returncode == 0, (done.returncode, done.stderr)


@pytest.mark.parametrize("arguments, says", [
    (["--pid", "4194300"], "--pid 4194300: there is no such process"),
    (["--include", "executable=no-such-prog"], "nothing has run that --pid, --include and --exclude let through"),
])
def test_what_matches_nothing_is_said(arguments, says):
    done = profsend("--duration", "2s", *arguments)
    assert done.returncode == 0 and says in done.stderr, (done.returncode, done.stderr)


def test_a_program_that_runs_is_no_reason_to_say_so(truth):
    with running(Process([truth, "spin", "600"])) as busy:
        done = profsend("--duration", "2s", "--frequency", "97", "--pid", str(busy.pid))
    assert done.returncode == 0 and "no sample" not in done.stderr and "no such process" not in done.stderr, done.stderr


def test_without_cpu_samples_it_does_not_speak_of_cpus():
    done = profsend("--duration", "1s", "--no-cpu", "--event", "page-faults/16")
    assert done.returncode == 0 and "sampling events, not CPU time" in done.stderr and "CPUs at" not in done.stderr, done.stderr


def test_a_small_limit_of_open_files_is_said():
    done = profsend("--duration", "1s", before=["sh", "-c", 'ulimit -n 128; exec "$@"', "sh"])
    assert done.returncode == 0 and "no more than 128 files may be open" in done.stderr, (done.returncode, done.stderr)


def test_a_small_memory_limit_is_said():
    parent = pathlib.Path("/sys/fs/cgroup")
    group = parent / f"pg-small-{os.getpid()}"
    if not os.access(parent / "cgroup.subtree_control", os.W_OK) or "memory" not in (parent / "cgroup.subtree_control").read_text():
        pytest.skip("no cgroup with a memory limit can be made here")
    group.mkdir()
    try:
        (group / "memory.max").write_text(str(60 << 20))
        done = profsend("--duration", "1s", before=["sh", "-c", f'echo $$ >{group}/cgroup.procs; exec "$@"', "sh"])
        assert "memory limit of our cgroup is 60 MiB" in done.stderr, (done.returncode, done.stderr)
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text().strip(), "an empty cgroup")
        group.rmdir()


def test_a_program_begun_by_its_linker_has_its_own_name(truth):
    linker = pathlib.Path("/lib64/ld-linux-x86-64.so.2")
    if not linker.exists():
        pytest.skip("glibc's dynamic linker is not here")
    with Kinds() as receiver:
        (pid, _), = profiled(receiver, ["--frequency", "97"], [linker, truth, "spin", "1"])
        assert receiver.resources[pid]["process.executable.name"] == "pg-truth"
        assert receiver.resources[pid]["process.executable.path"] == str(truth)
