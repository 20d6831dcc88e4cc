"""What profsend says of processes when it is asked to, and whose samples it sends under which rules."""
import concurrent.futures
import contextlib
import getpass
import http.server
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import urllib.request

import pytest
from handmade import field
from profiles import started
from programs import BUILD, PATIENCE, Process, running, wait_for
from test_profsend_kinds import SIGMAS, Kinds, profiled, truth  # noqa: F401 (truth is a fixture)

CGROUPS = next((p for p in map(pathlib.Path, ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")) if (p / "cgroup.procs").exists()), None)
UID = "6f1c4c1e-1f1d-4a7e-9a3b-000000000001"


def test_command_line_owner_and_chosen_variables(truth):
    command = ["env", "STAGE=canary", "TOKEN=hunter2", truth, "spin", "1"]
    with Kinds() as receiver:
        (pid, _), = profiled(receiver, ["--frequency", "97", "--include", "executable=pg-truth", "--command-line", "--owner", "--env",
                                        "STAGE", "--env", "NONE"], command)
        about = receiver.resources[pid]
        assert about["process.command_line"] == f"{truth} spin 1" and about["process.owner"] == getpass.getuser(), about
        assert about["process.environment_variable.STAGE"] == "canary"
        assert not [key for key in about if key.startswith("process.environment_variable") and not key.endswith("STAGE")], about


def test_rules_choose_and_rename(truth, tmp_path):
    """One program whose samples are thinned, one whose are not sent, one that is as it is: what is sent adds up to the CPU time."""
    thinned, dropped = (shutil.copy(truth, tmp_path / f"pg-{name}") for name in ("thinned", "dropped"))
    (tmp_path / "profsend.yaml").write_text(
        "relabel:\n"
        "  - { source_labels: [process.executable.name], regex: pg-thinned, action: sample, share: 20% }\n"
        "  - { source_labels: [process.executable.name], regex: pg-dropped, action: drop }\n"
        "  - { source_labels: [process.executable.name], regex: 'pg-(.*)', target_label: program }\n"
        "  - { regex: 'os[.].*', action: labeldrop }\n")
    with Kinds() as receiver:
        said = profiled(receiver, ["--config", tmp_path / "profsend.yaml", "--frequency", "397", "--include", "executable=pg-thinned",
                                   "--include", "executable=pg-dropped", "--include", "executable=pg-truth"],
                        *[[program, "spin", "1.5"] for program in (thinned, dropped, truth)])
        (few, cpu), (none, _), (all_of_it, whole) = said
        assert none not in receiver.resources
        assert receiver.resources[few]["program"] == "thinned" and receiver.resources[all_of_it]["program"] == "truth"
        assert not [key for about in receiver.resources.values() for key in about if key.startswith("os.")]
        periods = {pid: period for pid, kind, period, _ in receiver.profiles if kind == "samples/count"}
        assert periods[few] == pytest.approx(5 * periods[all_of_it], abs=3)
        assert {a.get("profsend.sampling.probability") for pid, _, _, a in receiver.profiles if pid == few} == {"0.2"}
        for pid, spent in ((few, cpu["cpu"]), (all_of_it, whole["cpu"])):
            hits = receiver.total(pid, "samples/count")
            far = SIGMAS * math.sqrt(spent * 1e9 / periods[pid]) + 0.05 * hits  # and what it took to begin and end
            assert hits == pytest.approx(spent * 1e9 / periods[pid], abs=far), (pid, hits, spent, periods)


def container_id(n):
    return f"{n:064x}"


_numbers = itertools.count()


def own(path):
    """The same folder for nobody else: other tests run beside this one."""
    return f"pg-{os.getpid()}-{next(_numbers)}-{path}"


@contextlib.contextmanager
def cgroups(*paths):
    """Folders below the root of cgroup version 2, and those above them that were not there."""
    if not CGROUPS or not os.access(CGROUPS / "cgroup.procs", os.W_OK):
        pytest.skip("no cgroups can be made here")
    made = []
    try:
        for path in paths:
            at = CGROUPS
            for part in path.split("/"):
                at = at / part
                if not at.exists():
                    at.mkdir()
                    made.append(at)
        yield
    finally:
        for folder in reversed(made):
            wait_for(lambda: not (folder / "cgroup.procs").read_text().strip(), "an empty cgroup")  # noqa: B023
            folder.rmdir()


def within(path, *command):
    return ["sh", "-c", f'echo $$ >{CGROUPS / path}/cgroup.procs; exec "$@"', "sh", *command]


def cri_container(identity, pod, space, name):
    labels = {"io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": space, "io.kubernetes.pod.uid": UID,
              "io.kubernetes.container.name": name}
    return field(1, field(1, identity) + field(2, container_id(99)) + b"".join(field(8, field(1, k) + field(2, v)) for k, v in labels.items()))


@contextlib.contextmanager
def runtime(path, containers):
    """A container runtime's socket that answers ListContainers with what `containers` gives."""
    import grpc
    asked = []

    def answer(request, _):
        asked.append(request)
        return b"".join(containers())

    handler = grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", {
        "ListContainers": grpc.unary_unary_rpc_method_handler(answer)})
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), handlers=[handler])
    server.add_insecure_port(f"unix:{path}")
    server.start()
    try:
        yield asked
    finally:
        server.stop(None).wait()


