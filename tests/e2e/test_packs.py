"""The shipped packs' names: each pattern of rules/builtin is met by a frame of a recorded stack in the packs' own tests.

W210 wants a stack for each row of a table; here it is each alternative of each row, each glob of `a | b | c`, by a frame for
which that one decides: the type and library asked beside it have to hold too, and no other alternative counts. So a name
that nobody has seen in a real program cannot be shipped, however plausible it looks.

And what the packs count on recordings of profsend (tests/data/packs) and of the eBPF profiler (tests/data/connector).
"""
import collections
import functools
import re
import subprocess

import pytest
from programs import BUILD, ROOT

BUILTIN = ROOT / "rules" / "builtin"
TYPES = set("native kernel jvm cpython go v8js php perl ruby dotnet rust beam luajit".split())
FIELDS = {"type", "function", "system_name", "file", "mapping", "library", "build_id"}
# The connector's copy is proved by recorded answers of the real one (test_connector_model.py), names and all.
PACKS = sorted(p.stem for p in BUILTIN.glob("*.rules") if p.stem != "connector")

TOKEN = re.compile(r"""
    (?P<space>\s+|\#[^\n]*) | (?P<string>"(?:[^"\\\n]|\\.)*"i?) | (?P<mark>=>|!~|==|!=|\?\?|[{}()\[\]|~=,+<-])
  | (?P<number>\d+(?:\.\d+)?[A-Za-z%]*) | (?P<name>[A-Za-z_][A-Za-z0-9_.]*\*?) | (?P<regex>/(?:[^/\\\n]|\\.)*/i?)
""", re.X)
# Seen, and not ours to copy: systems before glibc 2.34 have it, and another project's recording of a JVM on one of them.
ELSEWHERE = {("ffi", '"libpthread*"')}
Token = collections.namedtuple("Token", "kind text line")
Frame = collections.namedtuple("Frame", "type function mapping file")
Atom = collections.namedtuple("Atom", "text line match")
STATEMENTS = {"param", "pattern", "frame", "region", "sample", "text", "table", "also", "override", "counter", "gauge", "set",
              "enable", "disable", "extend", "keep", "drop", "trigger", "test", "use", "rules", "pack"}


def tokens_of(text):
    found, at = [], 0
    while at < len(text):
        m = TOKEN.match(text, at)
        assert m, f"no token: {text[at:at + 40]!r}"
        if m.lastgroup != "space":
            found.append(Token(m.lastgroup, m.group(), text.count("\n", 0, at) + 1))
        at = m.end()
    return found


def unescaped(text):
    simple = {"n": "\n", "t": "\t"}
    return re.sub(r"\\(x[0-9A-Fa-f]{2}|.)",
                  lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 3 else simple.get(m[1], m[1]), text)


def atom_of(token):
    flags = re.S | (re.I if token.text.endswith("i") else 0)
    body = token.text.rstrip("i")[1:-1]
    if token.kind == "regex":
        return Atom(token.text, token.line, re.compile(body.replace("\\/", "/"), flags).search)
    pieces = [re.escape(unescaped(p.replace("\\\0", "*"))) for p in body.replace("\\*", "\\\0").split("*")]
    return Atom(token.text, token.line, re.compile(".*".join(pieces), flags).fullmatch)


