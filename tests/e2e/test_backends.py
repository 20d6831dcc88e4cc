"""What profsend sends, and what the gateway thins, splits or writes as 1.9, is stored, and adds up to what it should.

Against destinations that refuse what real ones do (tests/lib/backends.py); the first tests are of these.
"""
import math
import pathlib
import subprocess
import sys
import tempfile

import pytest
from backends import OverGrpc, Parca, Pyroscope, Refused, Request, kind_of, profiles_of, request_1_9, totals_of
from machine import libc
from programs import BUILD, ROOT, Gateway, Process, captures, running, wait_for
from sink import Sink, plain

PACKS = sorted((ROOT / "tests/data/packs").glob("*.pb"))
SHARE = 0.1
SIGMAS = 5
PYTHON = pathlib.Path(sys.executable).resolve()
KINDS = {"samples/count", "off_cpu/nanoseconds", "lock/nanoseconds", "page_faults/count", "alloc_space/bytes", "events/count"}


# ---- the destinations

def plain_request():
    r = Request()
    r.dictionary.string_table[:] = ["", "samples", "count", "page-faults"]
    for table in ("mapping_table", "location_table", "function_table", "link_table", "attribute_table", "stack_table"):
        getattr(r.dictionary, table).add()
    resource = r.resource_profiles.add()
    resource.resource.SetInParent()
    scope = resource.scope_profiles.add()
    scope.scope.SetInParent()
    profile = scope.profiles.add(time_unix_nano=100, duration_nano=10)
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = 1, 2
    profile.period_type.SetInParent()
    profile.samples.add(values=[3])
    return r, profile, profile.samples[0]


def linked(r, p, s):
    r.dictionary.link_table[0].trace_id, r.dictionary.link_table[0].span_id = bytes(16), bytes(8)


CASES = {  # what is done to a request that both take: what Parca says, what Pyroscope
    "plain": (lambda r, p, s: None, None, None),
    "times alone": (lambda r, p, s: (s.ClearField("values"), s.timestamps_unix_nano.append(101)), None, None),
    "times and values": (lambda r, p, s: s.timestamps_unix_nano.append(101), None, "values and timestamps"),
    "two values with times": (lambda r, p, s: (s.values.append(1), s.timestamps_unix_nano.extend([101, 102])), None,
                              "several values"),
    "two values": (lambda r, p, s: s.values.append(1), "ends", "several values"),
    "a link that is no link": (linked, "first link table entry", None),
    "no links": (lambda r, p, s: r.dictionary.ClearField("link_table"), "first link table entry", None),
    "no period_type": (lambda r, p, s: p.ClearField("period_type"), "period type is nil", "no period_type"),
    "no sample_type": (lambda r, p, s: p.ClearField("sample_type"), "ends", None),
    "no scope": (lambda r, p, s: r.resource_profiles[0].scope_profiles[0].ClearField("scope"), "ends", None),
    "no resource": (lambda r, p, s: r.resource_profiles[0].ClearField("resource"), "ends", None),
    "no samples": (lambda r, p, s: p.ClearField("samples"), "without samples", None),
    "a time before": (lambda r, p, s: s.timestamps_unix_nano.append(99), "timestamp outside", "values and timestamps"),
    "no dictionary": (lambda r, p, s: r.ClearField("dictionary"), "link", "out of range"),
    "an attribute out of range": (lambda r, p, s: s.attribute_indices.append(7), "out of range", None),
}


@pytest.mark.parametrize("case", CASES)
def test_the_destinations_refuse_what_real_ones_do(case):
    change, parca, pyroscope = CASES[case]
    for backend, expected in ((Parca(), parca), (Pyroscope(), pyroscope)):
        request, profile, sample = plain_request()
        change(request, profile, sample)
        if case == "no dictionary":
            profile.ClearField("sample_type")
            profile.sample_type.SetInParent()
            request.dictionary.string_table.append("")
        try:
            backend.say(request.SerializeToString())
            said = None
        except Refused as e:
            said = str(e)
        assert (said is None) == (expected is None) and (expected or "") in (said or ""), (type(backend), said)


def test_a_hyphen_is_stored_and_cannot_be_asked_for():
    request, profile, _ = plain_request()
    profile.sample_type.type_strindex = 3
    parca = Parca()
    parca.say(request.SerializeToString())
    assert not parca.stored
    with pytest.raises(Refused):
        Pyroscope().say(request.SerializeToString())


# ---- what profsend sends

