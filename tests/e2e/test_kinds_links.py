"""What threads say they work for (OTEP 4947), and what OBI's shared map says, becomes links and attributes of their samples, and
the gateway's exemplars."""
import collections
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import urllib.request

import pytest
from profiles import Receiver, started
from programs import BUILD, PATIENCE, ROOT, Gateway, Process, running, wait_for

SOURCE = ROOT / "tests/sender"
THREADS = ("linked", "other", "late", "plain", "invalid", "odd", "gone", "ids", "pg-links")
Said = collections.namedtuple("Said", "pid thread trace span attributes")


class Links(Receiver):
    """Counts hits by what they are linked to."""

    def __init__(self):
        super().__init__()
        self.hits = collections.Counter()
        self.times = []  # (when, CPU, Said)
        self.services = {}

    def _add(self, request):
        d = request.dictionary
        assert not any(d.link_table[0].trace_id) and not any(d.link_table[0].span_id)
        for resource in request.resource_profiles:
            about = {a.key: a.value.string_value or a.value.int_value for a in resource.resource.attributes}
            pid = about["process.pid"]
            self.services[pid] = about.get("service.name")
            for sample in (s for scope in resource.scope_profiles for p in scope.profiles for s in p.samples):
                pairs = [(d.string_table[d.attribute_table[i].key_strindex], d.attribute_table[i].value.string_value)
                         for i in sample.attribute_indices]
                own = dict(pairs)
                assert len(own) == len(pairs), pairs  # every name once
                link = d.link_table[sample.link_index] if sample.link_index else d.link_table[0].__class__()
                rest = tuple(sorted((k, v) for k, v in own.items() if k.partition(".")[0] not in ("thread", "cpu", "profsend")))
                said = Said(pid, own["thread.name"], link.trace_id.hex(), link.span_id.hex(), rest)
                self.hits[said] += len(sample.timestamps_unix_nano)
                cpu = next(d.attribute_table[i].value.int_value for i in sample.attribute_indices
                           if d.string_table[d.attribute_table[i].key_strindex] == "cpu.logical_number")
                self.times += [(when, cpu, said) for when in sample.timestamps_unix_nano]

    def of(self, pid, thread):
        return {s: n for s, n in self.hits.copy().items() if s.pid == pid and s.thread == thread}

    def known(self, pid):
        """Hits of a process by thread and what was said, on each CPU since the first one there that is linked. (Not on all
        since the first on any: a sample that began just before it was known where to look, and looked when it was, is no
        word about one that began and looked in between on another CPU.)"""
        found, since = collections.defaultdict(collections.Counter), {}
        for when, cpu, said in sorted(self.times[:]):
            if said.pid != pid:
                continue
            if said.trace:
                since.setdefault(cpu, when)
            if when > since.get(cpu, 1 << 63):
                found[said.thread][said[2:]] += 1
        return found


def sender(endpoint, *arguments):
    return Process([BUILD / "profsend", "--endpoint", endpoint, "--protocol", "http/protobuf", "--frequency", "499", "--interval", "1s",
                    *arguments])