class Pack:
    """What a file defines (conditions about frames as trees), and the frames of its tests."""

    def __init__(self, name):
        self.tokens, self.at = tokens_of((BUILTIN / f"{name}.rules").read_text()), 0
        self.name, self.used, self.definitions, self.conditions = name, {}, {}, []
        self.frames, self.values, self.tables = set(), collections.defaultdict(set), {}
        while self.at < len(self.tokens):
            self.statement()

    # ---- reading

    def peek(self, n=0):
        return self.tokens[self.at + n] if self.at + n < len(self.tokens) else Token("end", "", 0)

    def take(self, *wanted):
        t = self.peek()
        if wanted and t.text not in wanted:
            raise AssertionError(f"{self.name}:{t.line}: {t.text!r} and not {wanted}")
        self.at += 1
        return t

    def statement(self):
        word = self.take().text
        if word == "use":
            other = self.take().text
            self.take("(")
            while self.take().text != ")":
                self.used[self.peek(-1).text] = other
        elif word == "test":
            self.test()
        elif word in ("frame", "pattern") and self.peek(1).text == "=":
            name = self.take().text
            self.take("=")
            tree = self.frame() if word == "frame" else ("pattern", self.pattern())
            self.definitions[name] = tree
            if word == "frame":
                self.conditions.append(tree)
        elif word == "table":
            self.table()
        elif word in ("counter", "gauge"):
            self.metric()
        else:                                  # heads, parameters, regions, texts, samples: words up to the next statement
            while self.peek().kind != "end" and not self.begins_statement():
                if word == "region" and self.peek().text in ("after", "while", "through", "before"):
                    self.take()
                    self.conditions.append(self.unary())
                else:
                    self.guard_or_take()

    def begins_statement(self):
        t, n = self.peek(), self.peek(1)
        return t.kind == "name" and t.text in STATEMENTS and n.text not in ("~", "!~", "[") and \
            (n.kind in ("name", "string") or t.text in ("keep", "drop"))

    def table(self):
        name, columns = self.take().text, []
        self.take("(")
        while self.peek().text != ")":
            columns.append(self.take().text)
        columns = [c for c in columns if c != ","]
        self.take(")")
        classifies = self.peek().text != "over"
        while self.take().text != "{":
            pass
        rows = []
        while self.peek().text != "}":
            if self.peek().text == "else":
                self.take()
                tree = ("all",)
            else:
                tree = self.frame()
                self.conditions.append(tree)
            while self.peek().text != "=>":
                self.guard_or_take()
            self.take("=>")
            cells = [[]]
            while self.peek().text == "," or not self.row_ends():
                t = self.take()
                cells.append([]) if t.text == "," else cells[-1].append(t)
            rows.append((tree, cells))
        self.take("}")
        if classifies:
            self.tables[name] = (columns, rows)

    def row_ends(self):
        """A cell is one text; the next row begins where no operator joins."""
        t, before = self.peek(), self.peek(-1).text
        if t.text == "}":
            return True
        if before in ("=>", ",", "??", "+", "capture", "from", "of", "first", "last"):
            return False
        return t.text not in ("??", "+", "from", "of", "when")

    def metric(self):
        while self.take().text != "{":
            pass
        while self.peek().text != "}":
            self.guard_or_take()
        self.take("}")

    def guard_or_take(self):
        """In conditions about samples: patterns of frames stand behind `is` and `calls`, those of attributes behind `~`."""
        t = self.take()
        if t.text == "[" and self.peek(2).text in ("~", "!~"):
            key = unescaped(self.take().text[1:-1])
            self.at += 2
            self.conditions.append(("attribute", key, self.pattern()))
        elif t.text in ("is", "calls"):
            self.conditions.append(self.unary())
        elif t.text in ("first", "last") and self.peek().text == "(":
            self.conditions.append(self.unary())

    def frame(self):
        kids, word = [self.unary()], None
        while self.peek().text in ("and", "or"):
            word = self.take().text
            kids.append(self.unary())
        return (word, kids) if word else kids[0]

    def unary(self):
        if self.peek().text == "not":
            self.take()
            return ("not", self.unary())
        if self.peek().text == "(":
            self.take()
            tree = self.frame()
            self.take(")")
            return tree
        if self.peek().kind in ("string", "regex"):
            return ("match", "function", self.pattern(), False)
        name = self.take().text
        if self.peek().text in ("~", "!~"):
            negated = self.take().text == "!~"
            return ("match", name, self.pattern(), negated)
        if self.peek().text in ("==", "!="):
            negated = self.take().text == "!="
            t = self.take()
            return ("equal", name, unescaped(t.text[1:-1]) if t.kind == "string" else None, negated)
        return ("name", name)

    def pattern(self):
        atoms = []
        while True:
            t = self.take()
            atoms.append(atom_of(t) if t.kind in ("string", "regex") else t.text)
            if self.peek().text != "|":
                return atoms
            self.take("|")

    def test(self):
        self.take()
        self.take("{")
        while self.peek().text != "}":
            t = self.take()
            if t.text == "stack":
                self.frames.add(self.test_frame())
                while self.peek().text == "<":
                    self.take()
                    self.frames.add(self.test_frame())
            elif t.text == "[" and self.peek(2).text == "=":
                self.values[unescaped(self.take().text[1:-1])].add(unescaped(self.peek(2).text[1:-1]))
            elif t.text == "{":                # of an expectation
                while self.take().text != "}":
                    pass
        self.take("}")

    def test_frame(self):
        if self.peek().text == "inlined":
            self.take()
        kind = self.take().text
        kind = unescaped(self.take().text[1:-1]) if kind == "type" else None if kind == "untyped" else kind
        function = mapping = None
        if self.peek().kind == "string":
            function = unescaped(self.take().text[1:-1])
        if self.peek().text == "in":
            self.take()
            mapping = unescaped(self.take().text[1:-1])
        file = None if function is None else ""
        if self.peek().text == "at":
            self.take()
            file = unescaped(self.take().text[1:-1])
        return Frame(kind, function, mapping, file)


