"""Requests for the model and the gateway to disagree about: made up, or captured ones changed. All from a seeded random.Random."""
import random

from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
from opentelemetry.proto.profiles.v1development import profiles_pb2 as profiles

RUNTIMES = ["jvm", "cpython", "go", "v8js", "php", "perl", "ruby", "dotnet", "rust", "beam"]
OTHER_TYPES = ["luajit", "cobol", "Kernel", "NATIVE", "unknown", "abort-marker", "", "kernel ", "go\0"]

# Every alternative of the connector's classes, and what nearly is one.
KERNEL = """
tcp_recvmsg tcp_read_sock tcp_rcv_established tcp_v4_rcv tcp_v6_rcv tcp_sendmsg_locked tcp_transmit_skb tcp_write_xmit
tcp_push tcp_sendpage udp_recvmsg udp_read_skb udp_rcv udp_v4_rcv udp_v6_rcv udp_sendmsg udp_write udp_push_pending_frames
udp_sendpage pipe_read pipe_read_iter eventfd_read unix_stream_read_generic unix_stream_recvmsg pipe_write pipe_write_iter
eventfd_write unix_stream_write_generic unix_stream_sendmsg sock_recvmsg __sock_recvmsg sock_read_iter sock_sendmsg
__sock_sendmsg sock_write_iter ext4_file_read_iter xfs_file_read_iter btrfs_file_read_iter filemap_read generic_file_read_iter
ext4_file_write_iter xfs_file_write_iter btrfs_file_write_iter filemap_write_and_wait generic_file_write_iter
writeback_sb_inodes do_mmap do_munmap __do_munmap do_anonymous_page mmap_region vm_mmap_pgoff do_madvise madvise
handle_mm_fault alloc_pages alloc_pages_mpol free_pages free_pages_and_swap_cache futex_wait do_futex schedule
schedule_timeout __schedule preempt_schedule_irq wake_up_q wake_q_add
__x64_sys_write __x64_sys_read __x64_sys_futex __x64_sys_sendto __x64_sys_mmap __arm64_sys_write __arm64_sys_munmap
ksys_write ksys_read ksys_mmap_pgoff
__x64_sys_ __x64_sys ksys_ x_ksys_write __ia32_sys_write xtcp_recvmsg Tcp_recvmsg _tcp_v4_rcv ip_rcv __do_mmap xdo_mmap
__free_pages __alloc_pages try_to_wake_up do_syscall_64 entry_SYSCALL_64_after_hwframe native_write_msr wake_up wake_q
ext4_file_mmap swapper/1 __handle_mm_fault tcp
""".split() + ["", " ", "tcp recvmsg", "x\ntcp_recvmsg", "tcp_recvmsg\nx", "ksys_write\n", "__x64_sys_é", "__x64_sys_a-b",
               "μfutex", "ksys_" + "w" * 300, "z" * 300 + "futex"]
GO = ["runtime.mallocgc", "main.main", "runtime.gcDrain", "net/http.(*conn).serve", "github.com/a/b.(*T).M",
      "github.com/a.b/c.d/e.F.func1", "github.com/a/b", "a/", "/", ".", "..", "a.", "/.", "a/.b", "a.b/c", "main",
      "go.shape/x[...].y", "a\nb/c.d", "a/b\nc.d", "a.b\nc/d", "a b/c.d", "ü/ö.ä", "x/" * 60 + "p.F", "type..eq.a/b.T", "encoding/json.Marshal",
      "p" * 300 + ".f", "sync.(*Mutex).Lock", "lock", "FUTEX", ""]
