"""Thinned, split or rewritten: what leaves is exactly the chosen samples, with all that belongs to them.

Requests at random, of everything the protocol has and of fields that it has not yet, in 1.10 and 1.9; read by protobuf for Python.
"""
import collections
import random
import threading

import pytest
from backends import Request, request_1_9
from programs import Gateway, running, wait_for
from sink import Sink, plain

unknown_fields = pytest.importorskip("google.protobuf.unknown_fields")
Request19 = request_1_9()
ROUNDS = 6


# ---- requests

def unknown(rng, message):
    """Some fields of a release to come: of each wire type, and above those that are there."""
    extra = b""
    for _ in range(rng.choice([0, 0, 1, 2])):
        number = rng.randrange(100, 2000)
        kind = rng.choice([0, 1, 2, 5])
        tag = number << 3 | kind
        while tag > 127:
            extra += bytes([tag & 127 | 128])
            tag >>= 7
        extra += bytes([tag]) + {0: lambda: bytes([rng.randrange(128)]), 1: lambda: rng.randbytes(8), 5: lambda: rng.randbytes(4),
                                 2: lambda: b"\x03" + rng.randbytes(3)}[kind]()
    if extra:
        message.MergeFromString(extra)


class Maker:
    """Requests of a message class, that agree in what their numbers say."""

    def __init__(self, message, rng):
        self.rng, self.request = rng, message()
        self.dictionary = self.request.dictionary
        self.strings = {"": 0}
        self.dictionary.string_table.append("")
        for table in ("mapping_table", "location_table", "function_table", "link_table", "attribute_table", "stack_table"):
            getattr(self.dictionary, table).add()

    def text(self, text=None):
        text = text if text is not None else f"text {self.rng.randrange(60)} é"
        if text not in self.strings:
            self.strings[text] = len(self.dictionary.string_table)
            self.dictionary.string_table.append(text)
        return self.strings[text]

    def value(self, value):
        kind = self.rng.randrange(6)
        if kind == 0:
            value.string_value = f"value {self.rng.randrange(9)}"
        elif kind == 1:
            value.int_value = self.rng.randrange(-2**63, 2**63)
        elif kind == 2:
            value.double_value = self.rng.uniform(-5, 5)
        elif kind == 3:
            value.bool_value = self.rng.random() < 0.5
        elif kind == 4:
            value.bytes_value = self.rng.randbytes(3)
        else:
            value.array_value.values.add().string_value = "in a list"
            value.kvlist_value.values.add(key="k").value.int_value = 7

    def attributes(self, owner):
        have = {self.dictionary.attribute_table[i].key_strindex for i in owner.attribute_indices}
        for _ in range(self.rng.randrange(3)):
            key = self.text(self.rng.choice(["process.executable.build_id.gnu", "profile.frame.type", "thread.name", "a"]))
            if key in have:
                continue
            have.add(key)
            a = self.dictionary.attribute_table.add(key_strindex=key, unit_strindex=self.rng.choice([0, self.text("ms")]))
            self.value(a.value)
            unknown(self.rng, a)
            owner.attribute_indices.append(len(self.dictionary.attribute_table) - 1)

    def tables(self):
        d, rng = self.dictionary, self.rng
        for _ in range(4):
            m = d.mapping_table.add(memory_start=rng.randrange(2**40), memory_limit=2**41, file_offset=rng.randrange(9), filename_strindex=self.text())
            self.attributes(m)
            unknown(rng, m)
        for _ in range(10):
            unknown(rng, d.function_table.add(name_strindex=self.text(), system_name_strindex=self.text(), filename_strindex=self.text(),
                                              start_line=rng.randrange(-1, 99)))
        for _ in range(20):
            at = d.location_table.add(mapping_index=rng.randrange(5), address=rng.randrange(2**64))
            for _ in range(rng.randrange(3)):
                unknown(rng, at.lines.add(function_index=rng.randrange(1, 11), line=rng.randrange(99), column=rng.randrange(9)))
            self.attributes(at)
            unknown(rng, at)
        for _ in range(15):
            unknown(rng, d.stack_table.add(location_indices=[rng.randrange(1, 21) for _ in range(rng.randrange(1, 9))]))
        for _ in range(4):
            unknown(rng, d.link_table.add(trace_id=rng.randbytes(16), span_id=rng.randbytes(8)))
        unknown(rng, d)

    def profile(self, scope):
        rng = self.rng
        p = scope.profiles.add(time_unix_nano=10**18, duration_nano=10**9, period=rng.randrange(99), profile_id=rng.randbytes(16),
                               dropped_attributes_count=rng.randrange(3))
        p.sample_type.type_strindex, p.sample_type.unit_strindex = self.text("samples"), self.text("count")
        if rng.random() < 0.5:
            p.period_type.type_strindex, p.period_type.unit_strindex = self.text("cpu"), self.text("nanoseconds")
            unknown(rng, p.period_type)
        unknown(rng, p.sample_type)
        self.attributes(p)
        unknown(rng, p)
        for _ in range(rng.randrange(1, 30)):
            s = p.samples.add(stack_index=rng.randrange(1, 16), link_index=rng.randrange(5))
            self.attributes(s)
            times = rng.randrange(3)
            s.timestamps_unix_nano.extend(10**18 + rng.randrange(10**9) for _ in range(times))
            if times == 0 or rng.random() < 0.5:
                s.values.extend(rng.randrange(1, 1000) for _ in range(times or 1))
            unknown(rng, s)

    def whole(self):
        self.tables()
        for i in range(3):
            r = self.request.resource_profiles.add(schema_url=f"https://schema/{i}")
            r.resource.attributes.add(key="service.name").value.string_value = f"service {i}"
            self.value(r.resource.attributes.add(key="more").value)
            r.resource.dropped_attributes_count = i
            unknown(self.rng, r.resource)
            for k in range(2):
                scope = r.scope_profiles.add(schema_url="https://scope")
                scope.scope.name, scope.scope.version = f"scope {k}", "1"
                scope.scope.attributes.add(key="of scope").value.int_value = k
                unknown(self.rng, scope.scope)
                for _ in range(self.rng.randrange(1, 3)):
                    self.profile(scope)
                unknown(self.rng, scope)
            unknown(self.rng, r)
        unknown(self.rng, self.request)
        return self.request


