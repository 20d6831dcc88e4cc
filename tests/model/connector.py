"""Elastic's profilingmetricsconnector (commit 9e2ea7f), written again as plainly as it can be: one sample after the other, one
frame after the other, nothing remembered. What it does with a request stands here in the order in which it does it; the places
named are those of its source (connector.go, frame.go, general_aggregation.go, internal/metadata/generated_metrics.go).

It is a judge, so it shares nothing with the program: no table, no pattern and no code.
"""
import collections
import dataclasses
import re

SUMS = ("user", "kernel", "native", "jvm", "cpython", "go", "v8js", "php", "perl", "ruby", "dotnet", "rust", "beam")
GAUGES = ("samples.frame_type", "samples.classification", "samples.custom_aggregation")
RUNTIMES = set(SUMS) - {"user", "kernel", "native"}
TYPE_KEY = "profile.frame.type"

# frame.go, `classes`: the earlier one wins, wherever in the stack it was found. `^` and the bare words as they stand there.
CLASSES = [(re.compile(pattern, re.ASCII), name) for pattern, name in (
    (r"\A(?:tcp_recvmsg|tcp_read|tcp_rcv|tcp_v4_rcv|tcp_v6_rcv)", ("network", "tcp", "read")),
    (r"\A(?:tcp_sendmsg|tcp_transmit|tcp_write|tcp_push|tcp_sendpage)", ("network", "tcp", "write")),
    (r"\A(?:udp_recvmsg|udp_read|udp_rcv|udp_v4_rcv|udp_v6_rcv)", ("network", "udp", "read")),
    (r"\A(?:udp_sendmsg|udp_write|udp_push|udp_sendpage)", ("network", "udp", "write")),
    (r"\A(?:pipe_read|eventfd_read|unix_stream_read_generic|unix_stream_recvmsg)", ("ipc", None, "read")),
    (r"\A(?:pipe_write|eventfd_write|unix_stream_write_generic|unix_stream_sendmsg)", ("ipc", None, "write")),
    (r"\A(?:sock_recvmsg|__sock_recvmsg|sock_read_iter)", ("network", "other", "read")),
    (r"\A(?:sock_sendmsg|__sock_sendmsg|sock_write_iter)", ("network", "other", "write")),
    (r"\A(?:(?:ext4|xfs|btrfs|generic)_file_read_iter|filemap_read)", ("disk", None, "read")),
    (r"\A(?:(?:ext4|xfs|btrfs|generic)_file_write_iter|filemap_write|writeback_sb_inodes)", ("disk", None, "write")),
    (r"\Ado_mmap|do_munmap|\Ado_anonymous_page|mmap_|madvise|\Ahandle_mm_fault|\Aalloc_pages|\Afree_pages",
     ("memory", None, None)),
    (r"futex|\Aschedule|__schedule|\Awake_up_|\Awake_q_", ("synchronization", None, None)))]
SYSCALL = re.compile(r"\A(?:__x64_sys|__arm64_sys|ksys)_(\w+)", re.ASCII)
LIBRARY = re.compile(r"(?:.*/)?(.+)\.so")


@dataclasses.dataclass
class Gauge:
    """A gauge's switches: MetricConfig in generated_config.go."""
    enabled: bool
    strategy: str = "avg"
    attributes: tuple = None  # None: all of them


@dataclasses.dataclass
class Configuration:
    """What a user can say: config.go. `aggregations` are (compiled Python regex of the same meaning, label)."""
    disabled: frozenset = frozenset()
    gauges: dict = dataclasses.field(default_factory=dict)
    aggregations: list = dataclasses.field(default_factory=list)

    def gauge(self, name):
        return self.gauges.get(name) or Gauge(enabled=name == "samples.custom_aggregation")


class Bad(Exception):
    """fetchFrameInfo returned an error: the sample ends here, what was found so far counts."""


def frame_type(dictionary, location):
    """The first attribute of that key; a value that is no string reads as "" (pdata's Value.Str). None: no such attribute."""
    for index in location.attribute_indices:
        attribute = dictionary.attribute_table[index]
        if dictionary.string_table[attribute.key_strindex] == TYPE_KEY:
            return attribute.value.string_value
    return None


def kernel_function(dictionary, location):
    """The first name among the location's lines; the others are not looked at."""
    for line in location.lines:
        name = dictionary.string_table[dictionary.function_table[line.function_index].name_strindex]
        if name:
            return name
    return ""


def frame_info(dictionary, location):
    """(type, what is classified by: a native frame's file, a kernel frame's function)."""
    kind = frame_type(dictionary, location)
    if kind is None or not (kind in RUNTIMES or kind in ("native", "kernel")):
        raise Bad(kind)
    if kind == "native":
        return kind, dictionary.string_table[dictionary.mapping_table[location.mapping_index].filename_strindex]
    return kind, kernel_function(dictionary, location) if kind == "kernel" else ""