JVM = ["void java.util.HashMap.put(java.lang.Object)", "java.util.ArrayList.get", "int a.B.c()", "a.B.c ( int )", "Main.main()",
       "main", "main()", "()", "(", "", ".", "..", "...", "a.", "a..", ".a", "a..b", "a.b.", "a.b. ()", " a.b.c", "a.b.c ", "  x  y.z.W.f(q)",
       "static  int  java.util.X.f()", "\ta.B.c()", "a.B.c()\t", "\ta.B.c\t(x)", "int\ta.B.c()", "a.B.c\n()", "a.B\n.c()", "a.\nB.c()",
       "x y", "x y.", "x .y", "x .", " ", "\t", "\t ", "x \t(", "x \ty.Z.f", "x\t.y", " .y", "a\u00a0.B.c", "é.Ü.ñ(ö)",
       "java.lang.invoke.LambdaForm$MH/0x00007f.invoke(a.b)", "f(a.b.c)(d.e)", "(a.b.c)", " (a.b)", "a (b) c.D.e", "a.B.c()d.e",
       "java.util.concurrent.locks.ReentrantLock.lock()", "q" * 260 + ".C.m()", "q.C" + "m" * 300 + ".f()", ". .", "a. b", "a.b c"]
NATIVE = ["malloc", "_start", "pthread_mutex_lock", "__GI___futex_abstimed_wait64", "", "std::vector<int>::push_back", "socket_write"]
SCRIPT = ["main", "<module>", "run", "json.loads", "Lock.acquire", "runtime.x", "", "Array.map"]
FILES = ["/usr/lib/x86_64-linux-gnu/libc.so.6", "libm.so", "/opt/a.so.d/libx", "/opt/a.so.d/liby.so.1.so.2", "a.so/b", ".so", "/.so",
         "x.so", "/usr/bin/python3.11", "[vdso]", "linux-vdso.so.1", "", "/", "//.so", "a/b/.so.so", ".so.so", "lib.soname", "libé.so",
         "/tmp/a\nb.so", "a\nb/c.so", "\n.so", "a/\n.so", "a.so\n", "kernel", "/x/" + "y" * 300 + ".so", "/lib/libSO.SO", "a b.so",
         "/" + "d/" * 100 + "libz.so", "/" + "d.so/" * 30 + "z", "/memfd:jit (deleted)", "foo.sofa.so.bar"]
TYPES = [("samples", "count")] * 6 + [("off_cpu", "nanoseconds"), ("samples", "Count"), ("Samples", "count"), ("", ""),
                                      ("samples", ""), ("", "count"), ("a_b", "c"), ("a", "b_c"), ("samples/count", "x"), ("cpu", "nanoseconds")]
NAMES = {"kernel": KERNEL, "go": GO, "jvm": JVM, "native": NATIVE}


class Tables:
    """A dictionary being made: entry 0 of every table is the zero entry."""

    def __init__(self, r):
        self.r = r
        self.d = profiles.ProfilesDictionary()
        self.known = {}
        self.d.string_table.append("")
        for table in ("mapping", "location", "function", "link", "attribute", "stack"):
            getattr(self.d, table + "_table").add()

    def string(self, text):
        if text == "" and self.r.random() < 0.9:
            return 0
        if text not in self.known or self.r.random() < 0.02:  # now and then a second copy
            self.d.string_table.append(text)
            self.known[text] = len(self.d.string_table) - 1
        return self.known[text]

    def add(self, table, **fields):
        entries = getattr(self.d, table + "_table")
        entries.add(**fields)
        return len(entries) - 1

    def attribute(self, key, value):
        index = self.add("attribute", key_strindex=self.string(key))
        one = self.d.attribute_table[index].value
        if isinstance(value, bool):
            one.bool_value = value
        elif isinstance(value, int):
            one.int_value = value
        elif isinstance(value, str):
            one.string_value = value
        elif value is not None:
            one.bytes_value = value
        return index


def frame_attributes(r, t, kind):
    """Attribute indices of a location: its type among others, or none, or two, or one that is no text."""
    found = []
    if r.random() < 0.15:
        found.append(t.attribute("thread.name", "x"))
    if kind is not None:
        found.append(t.attribute("profile.frame.type", kind))
    if r.random() < 0.05:
        found.append(t.attribute("profile.frame.type", r.choice(["go", "native", "kernel"])))
    if r.random() < 0.03:
        found.insert(0, t.attribute(r.choice(["profile.frame.Type", "profile.frame.type ", ""]), "native"))
    if r.random() < 0.02:
        found.insert(0, t.attribute("profile.frame.type", r.choice([7, True, b"go", None])))
    return found


