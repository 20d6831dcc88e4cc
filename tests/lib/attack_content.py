"""Valid OTLP with hostile content: each function makes one request of about the size asked for, in wire layout 1.10, that
would cost a careless receiver far more than its bytes (work that is a product of two parts of the message, tables that
grow with every new name, names of megabytes). For tests/e2e/test_attack.py and scripts/bench-attack:

  python3 tests/lib/attack_content.py KIND BYTES SEED >FILE
"""
import random
import sys

from handmade import field, varint


class Dictionary:
    """profiles.proto 1.10, ProfilesDictionary; every table has its zero entry."""

    def __init__(self):
        self.tables = {number: [b""] for number in range(1, 8)}
        self.strings = {b"": 0}

    def add(self, number, payload):
        self.tables[number].append(payload)
        return len(self.tables[number]) - 1

    def string(self, text):
        text = text.encode() if isinstance(text, str) else text
        if text not in self.strings:
            self.strings[text] = self.add(5, text)
        return self.strings[text]

    def attribute(self, key, value):
        return self.add(6, field(1, self.string(key)) + field(2, field(1, value.encode())))

    def function(self, name):
        return self.add(3, field(1, self.string(name)))

    def location(self, functions, attributes=(), mapping=0):
        lines = b"".join(field(3, field(1, f)) for f in functions)
        packed = b"".join(map(varint, attributes))
        return self.add(2, (field(1, mapping) if mapping else b"") + lines + (field(4, packed) if packed else b""))

    def kernel_location(self, *names):
        return self.location([self.function(n) for n in names], [self.kernel()])

    def kernel(self):
        if not hasattr(self, "kernel_type"):
            self.kernel_type = self.attribute("profile.frame.type", "kernel")
        return self.kernel_type

    def stack(self, packed_locations):
        return self.add(7, field(1, packed_locations))

    def encode(self):
        return b"".join(field(number, entry) for number, table in self.tables.items() for entry in table)


def resource_of(*attributes):
    return field(1, b"".join(field(1, field(1, k) + field(2, field(1, v))) for k, v in attributes))


def profile_of(d, samples, n_samples=1):
    return field(1, field(1, d.string("samples")) + field(2, d.string("count"))) + samples * n_samples


def sample_of(stack, values=b"\x01"):
    return field(2, (field(1, stack) if stack else b"") + field(4, values))


def message(d, resources):
    """resources: bytes of (Resource field, profiles) pairs."""
    return b"".join(field(1, r + field(2, b"".join(field(2, p) for p in profiles))) for r, profiles in resources) + \
        field(2, d.encode())


def sized(make, size):
    """make(n) for the n that brings the message to about `size` bytes."""
    per_item = (len(make(2000)) - len(make(1000))) / 1000
    return make(max(int(size / per_item), 1))


def services(size, rng):
    """A new service name in every resource: one sample each."""
    d = Dictionary()
    stack = d.stack(varint(d.kernel_location("vfs_read")))
    profile = profile_of(d, sample_of(stack))
    return sized(lambda n: message(d, ((resource_of((b"service.name", b"s%016x" % rng.getrandbits(64))), [profile])
                                       for _ in range(n))), size)


def strings(size, rng):
    """Distinct short names, all of kernel frames, which are those whose names matter."""
    def make(n):
        d = Dictionary()
        packed = b"".join(varint(d.kernel_location(b"%x" % rng.getrandbits(44))) for _ in range(n))
        return message(d, [(resource_of((b"service.name", b"a")), [profile_of(d, sample_of(d.stack(packed)))])])
    return sized(make, size)


def leaves(size, rng):
    """A distinct system call in every stack: label values of the peer's choosing."""
    def make(n):
        d = Dictionary()
        samples = []
        for _ in range(n):
            here = d.kernel_location(b"__x64_sys_%x" % rng.getrandbits(44))
            samples.append(sample_of(d.stack(varint(here))))
        return message(d, [(resource_of((b"service.name", b"a")), [profile_of(d, b"".join(samples))])])
    return sized(make, size)


def long_name(size, rng):
    """One name of nearly the whole request; starts like a system call, so that a pattern captures the rest."""
    d = Dictionary()
    packed = varint(d.kernel_location(b"__x64_sys_" + b"a" * size)) + varint(d.kernel_location(b"\xff" * 100))
    return message(d, [(resource_of((b"service.name", b"a")), [profile_of(d, sample_of(d.stack(packed)), 1000)])])