# As the runtimes' drivers of cgroups name them (kubelet pkg/kubelet/cm, containerd's and CRI-O's cgroup managers, docker).
DRIVERS = {
    "containerd-systemd": "kube.slice/kubepods-burstable-pod{pod}.slice/cri-containerd-{id}.scope",
    "crio-systemd": "kube.slice/kubepods-besteffort-pod{pod}.slice/crio-{id}.scope",
    "containerd-cgroupfs": "kubepods/burstable/pod{dashed}/{id}",
    "docker-systemd": "kube.slice/docker-{id}.scope",
}


def start(*arguments, **options):
    sender = Process([BUILD / "profsend", *arguments], **options)
    started(sender)
    return sender


def named(receiver, where, programs):
    """Runs the programs under profsend until each has the name of a pod: what is said of each. Names come when they come."""
    sender = start("--endpoint", receiver.url, "--protocol", "http/protobuf", "--interval", "1s", "--frequency", "97", "--include",
                   "executable=pg-truth", "--kubernetes", where)
    with running(sender):
        at_work = [Process(program) for program in programs]
        with running(*at_work):
            wait_for(lambda: all("k8s.pod.name" in receiver.resources.get(p.pid, {}) for p in at_work), "names of pods")
        assert sender.stop() == 0, sender.log()
    assert not receiver.errors, receiver.errors[0]
    return [receiver.resources[p.pid] for p in at_work]


def test_a_runtime_names_pods(truth, tmp_path):
    paths = {name: own(path.format(pod=UID.replace("-", "_"), dashed=UID, id=container_id(i)))
             for i, (name, path) in enumerate(DRIVERS.items())}
    late = len(paths)
    paths["late"] = own(f"kubepods/besteffort/pod{UID}/{container_id(late)}")
    containers = [cri_container(container_id(i), f"{name}-0", "shop", "app") for i, name in enumerate(DRIVERS)]

    def known():  # the last one comes when some were asked for
        return containers + ([cri_container(container_id(late), "late-0", "shop", "proxy")] if len(asked) > 1 else [])

    with cgroups(*paths.values()), runtime(tmp_path / "cri.sock", known) as asked, Kinds() as receiver:
        said = named(receiver, f"unix:{tmp_path}/cri.sock", [within(path, truth, "spin", "600") for path in paths.values()])
        for about, (name, path) in zip(said, paths.items()):
            assert about["container.id"] in path, (name, about)
            assert about["k8s.pod.name"] == f"{name}-0" and about["k8s.namespace.name"] == "shop", (name, about)
            assert about["k8s.container.name"] == ("proxy" if name == "late" else "app"), (name, about)
            assert about.get("k8s.pod.uid") == (None if name.startswith("docker") else UID), (name, about)
        assert len(asked) >= 2 and not any(asked), asked