# ---- what a request says, without an index

def extra(message):
    return tuple(sorted((f.field_number, f.wire_type, repr(f.data)) for f in unknown_fields.UnknownFieldSet(message)))


class Reader:
    def __init__(self, request):
        self.d = request.dictionary
        self.outer = (extra(request), extra(self.d))

    def value_type(self, t):
        return self.d.string_table[t.type_strindex], self.d.string_table[t.unit_strindex], extra(t)

    def attributes(self, owner, but=()):
        table = (self.d.attribute_table[i] for i in owner.attribute_indices)
        return tuple(sorted((self.d.string_table[a.key_strindex], a.value.SerializeToString(deterministic=True), self.d.string_table[a.unit_strindex],
                             extra(a)) for a in table if self.d.string_table[a.key_strindex] not in but))

    def location(self, i):
        at = self.d.location_table[i]
        m = self.d.mapping_table[at.mapping_index]
        text = self.d.string_table
        functions = [(self.d.function_table[line.function_index], line) for line in at.lines]
        lines = tuple((text[f.name_strindex], text[f.system_name_strindex], text[f.filename_strindex], f.start_line, extra(f), line.line,
                       line.column, extra(line)) for f, line in functions)
        return (at.address, self.attributes(at), extra(at), lines,
                (m.memory_start, m.memory_limit, m.file_offset, text[m.filename_strindex], self.attributes(m), extra(m)))

    def sample(self, s, worth):
        stack, link = self.d.stack_table[s.stack_index], self.d.link_table[s.link_index]
        ids = (link.trace_id, link.span_id) if s.link_index else (bytes(16), bytes(8))
        return (tuple(self.location(i) for i in stack.location_indices), extra(stack), ids, extra(link), self.attributes(s), extra(s),
                *((tuple(s.values), tuple(s.timestamps_unix_nano)) if worth else ()))