def repetitive_names(size, rng):
    """Names of 60 KB that make searching for a middle part or a backtracking expression start again and again."""
    d = Dictionary()
    parts = [b"tcp_", b"ext4_file_read_ite", b"a.", b"::", b"<", b"(", b"com.fasterxml.jackso", b"_Z", b"encoding/jso"]
    packed = b""
    for i in range(max(size // 60000, 1)):
        part = parts[i % len(parts)]
        packed += varint(d.kernel_location(b"%d" % i + part * (60000 // len(part))))
    return message(d, [(resource_of((b"service.name", b"a")), [profile_of(d, sample_of(d.stack(packed)))])])


def _long_stack(d, n):
    """n locations of which the last, only, is a system call: a walk has to see all."""
    one, last = d.kernel_location("some_function"), d.kernel_location("__x64_sys_read")
    return d.stack(varint(one) * (n - 1) + varint(last))


def stack_by_profiles(size, rng):
    """Half the bytes are one stack, the other half profiles with a sample of it each."""
    d = Dictionary()
    profile = profile_of(d, sample_of(_long_stack(d, size // 2)))
    return message(d, [(resource_of((b"service.name", b"a")), [profile] * (size // 2 // (len(profile) + 2)))])


def stack_by_resources(size, rng):
    """Half the bytes are one stack, the other half resources with a sample of it each."""
    d = Dictionary()
    profile = profile_of(d, sample_of(_long_stack(d, size // 2)))
    return message(d, ((resource_of((b"service.name", b"s%x" % i)), [profile]) for i in range(size // 2 // 60)))


def stack_by_samples(size, rng):
    """Half the bytes are one stack, the other half samples of it that differ by an attribute."""
    d = Dictionary()
    stack = _long_stack(d, size // 2)
    samples = b"".join(field(2, field(1, stack) + field(2, varint(d.attribute("thread.name", f"t{i}"))) + field(4, b"\x01"))
                       for i in range(size // 2 // 50))
    return message(d, [(resource_of((b"service.name", b"a")), [profile_of(d, samples)])])


def stacks(size, rng):
    """Long stacks that share all of their locations: every byte is an index."""
    d = Dictionary()
    names = [d.kernel_location(f"function_{i}") for i in range(100)]
    for _ in range(max(size // 50000, 1)):
        packed = bytes(rng.choices(names, k=1000)) * 50
        d.stack(packed)
    count = len(d.tables[7])
    samples = b"".join(sample_of(i) for i in range(1, count))
    return message(d, [(resource_of((b"service.name", b"a")), [profile_of(d, samples)])])


def lines_by_stack(size, rng):
    """Half the bytes are inlined functions of one location, the other half a stack of that location alone."""
    d = Dictionary()
    function = d.function("some_function")
    location = d.location([function] * (size // 2 // 4), [d.kernel()])
    stack = d.stack(varint(location) * (size // 2))
    return message(d, [(resource_of((b"service.name", b"a")), [profile_of(d, sample_of(stack))])])


def mapping_by_locations(size, rng):
    """Half the bytes are attributes of one mapping, the other half locations in it."""
    d = Dictionary()
    other = d.attribute("process.executable.name", "x")
    mapping = d.add(1, field(5, varint(other) * (size // 2)))
    native = d.attribute("profile.frame.type", "native")
    first = d.location([], [native], mapping)
    d.tables[2] += [d.tables[2][-1]] * (size // 2 // 12)
    packed = b"".join(varint(first + i) for i in range(size // 2 // 12))
    return message(d, [(resource_of((b"service.name", b"a")), [profile_of(d, sample_of(d.stack(packed)))])])


def resource_by_profiles(size, rng):
    """Half the bytes are attributes of one resource, the other half profiles in it."""
    d = Dictionary()
    stack = d.stack(varint(d.kernel_location("vfs_read")))
    profile = profile_of(d, sample_of(stack))
    resource = resource_of(*((b"k%x" % i, b"") for i in range(size // 2 // 14)))
    return message(d, [(resource, [profile] * (size // 2 // (len(profile) + 2)))])


def profile_by_samples(size, rng):
    """Half the bytes are attributes of one profile, the other half samples in it."""
    d = Dictionary()
    stack = d.stack(varint(d.kernel_location("vfs_read")))
    other = d.attribute("some.key", "x")
    sample = sample_of(stack)
    attributes = field(11, varint(other) * (size // 2))
    return message(d, [(resource_of((b"service.name", b"a")),
                        [profile_of(d, sample, size // 2 // len(sample)) + attributes])])


def same_key(size, rng):
    """Resources whose attributes all have one key."""
    d = Dictionary()
    stack = d.stack(varint(d.kernel_location("vfs_read")))
    profile = profile_of(d, sample_of(stack))
    return sized(lambda n: message(d, ((resource_of(*[(b"k", b"%x" % rng.getrandbits(32))] * 255), [profile])
                                       for _ in range(max(n // 255, 1)))), size)


def _long_list(d, size):
    """A list that refers to one text so often that it is more than a megabyte as JSON."""
    text = d.string(b"\x01" * (size // 4))
    return field(5, field(1, field(8, text)) * (1 + (1 << 20) // (6 * (size // 4))))


def list_by_samples(size, rng):
    """A quarter of the bytes is a thread's name of a megabyte, the others are samples of that thread, none like another."""
    d = Dictionary()
    long = d.add(6, field(1, d.string("thread.name")) + field(2, _long_list(d, size)))
    stack = d.stack(varint(d.location([d.function("main.main")], [d.attribute("profile.frame.type", "go")])))
    samples = b"".join(
        field(2, field(1, stack) + field(2, varint(long) + varint(d.attribute("http.route", "%x" % i))) + field(4, b"\x01"))
        for i in range(size // 40))
    return message(d, [(resource_of((b"service.name", b"a")), [profile_of(d, samples)])])


def list_by_resources(size, rng):
    """A quarter of the bytes is a text, the others are services called by lists of it."""
    d = Dictionary()
    name = field(1, field(1, field(1, b"service.name") + field(2, _long_list(d, size))))
    profile = profile_of(d, sample_of(d.stack(varint(d.kernel_location("vfs_read")))))
    return message(d, [(name, [profile])] * (size // (len(name) + len(profile) + 30)))


def type_by_units(size, rng):
    """Half the bytes are the type of each profile, the other half profiles, whose units are all different."""
    d = Dictionary()
    long, sample = d.string(b"-" * (size // 2)), sample_of(d.stack(varint(d.kernel_location("vfs_read"))))
    return message(d, [(resource_of((b"service.name", b"a")),
                        [field(1, field(1, long) + field(2, d.string("u%x" % i))) + sample for i in range(size // 2 // 26)])])


def text_by_attributes(size, rng):
    """Half the bytes are a text, the other half attributes that are a frame's type by that text."""
    d = Dictionary()
    key, text = d.string("profile.frame.type"), d.string(b"t" * (size // 2))
    d.tables[6] += [field(1, key) + field(2, field(8, text))] * (size // 2 // 12)
    profile = profile_of(d, sample_of(d.stack(varint(d.kernel_location("vfs_read")))))
    return message(d, [(resource_of((b"service.name", b"a")), [profile])])


def empties(size, rng):
    """Empty messages: two bytes each, an entry of several columns each."""
    d = Dictionary()
    d.tables[2] += [b""] * (size // 8)
    d.tables[7] += [b""] * (size // 8)
    profile = profile_of(d, field(2, b""), size // 4)
    return message(d, [(resource_of((b"service.name", b"a")), [profile])])


def valid(size, rng):
    """No attack: a request of any size, a thousand stacks with as many samples each as it takes."""
    d = Dictionary()
    names = [d.kernel_location(f"function_{i}") for i in range(50)]
    samples = b"".join(sample_of(d.stack(bytes(rng.choices(names, k=20)))) for _ in range(1000))
    return message(d, [(resource_of((b"service.name", b"a")), [profile_of(d, samples, max(size // len(samples), 1))])])


def long_names(size, rng):
    """Few resources with names of 50 KB: each series of theirs would repeat them."""
    def make(n):
        d = Dictionary()
        profile = profile_of(d, sample_of(d.stack(varint(d.kernel_location("vfs_read")))))
        return message(d, ((resource_of((b"service.name", b"%016x" % rng.getrandbits(64) + b"n" * 50_000)), [profile])
                           for _ in range(n)))
    return make(max(size // 50_000, 1))


KINDS = {f.__name__.replace("_", "-"): f for f in (
    services, strings, leaves, long_name, long_names, repetitive_names, stack_by_profiles, stack_by_resources, stack_by_samples,
    stacks, lines_by_stack, mapping_by_locations, resource_by_profiles, profile_by_samples, same_key, list_by_samples,
    list_by_resources, type_by_units, text_by_attributes, empties, valid)}


def build(kind, size, seed=1):
    return KINDS[kind](size, random.Random(seed))


if __name__ == "__main__":
    sys.stdout.buffer.write(build(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