class Bodies(Sink):
    def __init__(self):
        super().__init__()
        self.bodies = []

    def take(self, path, headers, body):
        self.bodies.append(plain(headers, body))


@pytest.fixture(scope="module")
def sent(tmp_path_factory):
    """Requests of profsend with all its kinds of samples, while programs do what each of them is about."""
    truth = tmp_path_factory.mktemp("truth") / "pg-truth"
    subprocess.run(["gcc", "-O2", "-g", "-fno-builtin", ROOT / "tests/sender/truth.c", "-o", truth, "-lpthread"], check=True)
    with Bodies() as sink, tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        sender = Process([BUILD / "profsend", "--endpoint", sink.url, "--protocol", "http/protobuf", "--interval", "1s",
                          "--frequency", "97", "--off-cpu", "--block-io", "--lock-wait", "--lock-wait-min", "0ms", "--event",
                          "page-faults/4", "--alloc", "libc", "--alloc-interval", "64KiB", "--probe", f"{truth}:want_memory",
                          "--include", "executable=pg-truth", "--include", f"executable={PYTHON.name}"])  # not what else runs here
        with libc(), running(sender):
            wait_for(lambda: "sampling" in sender.log() or not sender.alive(), "profsend at work")
            if not sender.alive():
                pytest.skip(f"profiling is not permitted here: {sender.log().strip()[-200:]}")
            work = [Process([truth, *a]) for a in (["spin", "2"], ["naps", "2"], ["touch", "20000"], ["alloc", "3000"],
                                                   ["direct", "50", file.name])]
            threads = Process([PYTHON, "-c", "import threading as t\nl = t.Lock()\ndef f():\n for _ in range(3000):\n  with l: sum(range(300))\n"
                               "for x in [t.Thread(target=f) for _ in range(8)]: x.start()"])
            with running(*work, threads):
                for process in (*work, threads):
                    process.wait(120)
            assert sender.stop() == 0, sender.log()
    assert not KINDS - set(totals_of(map(Request.FromString, sink.bodies))), "a kind is missing"
    return sink.bodies


def test_all_that_profsend_sends_is_stored(sent):
    parca = Parca()
    for body in sent:
        parca.say(body)
    assert parca.stored == totals_of(map(Request.FromString, sent))


def test_profiles_of_the_clock_are_taken_by_pyroscope_as_well(sent):
    for body in sent:
        request = Request.FromString(body)
        for _, scope, _ in profiles_of(request):
            others = [p for p in scope.profiles if kind_of(request.dictionary, p.sample_type) != "samples/count"]
            for profile in others:
                scope.profiles.remove(profile)
        Pyroscope().say(request.SerializeToString())


# ---- what the gateway makes of it

class Parca19(Parca):
    """The same with a reader of 1.9: what else is it to be tried on."""
    message = request_1_9()


def forwarded(bodies, backend, keep="100%", extra=""):
    """The backend, when it has heard of all that the gateway kept."""
    with backend:
        config = f"""
profiles: {{ keep: {keep}, exporters: [otlp/sink] }}
exporters: {{ otlp/sink: {{ endpoint: '{backend.url}', protocol: http, compression: none{extra} }} }}
"""
        with running(Gateway(config=config)) as gateway:
            for body in bodies:
                assert gateway.post(body)[0] == 200
            kept = gateway.total("profgate_forward_samples_total")
            wait_for(lambda: backend.refusals or sum(len(p.samples) for r in backend.requests for _, _, p in profiles_of(r))
                     == kept, "all that was kept")
            assert not backend.refusals, backend.refusals[0]
    return backend


def squares_of(bodies):
    """The sum of squares of the samples' values by kind: a few long waits are most of a time."""
    squares = {}
    for request in map(Request.FromString, bodies):
        for _, _, profile in profiles_of(request):
            kind = kind_of(request.dictionary, profile.sample_type)
            squares[kind] = squares.get(kind, 0) + sum((sum(s.values) or len(s.timestamps_unix_nano)) ** 2 for s in profile.samples)
    return squares


def about_right(stored, bodies):
    """Within what chance allows: each value is there with a chance of SHARE, and counts for as many."""
    truth, squares = totals_of(map(Request.FromString, bodies)), squares_of(bodies)
    for kind, total in truth.items():
        assert abs(stored[kind] - total) < SIGMAS * math.sqrt(squares[kind] / SHARE), (kind, stored[kind], total)


@pytest.fixture(scope="module", params=["profsend", "recorded", "ebpf"])
def bodies(request):
    if request.param == "profsend":
        return request.getfixturevalue("sent")
    return [path.read_bytes() for path in (PACKS if request.param == "recorded" else captures("ebpf-*.pb"))]