@functools.cache
def packs():
    return {name: Pack(name) for name in PACKS}


# ---- asking

def cell_of(frame, tokens):
    """Choices of `field`, `none`, "text" and `capture /regex/ from field`, joined by ??."""
    choices = [[]]
    for t in tokens:
        choices.append([]) if t.text == "??" else choices[-1].append(t)
    for c in choices:
        if c[0].text == "capture":
            text = field_of(frame, None, c[3].text)
            m = atom_of(c[1]).match(text) if text is not None else None
            value = (m[1] if m.re.groups else m[0]) if m else None
        elif c[0].kind == "string":
            value = unescaped(c[0].text[1:-1])
        else:
            value = field_of(frame, None, c[0].text) if c[0].text in FIELDS else None
        if value:
            return value
    return value


def field_of(frame, pack, name):
    if name == "library":
        return frame.mapping.rsplit("/", 1)[-1] if frame.mapping is not None else None
    if name in FIELDS:
        return getattr(frame, name, None)
    table, column = name.split(".")
    owner = packs()[pack.used[table]] if table in pack.used else pack
    columns, rows = owner.tables[table]
    for tree, cells in rows:
        if holds(owner, tree, frame):
            return cell_of(frame, cells[columns.index(column)])
    return None


def atoms_of(pack, pattern):
    """Atoms as written here; patterns that are named are asked where they stand, parameters nowhere."""
    for a in pattern:
        if isinstance(a, Atom):
            yield a
        elif a in pack.definitions:
            yield from atoms_of(pack, pack.definitions[a][1])


def holds(pack, tree, frame):
    kind = tree[0]
    if kind == "all":
        return True
    if kind == "not":
        return not holds(pack, tree[1], frame)
    if kind in ("and", "or"):
        return (all if kind == "and" else any)(holds(pack, k, frame) for k in tree[1])
    if kind == "match":
        text = field_of(frame, pack, tree[1])
        return (text is not None and any(a.match(text) for a in atoms_of(pack, tree[2]))) != tree[3]
    if kind == "equal":
        return (field_of(frame, pack, tree[1]) == tree[2]) != tree[3]
    if kind == "pattern":
        return frame.function is not None and any(a.match(frame.function) for a in atoms_of(pack, tree[1]))
    name = tree[1]
    if name in TYPES:
        return frame.type == name
    owner = packs()[pack.used[name]] if name in pack.used else pack
    return name in owner.definitions and holds(owner, owner.definitions[name], frame)


