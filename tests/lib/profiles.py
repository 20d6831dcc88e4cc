"""A receiver of OTLP profiles over HTTP that keeps every stack by name: what profsend saw, without a gateway between."""
import collections
import os
import pathlib
import re
import subprocess
import threading

import pytest
from programs import BUILD, Process, running, wait_for
from sink import Sink, plain

FREQUENCY = 997  # of profsend()
LABEL = "process.context.label."

Stack = collections.namedtuple("Stack", "pid thread names files kinds incomplete first")


class Receiver(Sink):
    """with Receiver() as r: … r.url is the endpoint; r.stacks counts hits by Stack (names leaf first).

    Of Java's frames what is inlined is there, too; of others the innermost call alone.
    r.places has, by name and profile.frame.type, each (source file, line) that was told of such frames.
    r.resources has the attributes of each process, by pid.
    r.labels counts a process's hits by what its goroutines' labels are: pairs, sorted.
    r.times has, if they are asked for, when each hit was (Unix time, ns), and its stack.
    Stack.first: the hit was less than `first` seconds after the first one of its process.
    """

    def __init__(self, first=0.0, times=False):
        super().__init__()
        self.first_ns = int(first * 1e9)
        self.times = [] if times else None
        self.begun = {}
        self.stacks = collections.Counter()
        self.places = collections.defaultdict(set)
        self.resources = {}
        self.labels = collections.defaultdict(collections.Counter)
        self.lock = threading.Lock()

    def take(self, path, headers, body):
        from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
        request = service.ExportProfilesServiceRequest.FromString(plain(headers, body))
        with self.lock:
            self._add(request)

    def of(self, pid):
        """Hits by stack of one process."""
        with self.lock:
            return {stack: hits for stack, hits in self.stacks.items() if stack.pid == pid}

    def _add(self, request):
        d = request.dictionary

        def attributes(indices):
            found = {}
            for i in indices:
                a = d.attribute_table[i]
                kind = a.value.WhichOneof("value")
                found[d.string_table[a.key_strindex]] = getattr(a.value, kind) if kind else None
            return found

        frames = []
        for location in d.location_table:
            file = d.string_table[d.mapping_table[location.mapping_index].filename_strindex]
            kind = attributes(location.attribute_indices).get("profile.frame.type")
            calls = []
            for line in location.lines if kind == "jvm" else location.lines[:1]:
                function = d.function_table[line.function_index]
                name = d.string_table[function.name_strindex]
                calls.append((name or hex(location.address), file, kind))
                if name:
                    self.places[name, kind].add((d.string_table[function.filename_strindex], line.line))
            frames.append(calls or [(hex(location.address), file, kind)])
        begun = {}
        for resource in request.resource_profiles:
            pid = next((a.value.int_value for a in resource.resource.attributes if a.key == "process.pid"), None)
            times = [t for scope in resource.scope_profiles for profile in scope.profiles for sample in profile.samples
                     for t in sample.timestamps_unix_nano]
            self.resources[pid] = {a.key: getattr(a.value, a.value.WhichOneof("value") or "string_value") for a in resource.resource.attributes}
            begun[pid] = min(times + [begun.get(pid, 1 << 63)])
        for resource in request.resource_profiles:
            pid = next((a.value.int_value for a in resource.resource.attributes if a.key == "process.pid"), None)
            for scope in resource.scope_profiles:
                for profile in scope.profiles:
                    for sample in profile.samples:
                        own = attributes(sample.attribute_indices)
                        labels = tuple(sorted((key.removeprefix(LABEL), value) for key, value in own.items() if key.startswith(LABEL)))
                        self.labels[pid][labels] += len(sample.timestamps_unix_nano)
                        stack = [call for i in d.stack_table[sample.stack_index].location_indices for call in frames[i]]
                        names, files, kinds = zip(*stack) if stack else ((), (), ())
                        key = Stack(pid, own.get("thread.name"), names, files, kinds, own.get("profsend.stack.incomplete"), False)
                        for when in sample.timestamps_unix_nano:
                            late = when - self.begun.setdefault(pid, begun[pid]) >= self.first_ns
                            seen = key if late else key._replace(first=True)
                            self.stacks[seen] += 1
                            if self.times is not None:
                                self.times.append((when, seen))