def location(r, t, kind, many_lines):
    names = NAMES.get(kind) or r.choice([SCRIPT, GO, JVM, KERNEL])
    lines = []
    for _ in range(r.choice([0, 1, 1, 2, 3]) if many_lines else r.choice([0, 1, 1, 1, 1, 1])):
        name = r.choice(names)
        if r.random() < 0.1:
            lines.append(profiles.Line(function_index=0))
            continue
        function = t.add("function", name_strindex=t.string(name), system_name_strindex=t.string(r.choice(["", name, "sys"])),
                         filename_strindex=t.string(r.choice(["", "a.c"])), start_line=r.choice([0, 1, -1]))
        lines.append(profiles.Line(function_index=function, line=r.choice([0, 7, -3]), column=r.choice([0, 2])))
    mapping = 0
    if r.random() < 0.8:
        mapping = t.add("mapping", memory_start=r.getrandbits(40), filename_strindex=t.string(r.choice(FILES)),
                        attribute_indices=[t.attribute("process.executable.build_id.gnu", "ab")] if r.random() < 0.3 else [])
    return t.add("location", mapping_index=mapping, address=r.getrandbits(64), lines=lines, attribute_indices=frame_attributes(r, t, kind))


def kind_of_frame(r):
    return r.choice(["kernel"] * 6 + ["native"] * 5 + ["go", "jvm"] * 3 + RUNTIMES + [r.choice(OTHER_TYPES), None])


def stack(r, t, locations):
    """Kernel frames above user frames as they are, or anything on anything."""
    if r.random() < 0.5:
        kernel, user = locations["kernel"] or [0], locations["user"] or [0]
        indices = [r.choice(kernel) for _ in range(r.randrange(6))] + [r.choice(user) for _ in range(r.randrange(5))]
    else:
        everything = locations["kernel"] + locations["user"] + [0]
        indices = [r.choice(everything) for _ in range(r.choice([0, 1, 1, 2, 3, 8, 30]))]
    return t.add("stack", location_indices=indices)


def sample(r, n_stacks, attributes, n_links):
    shape = r.randrange(6)
    n = r.choice([1, 1, 2, 5])
    return profiles.Sample(
        stack_index=r.randrange(n_stacks), link_index=r.randrange(n_links) if r.random() < 0.2 else 0,
        attribute_indices=r.sample(attributes, r.randrange(len(attributes) + 1)),
        values=[r.choice([0, 1, 7, -1, 2**63 - 1, -2**63]) for _ in range(n)] if shape in (0, 1, 2, 5) else [],
        timestamps_unix_nano=[r.getrandbits(60) for _ in range(n if shape != 5 else n + 1)] if shape > 1 else [])


def of_any_kind(r, value):
    kind = r.randrange(7)
    if kind == 0:
        value.bool_value = r.random() < 0.5
    elif kind == 1:
        value.double_value = r.choice([0.0, -1.5, 1e300, 0.1])
    elif kind == 2:
        value.bytes_value = r.randbytes(r.randrange(4))
    elif kind == 3:
        value.int_value = r.choice([0, -1, 2**63 - 1])
    elif kind == 4:
        value.array_value.values.add().string_value = r.choice(["", "a"])
    elif kind == 5:
        value.kvlist_value.values.add(key="k").value.int_value = r.randrange(2)
    else:
        value.string_value = r.choice(["", "7", "true"])


def fill_resource(r, one, n_stacks, attributes, t):
    for key, value in r.sample([("service.name", "shop"), ("service.name", "käse"), ("host.name", ""), ("zone", "a")], r.randrange(4)):
        if key not in [a.key for a in one.resource.attributes]:
            one.resource.attributes.add(key=key).value.string_value = value
    if r.random() < 0.5:
        one.resource.attributes.add(key="process.pid").value.int_value = r.randrange(3)
    if r.random() < 0.3:
        of_any_kind(r, one.resource.attributes.add(key="kind").value)
    for _ in range(r.choice([0, 1, 1, 2])):
        scope = one.scope_profiles.add()
        scope.scope.name = r.choice(["", "s"])
        for _ in range(r.choice([0, 1, 1, 2, 4])):
            kind, unit = r.choice(TYPES)
            profile = scope.profiles.add(
                time_unix_nano=r.choice([0, 5, 5, 5, 9]), duration_nano=r.choice([0, 10**9]), period=r.choice([0, 10**7]))
            profile.sample_type.type_strindex, profile.sample_type.unit_strindex = t.string(kind), t.string(unit)
            if r.random() < 0.8:
                profile.period_type.type_strindex, profile.period_type.unit_strindex = t.string("cpu"), t.string("nanoseconds")
            for _ in range(r.choice([0, 1, 3, 8])):
                profile.samples.append(sample(r, n_stacks, attributes, len(t.d.link_table)))