def alternatives(pack, tree):
    """(atom, question): whether a frame satisfies the tree by that atom and nothing else. What is negated needs no more
    than to be met: `not x` is there for the frames that are x."""
    kind = tree[0]
    if kind == "not":
        yield from alternatives(pack, tree[1])
    elif kind in ("and", "or"):
        for i, kid in enumerate(tree[1]):
            others = [k for j, k in enumerate(tree[1]) if j != i] if kind == "and" else []
            negated = kid[0] == "not" or kid[0] == "match" and kid[3]
            for atom, ask in alternatives(pack, kid):
                yield atom, lambda f, ask=ask, others=others, negated=negated: ask(f) and (
                    negated or all(holds(pack, k, f) for k in others))
    elif kind == "match":
        for atom in atoms_of(pack, tree[2]):
            yield atom, lambda f, atom=atom: (t := field_of(f, pack, tree[1])) is not None and bool(atom.match(t))


def unmet(pack, frames, values):
    """Lines of a pack whose pattern meets no frame or attribute of the tests."""
    found = {}
    for tree in pack.conditions:
        if tree[0] == "attribute":
            questions = [(a, lambda a=a, key=tree[1]: any(a.match(v) for v in values[key])) for a in atoms_of(pack, tree[2])]
        else:
            questions = [(a, lambda ask=ask: any(ask(f) for f in frames)) for a, ask in alternatives(pack, tree)]
        for atom, ask in questions:
            key = (atom.line, atom.text)
            if not found.get(key):
                found[key] = ask()
    missing = [f"{pack.name}.rules:{line}: {text}" for (line, text), met in found.items()
               if not met and (pack.name, text) not in ELSEWHERE]
    return missing, len([text for _, text in found if (pack.name, text) not in ELSEWHERE])


def recorded():
    frames, values = set(), collections.defaultdict(set)
    for p in packs().values():
        frames |= p.frames
        for k, v in p.values.items():
            values[k] |= v
    return frames, values


@pytest.mark.parametrize("name", PACKS)
def test_every_name_is_met_by_a_recorded_frame(name):
    missing, _ = unmet(packs()[name], *recorded())
    assert not missing, f"{len(missing)} patterns that no recorded stack has:\n" + "\n".join(missing)


def test_the_question_can_be_answered_no():
    """All packs together ask for hundreds of names, and without the recorded frames each of them is missing."""
    asked = sum(unmet(p, *recorded())[1] for p in packs().values())
    missing = sum(len(unmet(p, set(), collections.defaultdict(set))[0]) for p in packs().values())
    assert missing == asked > 400


def test_a_name_beside_the_wrong_type_is_not_met():
    pack = packs()["gc"]
    frames, values = recorded()
    as_native = {f._replace(type="native") for f in frames if f.type == "php"}
    assert any("gc_collect_cycles" in m for m in unmet(pack, as_native | {f for f in frames if f.type != "php"}, values)[0])


