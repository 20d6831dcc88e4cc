"""Rule files and profiles made up from a seed, for tests/model/language.py: a small alphabet, so that patterns meet, stacks
repeat and tables decide; every construct of the core that it knows."""
import random

from language import Frame, Metric, Rules, Sample, Source, Table
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service

TYPES = ("native", "kernel", "go", "jvm", "cpython", "cobol")
MORE_TYPES = tuple(f"t{i}" for i in range(40))       # more than a state keeps bits for
FUNCTIONS = ("a", "b", "ab", "ba", "abc", "main.a", "main.b", "x.y", "", "cab", "A")
FILES = ("", "f/a", "f/b.py")
MAPPINGS = ("/lib/a.so", "b.so", "/x/ab")
GLOBS = ("a", "b", "ab", "a*", "*b", "*a*", "main.*", "*.y", "*", "", "a*c", "b.so", "f/*")
REGEXES = ("^a", "b$", "a.?b", "x\\.y", "[ab]{2}", "main|cab")
CAPTURES = ("^main\\.(\\w)", "a(b?)", "[abc]+", "\\.(.*)$", "none_of_them")
VALUES = ("", "x", "y", "xy", "5", "true")
KEYS = ("k", "l")
FIELDS = ("function", "library", "mapping", "file", "type")
PERIOD_NS = 10_000_000
NOW = 1_763_700_000_000_000_000