def break_rules(r, d):
    """References to what is not there, and an entry 0 that is not nothing: what OTLP forbids, and lawful.py takes out again."""
    one, far = r.choice(d.location_table), r.choice([1000, 2**31 - 1, -1])
    where = r.randrange(13)
    if where == 0:
        one.attribute_indices.append(far)
    elif where == 8:
        r.choice(d.function_table).system_name_strindex = far
    elif where == 9:
        r.choice(d.function_table).filename_strindex = far
    elif where == 10:
        r.choice(d.mapping_table[1:] or [d.mapping_table.add()]).filename_strindex = far
    elif where == 11:
        r.choice(d.mapping_table[1:] or [d.mapping_table.add()]).attribute_indices.append(far)
    elif where == 12:
        r.choice(d.attribute_table[1:] or [d.attribute_table.add()]).unit_strindex = far
    elif where == 1:
        one.mapping_index = far
    elif where == 2:
        one.lines.add(function_index=far)
    elif where == 3:
        r.choice(d.stack_table).location_indices.append(far)
    elif where == 4:
        r.choice(d.attribute_table).key_strindex = far
    elif where == 5:
        r.choice(d.function_table).name_strindex = far
    elif where == 6:
        d.stack_table[0].location_indices.append(r.randrange(len(d.location_table)))
    else:
        d.string_table.append("/lib/libzero.so")
        d.mapping_table[0].filename_strindex = len(d.string_table) - 1


def break_samples(r, request):
    """The same of one sample, or of one profile. Not of a sample's attributes: layout 1.9 has its values in their place, so a
    small request with an index far out there is one of 1.9, by all that can be seen of it."""
    profile = r.choice(all_profiles(request) or [profiles.Profile()])
    one, far = r.choice(list(profile.samples) or [profiles.Sample()]), r.choice([1000, 2**31 - 1, -1])
    where = r.randrange(8)
    if where == 0:
        one.stack_index = far
    elif where == 1:
        one.link_index = far
    elif where == 2:
        profile.period_type.type_strindex = far
    elif where == 3:
        profile.sample_type.type_strindex = far
    elif where == 4:
        profile.sample_type.unit_strindex = far
    elif where == 5:
        profile.period_type.unit_strindex = far
    elif where == 6:
        profile.attribute_indices.append(far)
    else:
        del one.values[:], one.timestamps_unix_nano[:]


def made_up(r):
    """A request of any shape that OTLP allows, and one in twenty of a shape that it does not."""
    t = Tables(r)
    many_lines = r.random() < 0.3
    locations = {"kernel": [], "user": []}
    for _ in range(r.choice([2, 6, 20])):
        kind = kind_of_frame(r)
        locations["kernel" if kind == "kernel" else "user"].append(location(r, t, kind, many_lines))
    for _ in range(r.choice([1, 4, 12])):
        stack(r, t, locations)
    if r.random() < 0.05:
        break_rules(r, t.d)
    for _ in range(r.randrange(3)):
        t.add("link", trace_id=r.randbytes(16), span_id=r.randbytes(8))
    attributes = [t.attribute("thread.name", "t"), t.attribute("thread.id", 7)]
    request = service.ExportProfilesServiceRequest()
    for _ in range(r.choice([0, 1, 1, 2, 5])):
        one = request.resource_profiles.add()
        fill_resource(r, one, len(t.d.stack_table), attributes, t)
        if r.random() < 0.2:  # the resource before, once more, with its attributes in another order
            del one.resource.attributes[:]
            one.resource.attributes.extend(reversed(request.resource_profiles[r.randrange(len(request.resource_profiles))].resource.attributes))
    request.dictionary.CopyFrom(t.d)
    if r.random() < 0.05:
        break_samples(r, request)
    return one_kernel_name(request)