def test_what_is_thinned_is_stored_with_its_totals(bodies):
    """Everything: one value a sample is what Pyroscope takes of any kind."""
    for backend in (Parca, Pyroscope):
        stored = forwarded(bodies, backend(), f"{SHARE:.0%}").stored
        about_right(stored, bodies)


def test_what_is_split_is_stored(bodies):
    body = max(bodies, key=len)  # what is below the limit goes as it came
    backend = forwarded([body], Parca(), extra=f", max_request_bytes: {len(body) * 2 // 3}")
    assert backend.stored == totals_of([Request.FromString(body)])
    assert len(backend.requests) > 1


def test_what_is_written_as_1_9_is_stored_by_a_reader_of_1_9(bodies):
    backend = forwarded(bodies, Parca19(), extra=", wire_version: '1.9'")
    assert backend.stored == totals_of(map(Request.FromString, bodies))


def test_what_profsend_sends_is_stored_behind_the_gateway(sent):
    assert forwarded(sent, Parca()).stored == totals_of(map(Request.FromString, sent))


def test_small_and_large_allocations_alike():
    """A tenth by stacks alone kept a thousandth of the bytes: the large ones were not among them."""
    request, profile, _ = plain_request()
    d = request.dictionary
    d.string_table.extend(["alloc_space", "bytes"])
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = 4, 5
    profile.ClearField("samples")
    for i in range(2000):
        d.location_table.add(address=1000 + i)
        d.stack_table.add(location_indices=[i + 1])
        profile.samples.add(stack_index=i + 1, values=[50 << 20 if i % 400 == 7 else 64])
    body = request.SerializeToString()
    stored = forwarded([body], Parca(), "10%").stored
    total = sum(totals_of([request]).values())
    assert abs(stored["alloc_space/bytes"] / total - 1) < 0.01


# ---- presets

class RealParca(OverGrpc, Parca):
    """Keeps what stacks it would show: it reads the entry before the one that a line names."""

    def __init__(self):
        super().__init__()
        self.names, self.labels, self.scopes = set(), set(), set()

    def check(self, request):
        super().check(request)
        d = request.dictionary
        for location in d.location_table:
            self.names.update(d.string_table[d.function_table[line.function_index - 1].name_strindex] for line in location.lines)
        self.labels.update(d.string_table[a.key_strindex] for a in d.attribute_table if a.value.HasField("string_value"))
        for resource, scope, _ in profiles_of(request):
            self.labels.update(a.key for a in resource.resource.attributes if a.value.HasField("string_value"))
            self.scopes.add(scope.scope.name)


class RealPyroscope(OverGrpc, Pyroscope):
    def check(self, request):
        super().check(request)
        d = request.dictionary
        if request.ByteSize() > 4 << 20:
            raise Refused("larger than 4 MiB")
        for resource, _, _ in profiles_of(request):
            keys = {a.key for a in resource.resource.attributes}
            if any(a.key_strindex for a in resource.resource.attributes) or "service.name" not in keys:
                raise Refused("no service.name")
            if keys & {"process.pid", "process.parent_pid", "process.creation.time"}:
                raise Refused("a series a process")
        for stack in d.stack_table:
            if any(not d.location_table[i].lines and not d.location_table[i].address for i in stack.location_indices):
                raise Refused("a blank frame")
            if sum(max(1, len(d.location_table[i].lines)) for i in stack.location_indices) > 1000:
                raise Refused("loses its leaf")


def through(bodies, backend, preset, more="", extra=""):
    with backend:
        config = f"""
profiles: {{ keep: 100%, exporters: [otlp/sink] }}
exporters: {{ otlp/sink: {{ endpoint: '127.0.0.1:{backend.port}', tls: {{ insecure: true }}, backend: {preset}{more} }} }}
{extra}"""
        with running(Gateway(config=config)) as gateway:
            for body in bodies:
                assert gateway.post(body)[0] == 200
            kept = gateway.total("profgate_forward_samples_total")
            wait_for(lambda: backend.refusals or sum(len(p.samples) for r in backend.requests for _, _, p in profiles_of(r))
                     == kept, "all that was kept")
            assert not backend.refusals, backend.refusals[0]
            assert gateway.total("profgate_forward_dropped_samples_total") == 0
            assert backend.encodings <= {"gzip", None}
    return backend


def names_of(bodies):
    names = set()
    for request in map(Request.FromString, bodies):
        d = request.dictionary
        for location in d.location_table:
            names.update(d.string_table[d.function_table[line.function_index].name_strindex] for line in location.lines)
    return names