def samples_of(requests, worth=True, of=lambda resource: True):
    """Each with all that is above and below it, and how often it is there."""
    found = collections.Counter()
    for request in requests:
        reader = Reader(request)
        for r in filter(of, request.resource_profiles):
            for scope in r.scope_profiles:
                for p in scope.profiles:
                    about = (reader.outer, r.resource.SerializeToString(deterministic=True), r.schema_url, extra(r),
                             scope.scope.SerializeToString(deterministic=True), scope.schema_url, extra(scope), reader.value_type(p.sample_type),
                             reader.value_type(p.period_type), p.period, p.time_unix_nano, p.duration_nano, p.profile_id, p.dropped_attributes_count,
                             reader.attributes(p, but=("profgate.keep.share",)), extra(p))
                    found.update((about, reader.sample(s, worth)) for s in p.samples)
    return found


# ---- what leaves

class Destination(Sink):
    def __init__(self, message):
        super().__init__()
        self.message, self.requests, self.lock = message, [], threading.Lock()

    def take(self, path, headers, body):
        with self.lock:
            self.requests.append(self.message.FromString(plain(headers, body)))

    def count(self):
        with self.lock:
            return sum(len(p.samples) for request in self.requests for r in request.resource_profiles for s in r.scope_profiles
                       for p in s.profiles)


def made(message, seed):
    return [Maker(message, random.Random(seed * 1000 + i)).whole() for i in range(ROUNDS)]


def forwarded(requests, message=Request, keep="100%", rules=None, more=""):
    with Destination(message) as sink:
        rules_row = f"rules: {{ builtin: none, files: [{rules}] }}\n" if rules else ""
        config = f"""{rules_row}profiles: {{ keep: {keep}, exporters: [otlp/sink] }}
exporters: {{ otlp/sink: {{ endpoint: '{sink.url}', protocol: http, compression: none{more} }} }}
"""
        with running(Gateway(config=config)) as gateway:
            for request in requests:
                status, _, answer = gateway.post(request.SerializeToString())
                assert status == 200 and len(answer) < 3, answer  # nothing was rejected
            wait_for(lambda: gateway.total("profgate_forward_samples_total") == sink.count(), "all that was kept")
            assert gateway.total("profgate_forward_dropped_samples_total") == 0
    return sink.requests


@pytest.mark.parametrize("came, left", [(Request, Request), (Request19, Request), (Request, Request19)], ids=["1.10", "from 1.9", "to 1.9"])
def test_what_is_split_is_all_of_it(came, left):
    requests = made(came, 1)
    if came is Request19:  # its translation knows the fields of 1.9 alone
        for request in requests:
            forget(request)
    more = ", max_request_bytes: 4KiB" + (", wire_version: '1.9'" if left is Request19 else "")
    pieces = forwarded(requests, left, more=more)
    assert len(pieces) > 5 * len(requests)
    assert samples_of(pieces) == samples_of(requests)


def forget(message):
    message.DiscardUnknownFields()


def test_what_rules_choose_is_that_and_no_more(tmp_path):
    rules = tmp_path / "keep.rules"
    rules.write_text('rules 1\npack chosen\nkeep all where resource["service.name"] == "service 1"\n')
    requests = made(Request, 2)
    kept = forwarded(requests, keep="0%", rules=rules)
    chosen = samples_of(requests, of=lambda r: r.resource.attributes[0].value.string_value == "service 1")
    assert chosen and samples_of(kept) == chosen


@pytest.mark.parametrize("keep", ["20%", "70%"])
def test_what_is_thinned_is_among_what_came(keep):
    requests = made(Request, 3)
    kept, came = samples_of(forwarded(requests, keep=keep), worth=False), samples_of(requests, worth=False)
    assert 0 < kept.total() < came.total() and kept <= came