def count_user(kind, file, weight, found):
    """classifyUser."""
    found["samples.user.count", ()] += weight
    if kind != "native":
        found[f"samples.{kind}.count", ()] += weight
        return
    library = LIBRARY.search(file) if file else None
    found["samples.native.count", (("shlib_name", library.group(1)),) if library else ()] += weight


def count_sample(dictionary, stack, weight, found):
    """classifyFrames: the leaf, and while frames are the kernel's, on to the system call."""
    best, system_call, kernel = len(CLASSES), None, False
    for position, index in enumerate(stack.location_indices):
        try:
            kind, text = frame_info(dictionary, dictionary.location_table[index])
        except Bad:
            break
        if kind != "kernel":
            if position == 0:
                count_user(kind, text, weight, found)
            break
        kernel = True
        if text:
            best = next((i for i in range(best) if CLASSES[i][0].search(text)), best)
            match = SYSCALL.search(text)
            if match:
                system_call = match.group(1)
                break
    if not kernel:
        return
    area, protocol, direction = CLASSES[best][1] if best < len(CLASSES) else (None, None, None)
    if system_call == "write" and (area, protocol, direction) == ("network", "tcp", "read"):
        direction = "write"
    labels = {"syscall_name": system_call, "kernel_area": area, "kernel_proto": protocol, "kernel_io": direction}
    found["samples.kernel.count", tuple(sorted((k, v) for k, v in labels.items() if v))] += weight


def go_package(function):
    """extractGolangInfo: up to the first dot behind the last slash."""
    slash = function.rfind("/")
    dot = function.find(".", slash + 1)
    return function if dot < 0 else function[:dot]


GO_SPACE = "\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"


def jvm_class(function):
    """extractHotspotInfo, and the dot that its caller puts between package and class."""
    name = function.partition("(")[0].strip(GO_SPACE)
    name = name[name.rfind(" ") + 1:]
    if "." in name:
        name = name[:name.rfind(".")]
    package, _, simple = name.rpartition(".")
    return package + "." + simple


def gauge_values(dictionary, profile, configuration):
    """{gauge: {labels in the order of generated_metrics.go: frames}} of one profile, of whatever type."""
    found = {name: collections.Counter() for name in GAUGES}
    for sample in profile.samples:
        if sample.stack_index == 0:
            continue
        for index in dictionary.stack_table[sample.stack_index].location_indices:
            location = dictionary.location_table[index]
            kind = frame_type(dictionary, location)
            if kind is not None:
                found["samples.frame_type"][(("frame_type", kind),)] += 1
            for line in location.lines:
                function = dictionary.string_table[dictionary.function_table[line.function_index].name_strindex]
                if kind in ("go", "jvm"):
                    part = go_package(function) if kind == "go" else jvm_class(function)
                    found["samples.classification"][(("classification", kind), ("frame_type", part))] += 1
                for pattern, label in configuration.aggregations:
                    if pattern.search(function):
                        found["samples.custom_aggregation"][(("frame_type", label),)] += 1
    return found


def gauge_points(dictionary, profiles, configuration):
    """What one emit of the metrics builder makes of the points of its profiles: those of equal attributes and time are one
    (recordDataPoint, emit); the consumer behind it adds up what is left, whatever its time (consumer_agg.go)."""
    points = collections.defaultdict(list)
    for profile in profiles:
        kind = "_".join(dictionary.string_table[i] for i in (profile.sample_type.type_strindex, profile.sample_type.unit_strindex))
        for name, values in gauge_values(dictionary, profile, configuration).items():
            gauge = configuration.gauge(name)
            for labels, frames in values.items():
                labels = (*labels, ("profile.type_unit", kind))
                kept = tuple(sorted(l for l in labels if gauge.attributes is None or l[0] in gauge.attributes))
                if gauge.enabled:
                    points[name, kept, profile.time_unix_nano].append(frames)
    ways = {"sum": sum, "min": min, "max": max, "avg": lambda all: sum(all) // len(all)}
    found = collections.Counter()
    for (name, labels, _), values in points.items():
        found[name, labels] += ways[configuration.gauge(name).strategy](values)
    return found


def count(request, configuration, who):
    """{(who(resource's attributes), metric, labels): number} of one ExportProfilesServiceRequest."""
    dictionary, total = request.dictionary, collections.Counter()
    for resource in request.resource_profiles:
        profiles = [profile for scope in resource.scope_profiles for profile in scope.profiles]
        found = collections.Counter()
        for profile in profiles:
            kind = [dictionary.string_table[i] for i in (profile.sample_type.type_strindex, profile.sample_type.unit_strindex)]
            if kind == ["samples", "count"]:
                for sample in profile.samples:
                    weight = max(len(sample.timestamps_unix_nano), 1)  # values are not read
                    count_sample(dictionary, dictionary.stack_table[sample.stack_index], weight, found)
        found.update(gauge_points(dictionary, profiles, configuration))
        name = who(resource.resource.attributes)
        for (metric, labels), number in found.items():
            if metric not in configuration.disabled:
                total[name, metric, labels] += number
    return total