def nearly_all(share, hits):
    """So many of `hits` at least where each is right with a probability of `share`: five standard deviations below."""
    return share * hits - 5 * ((1 - share) * hits) ** 0.5


def names_of(stack, kind):
    """Of the frames of one profile.frame.type, root first."""
    return tuple(name for name, of in zip(stack.names, stack.kinds) if of == kind)[::-1]


def are_named(names):
    return not any(name.startswith("0x") for name in names)


def judged(stacks, verdict):
    """(hits, exact, complete, named) of the stacks that verdict(stack) is about: it tells each of the three, or None of others; and the
    odd ones, most hits first. What was seen before the place was known (Stack.first) is none of them."""
    hits, sums, odd = 0, [0, 0, 0], []
    for stack, n in stacks.items():
        good = None if stack.first else verdict(stack)
        if good is None:
            continue
        hits += n
        sums = [total + n * bool(is_good) for total, is_good in zip(sums, good)]
        if not all(good):
            odd.append((n, stack.incomplete, list(zip(stack.names, stack.kinds))))
    return hits, *sums, sorted(odd, key=lambda o: -o[0])


def say(what, hits, exact, complete, named, odd):
    """Prints what judged() tells; its first line."""
    text = f"{what}: {hits} samples, exact {exact / hits:.3%}, complete {complete / hits:.3%}, named {named / hits:.3%}"
    print("\n" + text, *odd[:6], sep="\n    ")
    return text


def seen(program, n, *arguments, first, begun=0.3):
    """A Receiver with what there is of a program that runs, when n hits of it are there that are not of its `first` seconds."""
    with Receiver(first=first) as receiver, running(program):
        busy(program, begun)
        sender = profsend(receiver, "--pid", program.pid, *arguments)
        with running(sender):
            started(sender)
            wait_for(lambda: sum(hits for stack, hits in receiver.of(program.pid).items() if not stack.first) >= n, "samples")
            assert sender.stop() == 0, sender.log()
    return receiver


def seen_from_its_begin(executable, start):
    """The stacks of a program that start() begins while profsend is at work."""
    with Receiver() as receiver:
        sender = profsend(receiver, "--include", f"executable={executable}")
        with running(sender):
            started(sender)
            program = start()
            with running(program):
                assert program.wait() == 0
            assert sender.stop() == 0, sender.log()
    return receiver.of(program.pid)


def profsend(receiver, *arguments):
    """One that samples often and sends to a Receiver; at work when started() returns."""
    return Process([BUILD / "profsend", "--endpoint", receiver.url, "--protocol", "http/protobuf", "--frequency", FREQUENCY,
                    "--interval", "1s", *arguments])


def started(sender):
    wait_for(lambda: "sampling" in sender.log() or not sender.alive(), "profsend at work")
    if not sender.alive() and sender.wait() == 3:
        pytest.skip(f"profiling is not permitted here: {sender.log().strip()[-200:]}")


def cpu_seconds(pid):
    """What a process has used; of one that has ended as much as anybody waits for."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 1e9
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def busy(process, seconds=0.3):
    """Returns when a program has begun what it is there for."""
    return wait_for(lambda: cpu_seconds(process.pid) >= seconds, "the program at work")


def beside_a_liar(folder, source, honest, first, is_enough, begun=0.3):
    """Samples an honest program, which is begun by `honest()`, beside one that lies about the same runtime's structures, until
    is_enough(hits by stack of the liar, of the honest one); answers both. `first` as of Receiver.
    """
    subprocess.run(["gcc", "-O2", "-rdynamic", source, "-o", folder / "liar", "-lpthread"], check=True)
    with Receiver(first=first) as receiver, running(Process([folder / "liar"])) as lying, running(honest()) as honest:
        busy(honest, begun)
        sender = profsend(receiver, "--include", f"pid={lying.pid}", "--include", f"pid={honest.pid}", "--frequency", "97")
        with running(sender):
            started(sender)
            wait_for(lambda: is_enough(receiver.of(lying.pid), receiver.of(honest.pid)), "samples of both")
            assert sender.stop() == 0, sender.log()
            own = re.search(r"rss_kb=(\d+)", sender.log())
    assert int(own[1]) < 120_000, own[0]
    lies = receiver.of(lying.pid)
    assert all(len(stack.names) <= 512 + 127 for stack in lies)
    return lies, receiver.of(honest.pid)