class Case:
    """A rule file and its requests: `rules` for the model, `samples` for it, `requests` for the program."""

    def __init__(self, seed):
        self.r = random.Random(seed)
        self.rules, self.samples, self.requests = Rules(), [], []
        self.names = {word: [] for word in ("pattern", "frame", "region", "sample", "text", "symbols", "verdicts")}
        self.define()
        for i in range(self.r.randint(2, 5)):
            self.rules.metrics[f"m{i}"] = self.metric()
        pool = self.locations()
        for _ in range(2):
            self.requests.append(self.request(pool))

    def chance(self, share):
        return self.r.random() < share

    # ---- the rule file

    def define(self):
        make = {"pattern": self.pattern, "frame": self.frame, "region": self.region, "sample": self.sample, "text": self.text}
        for i in range(self.r.randint(4, 12)):
            word = self.r.choice(("pattern", "frame", "frame", "region", "sample", "text", "symbols", "verdicts"))
            name = f"{word[0] if word != 'symbols' else 'y'}{i}"
            if word in make:
                self.rules.definitions[name] = (word, make[word](2) if word not in ("pattern", "region") else make[word]())
            else:
                self.rules.definitions[name] = ("table", self.table(word == "verdicts"))
            self.names[word].append(name)

    def name(self, word):
        return self.r.choice(self.names[word]) if self.names[word] else None

    def atom(self):
        if self.chance(0.7):
            return ("glob", self.r.choice(GLOBS), self.chance(0.15))
        return ("regex", self.r.choice(REGEXES), self.chance(0.15))

    def pattern(self):
        atoms = [self.atom() for _ in range(self.r.choice((1, 1, 2, 3)))]
        if self.names["pattern"] and self.chance(0.2):
            atoms.append(("name", self.name("pattern")))
        return [("none",)] if self.chance(0.04) else atoms

    def any_field(self):
        table = self.name("symbols") if self.chance(0.3) else None
        return f"{table}.{self.r.choice(self.rules.definitions[table][1].columns)}" if table else self.r.choice(FIELDS)

    def frame(self, depth):
        pick = self.r.random()
        if depth > 0 and pick < 0.35:
            return (self.r.choice(("and", "or")), *(self.frame(depth - 1) for _ in range(self.r.choice((2, 2, 3)))))
        if depth > 0 and pick < 0.45:
            return ("not", self.frame(depth - 1))
        if pick < 0.6:
            return ("type", self.r.choice(TYPES))
        if pick < 0.64:
            return ("inlined",)
        if pick < 0.74 and self.names["frame"]:
            return ("name", self.name("frame"))
        if pick < 0.77 and self.names["pattern"]:
            return ("name", self.name("pattern"))
        if pick < 0.84:
            field = self.any_field()
            value = self.r.choice((None, *VALUES, *FUNCTIONS[:5], *TYPES[:2], *MORE_TYPES[:2]))
            return ("equal", field, value, self.r.choice(("==", "!=")))
        field = "function" if self.chance(0.6) else self.any_field()
        return ("match", field, self.pattern(), self.r.choice(("~", "~", "~", "!~")))

    def word_or_frame(self):
        """For `calls`, whose operands are one token each."""
        names = self.names["frame"] + self.names["pattern"]
        return ("name", self.r.choice(names)) if names and self.chance(0.6) else ("type", self.r.choice(TYPES[:5]))

    def region(self):
        end = self.r.choice((None, "through", "before"))
        return (self.frame(1) if self.chance(0.4) else None, self.frame(1) if self.chance(0.4) else None,
                end, self.frame(1) if end else None)

    def region_name(self):
        return self.name("region") if self.chance(0.5) else None

    def reference(self, each):
        if each and self.chance(0.6):
            return ("frame",)
        word = self.r.choice(("leaf", "root", "first", "last"))
        return (word,) if word in ("leaf", "root") else (word, self.frame(1), self.region_name())

    def attribute(self):
        return ("attribute", self.r.choice(("sample", "profile", "scope", "resource", "attr")), self.r.choice(KEYS))

    def compared(self, each):
        """A text that begins with no parenthesis."""
        pick = self.r.random()
        if pick < 0.35 and self.names["text"]:
            return ("name", self.name("text"))
        if pick < 0.5 and self.names["verdicts"]:
            return self.column()
        if pick < 0.75:
            return ("of", self.any_field(), self.reference(each))
        return self.attribute()

    def column(self):
        table = self.name("verdicts")
        return ("column", table, self.r.choice(self.rules.definitions[table][1].columns))

    def sample(self, depth, each=False):
        pick = self.r.random()
        if depth > 0 and pick < 0.3:
            return (self.r.choice(("and", "or")), *(self.sample(depth - 1, each) for _ in range(2)))
        if depth > 0 and pick < 0.4:
            return ("not", self.sample(depth - 1, each))
        if pick < 0.45:
            return ("linked",)
        if pick < 0.52 and self.names["sample"]:
            return ("name", self.name("sample"))
        if pick < 0.68:
            return ("quantity", self.r.choice(("any", "any", "no", "every")), self.region_name(), self.frame(2))
        if pick < 0.78:
            return ("is", self.reference(each), self.frame(1))
        if pick < 0.88:
            n = self.r.choice((2, 2, 3))
            return ("calls", [self.word_or_frame() for _ in range(n)], [self.chance(0.4) for _ in range(n - 1)])
        if pick < 0.94:
            return ("matches", self.compared(each), self.r.choice(("~", "!~")), self.pattern())
        right = self.r.choice((("none",), ("string", self.r.choice(VALUES)), self.compared(each)))
        return ("equals", self.compared(each), self.r.choice(("==", "!=")), right)

    def text(self, depth, each=False):
        pick = self.r.random()
        if depth > 0 and pick < 0.25:
            return ("or", self.text(depth - 1, each), self.text(depth - 1, each))
        if depth > 0 and pick < 0.35:
            return ("join", self.text(depth - 1, each), self.text(depth - 1, each))
        if depth > 0 and pick < 0.5:
            return ("when", self.text(0, each), self.sample(1, each))
        if depth > 0 and pick < 0.6:
            return ("capture", self.r.choice(CAPTURES), self.compared(each))
        if pick < 0.66:
            return ("profile", self.r.choice(("type", "unit")))
        if pick < 0.76:
            return ("string", self.r.choice(VALUES + FUNCTIONS))
        return self.compared(each)

    def cell(self, condition, over):
        pick = self.r.random()
        if pick < 0.35:
            return ("string", self.r.choice(VALUES + FUNCTIONS))
        if pick < 0.45:
            return ("none",)
        if over and pick < 0.6:
            return self.attribute()
        if over and condition is None:
            return ("string", "else")
        return ("field", self.r.choice(FIELDS)) if pick < 0.85 else (
            "capture", self.r.choice(CAPTURES), ("field", self.r.choice(FIELDS)))

    def table(self, over):
        columns = ("c", "d")[:self.r.choice((1, 2))]
        rows = []
        for _ in range(self.r.randint(1, 4)):
            condition = self.frame(1)
            when = self.sample(1) if over and self.chance(0.35) else None
            rows.append((condition, when, [self.cell(condition, over) for _ in columns]))
        if self.chance(0.4):
            rows.append((None, None, [self.cell(None, over) for _ in columns]))
        return Table(columns, over, self.region_name() if over else None, over and self.chance(0.5), rows)

    def metric(self):
        sources = []
        for _ in range(self.r.choice((1, 1, 1, 2))):
            each = (self.chance(0.5), self.region_name(), self.frame(1) if self.chance(0.7) else None) if self.chance(0.35) else None
            labels = [(label, self.text(2, each is not None)) for label in ("n", "o", "p")[:self.r.randint(0, 3)]]
            if each and self.chance(0.4):
                labels = [("n", ("of", "type", ("frame",)))]       # counted by the types that a state knows
            sources.append(Source(self.sample(2) if self.chance(0.8) else None, each, labels))
        return Metric(self.r.choice(("cpu", "cpu", "cpu", "wall")), self.r.choice(("samples", "events", "one", "time")), sources)

    # ---- the profiles

    def locations(self):
        """A location is (type, mapping, lines innermost first); a line is (function, file)."""
        many = self.chance(0.2)
        return [(self.r.choice(MORE_TYPES if many else (*TYPES, None)), self.r.choice((*MAPPINGS, None)),
                 [(self.r.choice(FUNCTIONS), self.r.choice(FILES)) for _ in range(self.r.choice((0, 1, 1, 1, 2, 3)))])
                for _ in range(60 if many else self.r.randint(4, 14))]

    def attributes(self):
        return {key: self.r.choice(VALUES) for key in KEYS if self.chance(0.4)}

    def request(self, pool):
        message = Message()
        stacks = [[self.r.choice(pool) for _ in range(self.r.choice((0, 1, 2, 3, 4, 6, 9, 40)))] for _ in range(self.r.randint(3, 10))]
        for _ in range(self.r.randint(1, 3)):
            attributes = {scope: self.attributes() for scope in ("profile", "scope", "resource")}
            wall = self.chance(0.3)
            profile = message.profile(attributes, wall)
            for _ in range(self.r.randint(2, 14)):
                stack, own, linked = self.r.choice(stacks), self.attributes(), self.chance(0.3)
                values, events = self.weight(wall)
                message.sample(profile, stack, own, linked, values, events)
                frames = [frame for location in stack for frame in frames_of(location)]
                weight = sum(values) or max(events, 1)
                ns = sum(values) if wall else weight * PERIOD_NS
                if wall and values:
                    weight = max(sum(values) // PERIOD_NS, 1)
                self.samples.append(Sample(
                    frames, {"sample": own, **attributes}, linked, "wall" if wall else "cpu",
                    {"type": "wall" if wall else "samples", "unit": "nanoseconds" if wall else "count"},
                    {"samples": weight, "events": max(events, 1), "one": 1, "time": ns / 1e9}))
        return message.request

    def weight(self, wall):
        """Values, and the number of timestamps: both need as many."""
        n = self.r.randint(1, 3)
        values = [self.r.randint(1, 5) * (7_000_000 if wall else 1) for _ in range(n)]
        return self.r.choice(((values[:1], 0), (values, n))) if wall or self.chance(0.6) else ([], n)


def frames_of(location):
    kind, mapping, lines = location
    library = mapping.rsplit("/", 1)[-1] if mapping else None
    if not lines:
        return [Frame(kind, None, None, None, mapping, library, False)]
    return [Frame(kind, function, "", file, mapping, library, i + 1 < len(lines)) for i, (function, file) in enumerate(lines)]


class Message:
    """An ExportProfilesServiceRequest with a dictionary as it should be: entry 0 of each table is nothing."""

    def __init__(self):
        self.request = service.ExportProfilesServiceRequest()
        d = self.request.dictionary
        for table in (d.mapping_table, d.location_table, d.function_table, d.link_table, d.attribute_table, d.stack_table):
            table.add()
        d.string_table.append("")
        self.known = {("string", ""): 0}

    def index(self, word, key, table, fill):
        """Of an entry that is made once."""
        if (word, key) not in self.known:
            fill(table.add())
            self.known[word, key] = len(table) - 1
        return self.known[word, key]

    def string(self, text):
        if ("string", text) not in self.known:
            self.known["string", text] = len(self.request.dictionary.string_table)
            self.request.dictionary.string_table.append(text)
        return self.known["string", text]

    def attribute(self, key, value):
        def fill(entry):
            entry.key_strindex = self.string(key)
            set_value(entry.value, value)
        return self.index("attribute", (key, value), self.request.dictionary.attribute_table, fill)

    def function(self, name, file):
        def fill(entry):
            entry.name_strindex, entry.filename_strindex = self.string(name), self.string(file)
        return self.index("function", (name, file), self.request.dictionary.function_table, fill)

    def location(self, location):
        kind, mapping, lines = location

        def fill_mapping(entry):
            entry.filename_strindex = self.string(mapping)

        def fill(entry):
            if mapping:
                entry.mapping_index = self.index("mapping", mapping, self.request.dictionary.mapping_table, fill_mapping)
            if kind is not None:
                entry.attribute_indices.append(self.attribute("profile.frame.type", kind))
            for function, file in lines:
                entry.lines.add().function_index = self.function(function, file)
        return self.index("location", (kind, mapping, tuple(lines)), self.request.dictionary.location_table, fill)

    def stack(self, stack):
        if not stack:
            return 0
        indices = tuple(self.location(location) for location in stack)
        return self.index("stack", indices, self.request.dictionary.stack_table,
                          lambda entry: entry.location_indices.extend(indices))

    def link(self):
        def fill(entry):
            entry.trace_id, entry.span_id = bytes(range(16)), bytes(range(1, 9))
        return self.index("link", 0, self.request.dictionary.link_table, fill)

    def profile(self, attributes, wall):
        resource = self.request.resource_profiles.add()
        scope = resource.scope_profiles.add()
        for target, name in ((resource.resource, "resource"), (scope.scope, "scope")):
            for key, value in attributes[name].items():
                set_value(target.attributes.add(key=key).value, value)
        profile = scope.profiles.add(time_unix_nano=NOW, duration_nano=1_000_000_000, period=PERIOD_NS, profile_id=bytes(range(16)))
        profile.attribute_indices.extend(self.attribute(k, v) for k, v in attributes["profile"].items())
        profile.sample_type.type_strindex = self.string("wall" if wall else "samples")
        profile.sample_type.unit_strindex = self.string("nanoseconds" if wall else "count")
        profile.period_type.type_strindex = self.string("wall" if wall else "cpu")
        profile.period_type.unit_strindex = self.string("nanoseconds")
        return profile

    def sample(self, profile, stack, attributes, linked, values, events):
        sample = profile.samples.add(stack_index=self.stack(stack), values=values,
                                     timestamps_unix_nano=[NOW + i for i in range(events)])
        sample.attribute_indices.extend(self.attribute(k, v) for k, v in attributes.items())
        if linked:
            sample.link_index = self.link()


def set_value(target, value):
    """Numbers and truths become text as the language says: 5 and true here."""
    if value == "5":
        target.int_value = 5
    elif value == "true":
        target.bool_value = True
    else:
        target.string_value = value