def one_kernel_name(request):
    """Of a kernel location only one line has a name: what the connector and we make of several is rules/LANGUAGE.md §14."""
    d = request.dictionary

    def at(table, i):
        return table[i] if 0 <= i < len(table) else None

    for one in d.location_table:
        types = [a.value for a in (at(d.attribute_table, i) for i in one.attribute_indices)
                 if a is not None and at(d.string_table, a.key_strindex) == "profile.frame.type"]
        text = types[0] if types else profiles.KeyValueAndUnit().value
        if text.string_value != "kernel" and at(d.string_table, text.string_value_strindex) != "kernel":
            continue
        named = [i for i, line in enumerate(one.lines) if not (f := at(d.function_table, line.function_index)) or
                 at(d.string_table, f.name_strindex)]
        for i in reversed(named[1:]):
            del one.lines[i]
    return request


# ---- captured requests, changed

def cut(r, request, most=8):
    """Fewer samples and resources, and of the tables only what they reach: many changed requests are checked in little time."""
    kept = service.ExportProfilesServiceRequest()
    kept.CopyFrom(request)
    while len(kept.resource_profiles) > 4:
        del kept.resource_profiles[r.randrange(len(kept.resource_profiles))]
    for profile in all_profiles(kept):
        while len(profile.samples) > most:
            first = r.randrange(len(profile.samples) - most + 1)
            del profile.samples[:first]
            del profile.samples[most:]
    d = kept.dictionary
    used = {name: {0} for name in ("mapping", "location", "function", "link", "string", "attribute", "stack")}
    for profile in all_profiles(kept):
        used["string"] |= {i for kind in (profile.sample_type, profile.period_type) for i in (kind.type_strindex, kind.unit_strindex)}
        used["attribute"].update(profile.attribute_indices)
        for one in profile.samples:
            used["stack"].add(one.stack_index)
            used["link"].add(one.link_index)
            used["attribute"].update(one.attribute_indices)
    used["location"].update(i for s in used["stack"] for i in d.stack_table[s].location_indices)
    for l in (d.location_table[i] for i in used["location"]):
        used["mapping"].add(l.mapping_index)
        used["attribute"].update(l.attribute_indices)
        used["function"].update(line.function_index for line in l.lines)
    for m in (d.mapping_table[i] for i in used["mapping"]):
        used["string"].add(m.filename_strindex)
        used["attribute"].update(m.attribute_indices)
    for f in (d.function_table[i] for i in used["function"]):
        used["string"] |= {f.name_strindex, f.system_name_strindex, f.filename_strindex}
    for a in (d.attribute_table[i] for i in used["attribute"]):
        used["string"] |= {a.key_strindex, a.unit_strindex}
    return in_order(kept, {table: sorted(indices) for table, indices in used.items()})


def all_profiles(request):
    return [profile for resource in request.resource_profiles for scope in resource.scope_profiles for profile in scope.profiles]


def shuffled(r, request):
    """The same request with its tables in another order: every number must stay."""
    orders = {}
    for table in ("mapping", "location", "function", "link", "string", "attribute", "stack"):
        others = list(range(1, len(getattr(request.dictionary, table + "_table"))))
        r.shuffle(others)
        orders[table] = [0, *others]
    return in_order(request, orders)


def in_order(request, orders):
    """Each table with these entries in this order."""
    d = request.dictionary
    place = {}
    for table, order in orders.items():
        entries = list(getattr(d, table + "_table"))
        place[table] = {old: new for new, old in enumerate(order)}
        d.ClearField(table + "_table")
        getattr(d, table + "_table").extend(entries[i] for i in order if i < len(entries))
    renumber_tables(d, place)
    for profile in all_profiles(request):
        for kind in (profile.sample_type, profile.period_type):
            kind.type_strindex, kind.unit_strindex = place["string"][kind.type_strindex], place["string"][kind.unit_strindex]
        profile.attribute_indices[:] = [place["attribute"][i] for i in profile.attribute_indices]
        for one in profile.samples:
            one.stack_index, one.link_index = place["stack"][one.stack_index], place["link"][one.link_index]
            one.attribute_indices[:] = [place["attribute"][i] for i in one.attribute_indices]
    return request


