"""Reads what profilers send: every hit in an ExportProfilesServiceRequest of OTLP 1.10, by whoever made it.

By hand and not with a library, as the bench runs with nothing but Python: of the message just what it needs.
"""
import collections
import gzip


class Message:
    """Fields of a protobuf message by number: varints and fixed64 as int, the rest as bytes."""

    def __init__(self, data):
        self.fields = collections.defaultdict(list)
        at = 0
        while at < len(data):
            tag, at = varint(data, at)
            number, kind = tag >> 3, tag & 7
            if kind == 0:
                value, at = varint(data, at)
            elif kind == 1:
                value, at = int.from_bytes(data[at:at + 8], "little"), at + 8
            elif kind == 2:
                size, at = varint(data, at)
                value, at = data[at:at + size], at + size
            else:
                raise ValueError(f"wire type {kind}")
            self.fields[number].append(value)

    def all(self, number):
        return [Message(value) for value in self.fields[number]]

    def number(self, number):
        return self.fields[number][-1] if self.fields[number] else 0

    def text(self, number):
        return self.fields[number][-1].decode(errors="replace") if self.fields[number] else ""

    def packed(self, number):
        """A packed repeated varint."""
        values = []
        for data in self.fields[number]:
            at = 0
            while at < len(data):
                value, at = varint(data, at)
                values.append(value)
        return values

    def packed_fixed64(self, number):
        data = b"".join(self.fields[number])
        return [int.from_bytes(data[i:i + 8], "little") for i in range(0, len(data), 8)]


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        shift, at = shift + 7, at + 1
        if byte < 128:
            return value, at


# stack: frames, the leaf first
Hit = collections.namedtuple("Hit", "kind pid executable incomplete time stack")
Frame = collections.namedtuple("Frame", "kind name file address")


def plain(compressed, message):
    """A request's message as it was before compression (gzip is what both profilers use)."""
    return gzip.decompress(message) if compressed else message


def is_profiles(body):
    """Profiles have a dictionary (field 2) beside the resources; metrics and logs do not."""
    return 2 in Message(body).fields


def scalar(value):
    """AnyValue as a string or a number (fields 1 and 3)."""
    return value.text(1) if value.fields[1] else value.number(3)


def frames_of(dictionary, strings, attributes):
    """The location table as frames. Its fields: mapping, address, lines, attributes (Location); filename (Mapping)."""
    files = [strings[mapping.number(4)] for mapping in dictionary.all(1)]
    names = [strings[function.number(1)] for function in dictionary.all(3)]
    frames = []
    for location in dictionary.all(2):
        lines = location.all(3)
        own = dict(attributes[i] for i in location.packed(4))
        frames.append(Frame(own.get("profile.frame.type", ""), names[lines[0].number(1)] if lines else "",
                            files[location.number(1)], location.number(2)))
    return frames


def hits_of(body):
    request = Message(body)
    dictionary = request.all(2)[0]
    strings = [s.decode(errors="replace") for s in dictionary.fields[5]]
    attributes = [(strings[a.number(1)], scalar(a.all(2)[0]) if a.fields[2] else "") for a in dictionary.all(6)]
    frames = frames_of(dictionary, strings, attributes)
    stacks = [tuple(frames[i] for i in stack.packed(1)) for stack in dictionary.all(7)]
    for resource in request.all(1):
        about = {a.text(1): scalar(a.all(2)[0]) for message in resource.all(1) for a in message.all(1) if a.fields[2]}
        for profile in (p for scope in resource.all(2) for p in scope.all(2)):
            kind = strings[profile.all(1)[0].number(1)]
            for sample in profile.all(2):
                own = dict(attributes[i] for i in sample.packed(2))
                for when in sample.packed_fixed64(5):
                    yield Hit(kind, about.get("process.pid"), about.get("process.executable.name", ""),
                              own.get("profsend.stack.incomplete"), when / 1e9, stacks[sample.number(1)])