def cc(*arguments, compiler="gcc"):
    done = subprocess.run([compiler, "-O2", "-Wall", "-Wextra", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# How the variable is reached: flags of the library, or of the program that has it itself.
LIBRARIES = {
    "descriptor": ["-mtls-dialect=gnu2"],
    "descriptor, lazy": ["-mtls-dialect=gnu2", "-Wl,-z,lazy"],
    "descriptor, protected": ["-mtls-dialect=gnu2", "-Wl,-Bsymbolic"],
    "general dynamic": ["-mtls-dialect=gnu"],
    "initial exec": ["-ftls-model=initial-exec"],
    "no section headers": ["-mtls-dialect=gnu2", "-s"],
    "old hash table": ["-mtls-dialect=gnu2", "-Wl,--hash-style=sysv"],
}
PROGRAMS = {
    "in a program": ["-rdynamic"],
    "in a program, no PIE": ["-rdynamic", "-no-pie"],
    "in a program, by descriptor": ["-rdynamic", "-fPIC", "-mtls-dialect=gnu2"],
    "in a static program": ["-static-pie", "-Wl,--export-dynamic-symbol=otel_thread_ctx_v1"],
}


def build(folder, name):
    """The command of one program."""
    program, library = folder / "pg-links", folder / "context.so"
    if name in LIBRARIES or name.startswith("musl"):
        compiler = "musl-gcc" if name.startswith("musl") else "gcc"
        if not shutil.which(compiler):
            pytest.skip(f"no {compiler}")
        flags = LIBRARIES.get(name, ["-mtls-dialect=gnu2" if "descriptor" in name else "-mtls-dialect=gnu"])
        cc("-fPIC", "-shared", *flags, SOURCE / "contextlib.c", "-o", library, compiler=compiler)
        cc(SOURCE / "context.c", "-o", program, "-lpthread", "-ldl", compiler=compiler)
        if name == "no section headers":
            data = bytearray(library.read_bytes())
            data[0x28:0x30], data[0x3a:0x40] = bytes(8), bytes(6)
            library.write_bytes(data)
        return [program, 0, library]
    cc(*PROGRAMS[name], "-DLINKED", SOURCE / "context.c", SOURCE / "contextlib.c", "-o", program, "-lpthread")
    return [program, 0]


def trace(byte):
    return f"{byte:02x}" * 16, f"{byte + 16 & 255:02x}" * 8


@pytest.mark.parametrize("name", [*LIBRARIES, *PROGRAMS, "musl, descriptor", "musl, general dynamic"])
def test_samples_carry_what_their_thread_says(tmp_path, name):
    command = build(tmp_path, name)
    early, late = (*trace(0xd7), ()), (*trace(0xd7), (("added.later", "seen"),))
    with Links() as receiver:
        profiler = sender(receiver.url, "--include", "executable=pg-links")
        with running(profiler):
            started(profiler)
            program = Process(command)
            with running(program):
                # The first samples may come before it is known where to look; from then on every one counts.
                def enough():
                    known = receiver.known(program.pid)
                    return all(sum(known[thread].values()) > 5 for thread in THREADS) and known["late"][late] > 5 or receiver.errors
                wait_for(lambda: receiver.known(program.pid)["late"][early] > 5 or receiver.errors, "samples without the key")
                program.process.send_signal(signal.SIGUSR1)
                wait_for(enough, "samples of every thread")
                # Before the program ends: what a thread says is in its memory, which is gone while it is being killed.
                assert profiler.stop() == 0, profiler.log()
    assert not receiver.errors, receiver.errors[0]
    assert receiver.services[program.pid] == "links-service"
    known = receiver.known(program.pid)
    assert set(known["linked"]) == {(*trace(0xa1), (("http.route", "/cart"), ("user.tier", "gold")))}, known["linked"]
    assert set(known["other"]) == {(*trace(0xb2), ())}, known["other"]
    assert set(known["late"]) == {early, late}, known["late"]
    for thread in THREADS[3:]:
        assert set(known[thread]) == {("", "", ())}, (thread, known[thread])


def test_without_a_process_context_nothing_is_read(tmp_path):
    """OTEP 4947, "Reading Protocol" 1.2: the reader waits for the threadlocal keys."""
    program = build(tmp_path, "descriptor")
    text = (SOURCE / "context.c").read_text().replace('"tlsdesc_v1_dev"', '"go_pprof_labels_v1"')
    (tmp_path / "other.c").write_text(text)
    cc(tmp_path / "other.c", "-o", program[0], "-lpthread", "-ldl")
    with Links() as receiver:
        profiler = sender(receiver.url, "--include", "executable=pg-links")
        with running(profiler):
            started(profiler)
            busy = Process(program)
            with running(busy):
                wait_for(lambda: sum(receiver.of(busy.pid, "linked").values()) > 50, "samples")
            assert profiler.stop() == 0, profiler.log()
    assert not any(s.trace for s in receiver.hits if s.pid == busy.pid), receiver.hits


def test_another_program_is_not_read_by_the_place_of_the_first(tmp_path):
    """After execve the pid is the same, the start too; the place is forgotten."""
    program = build(tmp_path, "in a program")
    spin = tmp_path / "pg-links-2"
    (tmp_path / "spin.c").write_text("int main(void) { for (volatile unsigned long i = 0; ; i++) ; return 0; }")
    cc("-O0", tmp_path / "spin.c", "-o", spin)
    (tmp_path / "exec.c").write_text(
        '#define _GNU_SOURCE\n#include <unistd.h>\n#define main context_main\n#include "%s"\n#undef main\n'
        'int main(int argc, char **argv) { int r = context_main(argc, argv); return r ? r : execl("%s", "spin", (char *)0); }'
        % (SOURCE / "context.c", spin))
    cc("-rdynamic", "-DLINKED", tmp_path / "exec.c", SOURCE / "contextlib.c", "-o", program[0], "-lpthread")
    with Links() as receiver:
        profiler = sender(receiver.url, "--include", "executable=pg-links", "--include", "executable=pg-links-2")
        with running(profiler):
            started(profiler)
            busy = Process([program[0], -2])
            with running(busy):
                wait_for(lambda: sum(receiver.of(busy.pid, "pg-links-2").values()) > 50, "samples")
            assert profiler.stop() == 0, profiler.log()
    assert any(s.trace for s in receiver.of(busy.pid, "linked")), receiver.hits
    after = receiver.of(busy.pid, "pg-links-2")
    assert sum(after.values()) > 50 and not any(s.trace for s in after), after


@pytest.fixture
def bpffs(tmp_path):
    folder = tmp_path / "bpf"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "bpf", "bpf", folder], capture_output=True).returncode != 0:
        pytest.skip("no bpffs can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def tool(*arguments):
    bpftool = shutil.which("bpftool") or "/usr/sbin/bpftool"
    return subprocess.run([bpftool, *map(str, arguments)], capture_output=True, text=True)


def test_a_thread_s_trace_is_asked_of_obi_s_map(tmp_path, bpffs):
    program = build(tmp_path, "in a program")
    at = bpffs / "otel/traces_ctx_v1"
    at.parent.mkdir()
    made = tool("map", "create", at, "type", "lru_hash", "key", 8, "value", 24, "entries", 16384, "name", "traces_ctx_v1")
    if made.returncode != 0:
        pytest.skip(f"no map can be made here: {made.stderr}")
    with Links() as receiver:
        profiler = sender(receiver.url, "--include", "executable=pg-links", "--trace-map", at)
        with running(profiler):
            started(profiler)
            busy = Process([program[0], 0])
            with running(busy):
                def tids():
                    named = {(t / "comm").read_text().strip(): int(t.name) for t in pathlib.Path(f"/proc/{busy.pid}/task").iterdir()}
                    return named if {"plain", "linked"} <= set(named) else None
                named = wait_for(tids, "its threads")
                for thread, byte in (("plain", 0x11), ("linked", 0x12)):
                    key = struct.pack("<Q", busy.pid << 32 | named[thread])
                    value = bytes([byte]) * 16 + bytes([byte + 1]) * 8
                    done = tool("map", "update", "pinned", at, "key", *key, "value", *value)
                    assert done.returncode == 0, done.stderr
                wanted = {"plain": ("11" * 16, "12" * 8), "linked": trace(0xa1)}  # what a thread says of itself goes before

                def linked(thread):
                    return sum(n for s, n in receiver.of(busy.pid, thread).items() if (s.trace, s.span) == wanted[thread])
                wait_for(lambda: linked("plain") > 20 and linked("linked") > 20, "links")
            assert profiler.stop() == 0, profiler.log()
    assert at.exists()  # it stays for the other side
    assert {s.trace for s in receiver.of(busy.pid, "plain")} <= {"", "11" * 16}, receiver.hits
    assert {s.trace for s in receiver.of(busy.pid, "linked")} <= {"", "12" * 16, "a1" * 16}, receiver.hits
    assert not any(s.trace for s in receiver.of(busy.pid, "gone")), receiver.hits


def test_whoever_comes_first_makes_obi_s_map(bpffs):
    at = bpffs / "otel/traces_ctx_v1"
    with Links() as receiver:
        profiler = sender(receiver.url, "--trace-map", at, "--duration", "1s")
        with running(profiler):
            started(profiler)
            shown = tool("-j", "map", "show", "pinned", at)
            assert profiler.wait() == 0, profiler.log()
    assert '"type":"lru_hash"' in shown.stdout and '"max_entries":16384' in shown.stdout and '"bytes_value":24' in shown.stdout, shown


def test_a_map_of_another_shape_is_refused(bpffs):
    at = bpffs / "traces_ctx_v1"
    if tool("map", "create", at, "type", "lru_hash", "key", 4, "value", 24, "entries", 64, "name", "traces_ctx_v1").returncode != 0:
        pytest.skip("no map can be made here")
    done = subprocess.run([BUILD / "profsend", "--print", "--duration", "1s", "--trace-map", at], capture_output=True, text=True)
    assert done.returncode == 3, (done.returncode, done.stderr)


def test_a_map_that_is_no_file_of_bpf_is_refused(tmp_path, monkeypatch):
    """In words of its own: the kernel's answer is that of one that is too old."""
    monkeypatch.chdir(tmp_path)
    for at in (tmp_path / "map", tmp_path / "none/such/map", "map"):
        done = subprocess.run([BUILD / "profsend", "--print", "--duration", "0.1s", "--trace-map", at], capture_output=True, text=True)
        assert done.returncode == 3 and f"--trace-map: {at} is not on a BPF file system" in done.stderr, done.stderr


def test_a_map_that_others_may_write_is_refused(bpffs):
    at = bpffs / "otel/traces_ctx_v1"
    at.parent.mkdir()
    if tool("map", "create", at, "type", "lru_hash", "key", 8, "value", 24, "entries", 16384, "name", "traces_ctx_v1").returncode != 0:
        pytest.skip("no map can be made here")

    def refused():
        done = subprocess.run([BUILD / "profsend", "--print", "--duration", "0.1s", "--trace-map", at], capture_output=True, text=True)
        return done.returncode, done.stderr

    assert refused()[0] == 0
    at.chmod(0o666)
    os.chown(at, 65534, 65534)
    code, text = refused()
    assert code == 3 and f"{at} belongs to uid 65534" in text, text
    os.chown(at, 0, 0)
    os.chown(at.parent, 65534, 65534)
    code, text = refused()
    assert code == 3 and f"{at.parent} belongs to uid 65534" in text, text
    os.chown(at.parent, 0, 0)
    at.parent.chmod(0o777)
    code, text = refused()
    assert code == 3 and f"into {at.parent}" in text, text
    at.parent.chmod(0o1777)
    assert refused()[0] == 0


def test_the_gateway_keeps_them_as_exemplars(tmp_path):
    command = build(tmp_path, "descriptor")
    with running(Gateway()) as gateway:
        profiler = sender(f"http://127.0.0.1:{gateway.ports[0]}", "--include", "executable=pg-links")
        with running(profiler):
            started(profiler)
            request = urllib.request.Request(f"http://127.0.0.1:{gateway.admin}/metrics?collect[]=profiles",
                                             headers={"Accept": "application/openmetrics-text; version=1.0.0"})

            def exemplars():
                text = urllib.request.urlopen(request, timeout=PATIENCE).read().decode()
                return [line for line in text.splitlines() if " # {" in line]
            with running(Process(command)):
                found = wait_for(exemplars, "exemplars")
            assert profiler.stop() == 0, profiler.log()
    traces = {f'trace_id="{t}",span_id="{s}"' for t, s in map(trace, (0xa1, 0xb2, 0xd7))}
    assert all(any(t in line for t in traces) for line in found), found[0]