def renumber_tables(d, place):
    strings = place["string"]
    for mapping in d.mapping_table:
        mapping.filename_strindex = strings[mapping.filename_strindex]
        mapping.attribute_indices[:] = [place["attribute"][i] for i in mapping.attribute_indices]
    for one in d.location_table:
        one.mapping_index = place["mapping"][one.mapping_index]
        one.attribute_indices[:] = [place["attribute"][i] for i in one.attribute_indices]
        for line in one.lines:
            line.function_index = place["function"][line.function_index]
    for function in d.function_table:
        for field in ("name_strindex", "system_name_strindex", "filename_strindex"):
            setattr(function, field, strings[getattr(function, field)])
    for attribute in d.attribute_table:
        attribute.key_strindex, attribute.unit_strindex = strings[attribute.key_strindex], strings[attribute.unit_strindex]
    for one in d.stack_table:
        one.location_indices[:] = [place["location"][i] for i in one.location_indices]


def changed(r, request):
    """Some fields with another value of their own range."""
    d = request.dictionary
    for _ in range(r.choice([1, 5, 40])):
        where = r.randrange(9)
        one = r.choice(d.location_table[1:]) if len(d.location_table) > 1 else None
        if where == 0 and one is not None and len(d.mapping_table):
            one.mapping_index = r.randrange(len(d.mapping_table))
        elif where == 1 and one is not None:
            one.attribute_indices[:] = [r.randrange(1, len(d.attribute_table)) for _ in range(r.randrange(3))]
        elif where == 2 and one is not None:
            for line in one.lines:
                line.function_index = r.randrange(len(d.function_table))
        elif where == 3 and len(d.string_table) > 1:
            d.string_table[r.randrange(1, len(d.string_table))] = r.choice(KERNEL + GO + JVM + FILES)
        elif where == 4 and len(d.function_table) > 1:
            d.function_table[r.randrange(1, len(d.function_table))].name_strindex = r.randrange(len(d.string_table))
        elif where == 5 and len(d.attribute_table) > 1:
            d.attribute_table[r.randrange(1, len(d.attribute_table))].value.string_value = r.choice(RUNTIMES + OTHER_TYPES)
        elif where == 6 and len(d.stack_table) > 1:
            indices = d.stack_table[r.randrange(1, len(d.stack_table))].location_indices
            indices[:] = r.sample(list(indices), len(indices)) + [r.randrange(len(d.location_table))]
        elif where == 7 and one is not None:
            del one.lines[:]
        else:
            change_profile(r, request)
    return one_kernel_name(request)


def change_profile(r, request):
    found = all_profiles(request)
    profile = r.choice(found) if found else profiles.Profile()
    for one in profile.samples:
        if r.random() < 0.3:
            one.stack_index = r.randrange(len(request.dictionary.stack_table))
        if r.random() < 0.2:
            one.timestamps_unix_nano.extend([1] * r.randrange(1, 4))
    if r.random() < 0.2:
        profile.time_unix_nano = r.choice([0, 5])


def bytes_changed(r, request):
    """Bytes of the message flipped, until what comes out is still a message (official decoder); None if it never is."""
    body = request.SerializeToString()
    for _ in range(20):
        other = bytearray(body)
        for _ in range(r.choice([1, 2, 6])):
            other[r.randrange(len(other))] = r.choice([0, 1, 2, 3, 8, 0x7f, r.randrange(256)])
        try:
            return one_kernel_name(service.ExportProfilesServiceRequest.FromString(bytes(other)))
        except Exception:  # noqa: BLE001: DecodeError, or text that is no UTF-8
            continue
    return None


def seeded(*parts):
    return random.Random("/".join(map(str, parts)))