def test_no_row_is_without_a_stack_and_no_metric_without_a_test():
    done = subprocess.run([BUILD / "profgate", "rules", "check", "--strict"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


# ---- counting recordings

SERIES = re.compile(r"^(\S+) \{(.*)\} (\S+)(?: (\S+))?$")


@functools.cache
def counted(path):
    """{(metric, labels): value} of a captured request, by the packs that the program ships."""
    done = subprocess.run([BUILD / "profgate", "count", path], capture_output=True, text=True, check=True, timeout=60)
    found = {}
    for line in done.stdout.splitlines():
        if m := SERIES.match(line):
            found[m[1], tuple(re.findall(r'([\w.]+)="((?:[^"\\]|\\.)*)"', m[2]))] = float(m[3])
    return found


def total(series, metric):
    return sum(v for (name, _), v in series.items() if name == metric)


RECORDED = sorted((ROOT / "tests" / "data").glob("packs/*.pb")) + sorted((ROOT / "tests" / "data").glob("connector/*.pb"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.stem)
def test_tax_adds_up_to_all_cpu_time(path):
    series = counted(path)
    assert total(series, "profile.tax.time") == pytest.approx(total(series, "profile.cpu.time"), abs=1e-6)


def test_most_recordings_have_cpu_time():
    assert sum(total(counted(p), "profile.cpu.time") > 0 for p in RECORDED) > len(RECORDED) * 2 / 3


# What somebody who looked at the stacks says of them.
EXPECTED = {
    "alloc": {"profile.alloc.bytes": {"runtime": {"native"}}},
    "erlang": {"profile.gc.time": {"runtime": {"beam"}}, "profile.jit.time": {"tier": {"beamasm"}},
               "profile.serialization.time": {"format": {"etf"}}, "profile.compression.time": {"codec": {"deflate"}},
               "profile.regex.time": {"caller": {"$global::call_light_bif_shared"}},
               "profile.tax.time": {"category": {"allocation", "garbage collection", "compilation"}}},
    "fscrypt": {"profile.crypto.time": {"area": {"kernel"}}, "profile.tax.time": {"category": {"crypto"}}},
    "go-cgo": {"profile.ffi.time": {"runtime": {"go"}, "library": {"z"}},
               "profile.compression.time": {"codec": {"deflate"}}},
    "haproxy": {"profile.server.time": {"server": {"haproxy", "nginx"}, "area": {"http", "tls", "rules", "streams", "network"}},
                "profile.rpc.time": {"library": {"haproxy", "nginx"}}, "profile.crypto.time": {"area": {"tls"}},
                "profile.tax.time": {"category": {"rpc", "crypto", "allocation", "compression"}}},
    "jvm": {"profile.gc.time": {"runtime": {"jvm"}}, "profile.tax.time": {"category": {"garbage collection"}}},
    "mariadb": {"profile.server.time": {"server": {"mariadb"}, "area": {
        "parser", "optimizer", "executor", "storage engine", "sort", "protocol", "transactions", "tables"}}},
    "native": {"profile.database.time": {"db.system.name": {"redis"}},
               "profile.serialization.time": {"library": {"expat", "jansson"}},
               "profile.tax.time": {"category": {"serialization", "network"}}},
    "node": {"profile.serialization.time": {"library": {"v8js"}}, "profile.gc.time": {"runtime": {"v8js"}},
             "profile.jit.time": {"tier": {"turbofan", "regexp"}}, "profile.crypto.time": {"area": {"primitives"}},
             "profile.compression.time": {"codec": {"deflate"}}},
    "offcpu": {"profile.offcpu.time": {"reason": {"ipc", "lock", "sleep", "disk"}}},
    "php-fpm": {"profile.server.time": {"server": {"php-fpm"}, "area": {"scripts", "requests", "output", "compiler"}},
                "profile.serialization.time": {"format": {"php"}}, "profile.regex.time": {"caller": {"execute_ex"}},
                "profile.crypto.time": {"area": {"primitives"}}, "profile.alloc.time": {"in_kernel": {"false"}}},
    "postgresql": {"profile.server.time": {"server": {"postgresql"}, "area": {
        "parser", "planner", "executor", "buffers", "heap", "index", "sort", "wal", "locks", "vacuum", "copy"}},
        "profile.serialization.time": {"library": {"postgresql"}}, "profile.regex.time": {"caller": {"textregexeq"}},
        "profile.alloc.time": {"in_kernel": {"false"}}},
    "rabbitmq": {"profile.server.time": {"server": {"rabbitmq"}, "area": {
        "protocol", "channels", "routing", "queues", "storage", "metadata"}}, "profile.gc.time": {"runtime": {"beam"}}},
    "redis": {"profile.server.time": {"server": {"redis"}, "area": {
        "requests", "commands", "replies", "scripts", "append-only file"}}, "profile.alloc.time": {"in_kernel": {"false"}}},
    "servers": {"profile.rpc.time": {"library": {"nginx"}}, "profile.compression.time": {"codec": {"deflate"}},
                "profile.tax.time": {"category": {"network", "compression"}}},
}


def test_every_recording_is_expected_to_count_something():
    assert set(EXPECTED) == {p.stem for p in RECORDED if p.parent.name == "packs"}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_recording_counts_what_is_in_it(name):
    series = counted(ROOT / "tests" / "data" / "packs" / f"{name}.pb")
    for metric, labels in EXPECTED[name].items():
        for label, wanted in labels.items():
            have = {dict(pairs).get(label) for (m, pairs), v in series.items() if m == metric and v > 0}
            assert wanted <= have, f"{metric}: {label} is {sorted(filter(None, have))}"