def odd_request():
    """Valid, and what each of the two ends at, refuses, or drops."""
    request, profile, sample = plain_request()
    d = request.dictionary
    request.resource_profiles[0].scope_profiles[0].ClearField("scope")
    request.resource_profiles[0].ClearField("resource")
    profile.ClearField("period_type")
    profile.sample_type.type_strindex = 3  # page-faults
    d.string_table.append("work")
    d.function_table.add(name_strindex=4)
    d.location_table.add(address=5).lines.add(function_index=1)
    d.location_table.add()  # says nothing
    d.stack_table.add(location_indices=[1, 2])
    d.stack_table.add(location_indices=[1] * 3000)
    sample.stack_index = 1
    profile.samples.add(stack_index=1, values=[3, 4])
    profile.samples.add(stack_index=2, values=[5, 6], timestamps_unix_nano=[1, 10**9])
    request.resource_profiles[0].scope_profiles[0].profiles.add()  # without samples
    return request.SerializeToString()


def test_parca_takes_all_with_its_preset(sent):
    bodies = [*sent, *(p.read_bytes() for p in captures("ebpf-*.pb"))]
    parca = through(bodies, RealParca(), "parca", ", text_attributes: [process.pid, thread.id]")
    assert parca.stored == totals_of(map(Request.FromString, bodies))
    assert parca.names == names_of(bodies) | {""} or parca.names == names_of(bodies)
    assert parca.scopes == {"profgate"} and {"process.pid", "thread.id"} <= parca.labels


def test_pyroscope_takes_all_with_its_preset(sent):
    bodies = [*sent, *(p.read_bytes() for p in captures("ebpf-*.pb"))]
    assert through(bodies, RealPyroscope(), "pyroscope").stored == totals_of(map(Request.FromString, bodies))


@pytest.mark.parametrize("backend, preset", [(RealParca, "parca"), (RealPyroscope, "pyroscope")])
def test_what_would_be_refused_at_all_is_stored(backend, preset):
    request = Request.FromString(odd_request())
    if preset == "pyroscope":
        request.resource_profiles[0].resource.attributes.add(key="process.executable.path").value.string_value = "/bin/work"
    stored = through([request.SerializeToString()], backend(), preset).stored
    assert stored == {"page_faults/count": 3 + 7 + 11}


def test_large_requests_fit_pyroscope():
    request, profile, _ = plain_request()
    d = request.dictionary
    request.resource_profiles[0].resource.attributes.add(key="service.name").value.string_value = "large"
    d.string_table.extend(["unit of " + "x" * 1000 + str(i) for i in range(5000)])
    for i in range(20000):
        d.function_table.add(name_strindex=4 + i % 5000)
        d.location_table.add(address=i + 1).lines.add(function_index=i + 1)
        d.stack_table.add(location_indices=[i + 1])
        profile.samples.add(stack_index=i + 1, values=[1])
    profile.ClearField("period_type")
    profile.period_type.SetInParent()
    stored = through([request.SerializeToString()], RealPyroscope(), "pyroscope").stored
    assert stored == {"samples/count": 20003}


@pytest.mark.parametrize("more, why", [
    ("backend: parca, protocol: http", "gRPC alone"), ("backend: parca, compression: zstd", "no zstd"),
    ("backend: pyroscope, wire_version: '1.9'", "1.10 alone"), ("backend: pyroscope, max_request_bytes: 5MiB", "no more than 4MiB"),
    ("backend: grafana", "any|collector|parca|pyroscope")])
def test_what_a_preset_rules_out_is_an_error(more, why, tmp_path):
    file = tmp_path / "profgate.yaml"
    file.write_text(f"exporters: {{ otlp/sink: {{ endpoint: 'http://127.0.0.1:1', {more} }} }}\n")
    done = subprocess.run([BUILD / "profgate", "validate", file], capture_output=True, text=True)
    assert done.returncode == 1 and why in done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("row", ["references: false", "backend: collector"])
def test_references_are_written_out(row):
    request, profile, _ = plain_request()
    request.dictionary.string_table.append("service.name")
    attribute = request.resource_profiles[0].resource.attributes.add()
    attribute.key_strindex = 4
    attribute.value.string_value_strindex = 1
    left = forwarded([request.SerializeToString()], Parca(), extra=f", {row}").requests[0].resource_profiles[0].resource.attributes[0]
    assert left.key == "service.name" and left.value.string_value == "samples" and not left.key_strindex