class Kubelet(http.server.BaseHTTPRequestHandler):
    answer = b""

    def do_GET(self):
        self.send_response(200 if self.path == "/pods" else 404)
        self.send_header("content-length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_):
        pass


def test_a_kubelet_names_pods(truth):
    path = own(f"kubepods/pod{UID}/{container_id(7)}")
    pods = {"kind": "PodList", "items": [
        {"metadata": {"name": "cart-0", "namespace": "shop", "uid": UID},
         "status": {"containerStatuses": [{"name": "app", "containerID": f"containerd://{container_id(7)}"}]}}]}
    kubelet = type("Handler", (Kubelet,), {"answer": json.dumps(pods).encode()})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kubelet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with cgroups(path), Kinds() as receiver:
            about, = named(receiver, f"http://127.0.0.1:{server.server_address[1]}", [within(path, truth, "spin", "600")])
            assert (about["k8s.pod.name"], about["k8s.namespace.name"], about["k8s.container.name"]) == ("cart-0", "shop", "app")
    finally:
        server.shutdown()
        server.server_close()


def test_a_runtime_that_never_answers_keeps_nothing(truth, tmp_path):
    """It takes the connection and says nothing: samples are sent without names of pods."""
    path = own(f"kubepods/pod{UID}/{container_id(8)}")
    with socket.socket(socket.AF_UNIX) as listener, cgroups(path), Kinds() as receiver:
        listener.bind(str(tmp_path / "cri.sock"))
        listener.listen()
        (pid, said), = profiled(receiver, ["--frequency", "97", "--include", "executable=pg-truth", "--kubernetes",
                                           f"unix:{tmp_path}/cri.sock"], within(path, truth, "spin", "1"))
        about = receiver.resources[pid]
        assert about["container.id"] == container_id(8) and "k8s.pod.name" not in about, about
        assert receiver.total(pid, "samples/count") == pytest.approx(97 * said["cpu"], abs=SIGMAS * math.sqrt(97 * said["cpu"]))


def test_prometheus_is_told_the_figures():
    with running(start("--endpoint", "http://127.0.0.1:1", "--status", "127.0.0.1:0", "--frequency", "97")) as sender:
        port = wait_for(lambda: re.search(r"status page at port (\d+)", sender.log()), "the status page").group(1)

        def metrics():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics?x=1", timeout=PATIENCE) as response:
                assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
                return response.read().decode()

        text = wait_for(lambda: (t := metrics()) and re.search(r"^profsend_samples_total [1-9]", t, re.M) and t, "a sample counted")
        for line in text.splitlines():
            assert re.fullmatch(r"# (HELP|TYPE) [a-z_]+ .+|[a-z_]+(\{[a-z]+=\"[a-z_]+\"\})? [0-9.e+-]+", line), line
        if shutil.which("promtool"):
            checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=PATIENCE)
            assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_service_manager_is_told(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE)

        def told():  # what else than that it lives
            while (text := manager.recv(4096).decode()) == "WATCHDOG=1":
                pass
            return text

        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        with running(start("--endpoint", "http://127.0.0.1:1", env=environment)) as sender:
            assert told() == "READY=1"
            assert [manager.recv(4096) for _ in range(3)] == [b"WATCHDOG=1"] * 3
            sender.process.send_signal(signal.SIGHUP)
            assert told().startswith("RELOADING=1\nMONOTONIC_USEC=")
            assert told() == "READY=1"
            sender.process.send_signal(signal.SIGTERM)
            assert told() == "STOPPING=1"
            assert sender.wait() in (0, 1), sender.log()  # nobody took the samples
