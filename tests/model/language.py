"""The rule language's core, evaluated naively: rules/LANGUAGE.md §4 read sentence by sentence. Nothing is planned, memoised or
remembered: every question is asked anew of every frame of every sample. The judge of the program's matcher on rule files that
are made up (tests/model/language_cases.py).

A tree is a tuple whose first item says what it is. Frame conditions, regions, conditions about samples and texts are what
`frame`, `region`, `sample` and `text` take; `written()` gives the source of any of them.
"""
import collections
import functools
import re

Frame = collections.namedtuple("Frame", "type function system_name file mapping library inlined")
# Of a sample: its frames leaf first, attributes by scope, whether it is linked, and what it weighs by each `value`.
Sample = collections.namedtuple("Sample", "frames attributes linked kind profile weights")
Table = collections.namedtuple("Table", "columns over region nearest rows")       # rows: (condition or None, when or None, cells)
Source = collections.namedtuple("Source", "where each labels")                    # each: None or (distinct, region, condition)
Metric = collections.namedtuple("Metric", "on value sources")

SCOPES = ("sample", "profile", "scope", "resource")


@functools.cache
def glob(text, fold):
    return re.compile("".join(".*" if c == "*" else re.escape(c) for c in text), re.S | (re.I if fold else 0))


def atom_holds(atom, text):
    kind, what, fold = atom
    if kind == "glob":
        return bool(glob(what, fold).fullmatch(text))
    return bool(re.search(what, text, re.I if fold else 0))


class Rules:
    """Definitions by name, and metrics; asked with `count`."""

    def __init__(self):
        self.definitions = {}          # name: (word, tree or Table)
        self.metrics = {}

    # ---- frames

    def pattern(self, tree, text):
        """A pattern is a list of atoms and names; `none` holds for nothing, and nothing holds for none."""
        if text is None:
            return False
        return any(self.pattern(self.definitions[a[1]][1], text) if a[0] == "name" else a[0] != "none" and atom_holds(a, text)
                   for a in tree)

    def field(self, name, frame):
        if "." in name:
            table, column = name.split(".")
            return self.frame_table(self.definitions[table][1], column, frame)
        return getattr(frame, name)

    def frame(self, tree, frame):
        word = tree[0]
        if word in ("and", "or"):
            return (all if word == "and" else any)(self.frame(kid, frame) for kid in tree[1:])
        if word == "not":
            return not self.frame(tree[1], frame)
        if word == "type":
            return frame.type == tree[1]
        if word == "inlined":
            return frame.inlined
        if word == "match":
            return self.pattern(tree[2], self.field(tree[1], frame)) != (tree[3] == "!~")
        if word == "equal":
            return (self.field(tree[1], frame) == tree[2]) != (tree[3] == "!=")
        what, kid = self.definitions[tree[1]]
        return self.pattern(kid, frame.function) if what == "pattern" else self.frame(kid, frame)

    # ---- stacks

    def region(self, tree, sample):
        """Indices of the frames, leaf first. tree: None, or (after, while, word, end) each perhaps None."""
        indices = list(range(len(sample.frames)))
        if tree is None:
            return indices
        after, hold, word, end = tree
        is_ = lambda p, i: self.frame(p, sample.frames[i])  # noqa: E731
        if after:
            begin = next((i for i in indices if is_(after, i)), None)
            indices = indices[begin + 1:] if begin is not None else []
        if hold:
            indices = indices[:next((n for n, i in enumerate(indices) if not is_(hold, i)), len(indices))]
        if end:
            at = next((n for n, i in enumerate(indices) if is_(end, i)), None)
            if at is not None:
                indices = indices[:at + (word == "through")]
        return indices

    def named_region(self, name, sample):
        return self.region(self.definitions[name][1] if name else None, sample)

    def reference(self, tree, sample, this):
        word = tree[0]
        if word in ("leaf", "root"):
            return sample.frames[0 if word == "leaf" else -1]
        if word == "frame":
            return this
        found = [i for i in self.named_region(tree[2], sample) if self.frame(tree[1], sample.frames[i])]
        return sample.frames[found[0 if word == "first" else -1]] if found else None

    def calls(self, operands, direct, sample):
        """Whether the operands stand in the stack in this order, the first one rootmost."""
        places = [[i for i, f in enumerate(sample.frames) if self.frame(p, f)] for p in operands]
        reached = set(places[0])
        for at, next_to in zip(places[1:], direct):
            reached = {i for i in at if (i + 1 in reached if next_to else any(r > i for r in reached))}
        return bool(reached)

    def sample(self, tree, sample, this=None):
        word = tree[0]
        if word in ("and", "or"):
            return (all if word == "and" else any)(self.sample(kid, sample, this) for kid in tree[1:])
        if word == "not":
            return not self.sample(tree[1], sample, this)
        if word == "linked":
            return sample.linked
        if word == "name":
            return self.sample(self.definitions[tree[1]][1], sample, this)
        if word == "quantity":
            holds = [self.frame(tree[3], sample.frames[i]) for i in self.named_region(tree[2], sample)]
            return {"any": any(holds), "no": not any(holds), "every": bool(holds) and all(holds)}[tree[1]]
        if word == "is":
            frame = self.reference(tree[1], sample, this)
            return frame is not None and self.frame(tree[2], frame)
        if word == "calls":
            return self.calls(tree[1], tree[2], sample)
        left = self.text(tree[1], sample, this)
        if word == "matches":
            return self.pattern(tree[3], left) != (tree[2] == "!~")
        return (left == self.text(tree[3], sample, this)) != (tree[2] == "!=")

    # ---- texts

    def text(self, tree, sample, this=None, cell=None):
        """`this` is the frame of `each`, `cell` the one that a table's row speaks of."""
        again = lambda kid: self.text(kid, sample, this, cell)  # noqa: E731
        word = tree[0]
        if word == "string":
            return tree[1]
        if word == "none":
            return None
        if word == "or":
            value = again(tree[1])
            return value if value else again(tree[2])
        if word == "join":
            left, right = again(tree[1]), again(tree[2])
            return None if left is None or right is None else left + right
        if word == "when":
            return again(tree[1]) if self.sample(tree[2], sample, this) else None
        if word == "name":
            return again(self.definitions[tree[1]][1])
        if word == "field":
            return self.field(tree[1], cell) if cell else None
        if word == "of":
            frame = self.reference(tree[2], sample, this)
            return None if frame is None else self.field(tree[1], frame)
        if word == "column":
            return self.stack_table(self.definitions[tree[1]][1], tree[2], sample)
        if word == "attribute":
            scopes = SCOPES if tree[1] == "attr" else (tree[1],)
            return next((sample.attributes[s][tree[2]] for s in scopes if tree[2] in sample.attributes[s]), None)
        if word == "profile":
            return sample.profile[tree[1]]
        value = again(tree[2])         # capture
        found = re.search(tree[1], value) if value is not None else None
        return found and found[1 if found.re.groups else 0]

    # ---- tables

    def row_holds(self, row, frame, sample):
        return self.frame(row[0], frame) and (row[1] is None or self.sample(row[1], sample))

    def frame_table(self, table, column, frame):
        """Of the frame alone: no row has a `when`, and no cell asks the sample."""
        row = next((row for row in table.rows if row[0] is None or self.frame(row[0], frame)), None)
        return None if row is None else self.text(row[2][table.columns.index(column)], None, cell=frame)

    def stack_table(self, table, column, sample):
        frames = [sample.frames[i] for i in self.named_region(table.region, sample)]
        rows = [row for row in table.rows if row[0] is not None]
        pairs = [(r, f) for f in frames for r in rows] if table.nearest else [(r, f) for r in rows for f in frames]
        row, frame = next(((r, f) for r, f in pairs if self.row_holds(r, f, sample)), (None, None))
        if row is None:
            row = next((r for r in table.rows if r[0] is None), None)
        return None if row is None else self.text(row[2][table.columns.index(column)], sample, cell=frame)

    # ---- metrics

    def label_set(self, source, sample, this):
        pairs = ((name, self.text(tree, sample, this)) for name, tree in source.labels)
        return tuple(sorted((name, value) for name, value in pairs if value is not None))

    def count(self, samples):
        """{(metric, labels): number} of all of them."""
        total = collections.Counter()
        for name, metric in self.metrics.items():
            for sample in samples:
                if not sample.frames or sample.kind != metric.on:
                    continue
                for source in metric.sources:
                    if source.where is not None and not self.sample(source.where, sample):
                        continue
                    if source.each is None:
                        sets = [self.label_set(source, sample, None)]
                    else:
                        distinct, region, condition = source.each
                        frames = [sample.frames[i] for i in self.named_region(region, sample)]
                        sets = [self.label_set(source, sample, f) for f in frames
                                if condition is None or self.frame(condition, f)]
                        sets = set(sets) if distinct else sets
                    for labels in sets:
                        total[name, labels] += sample.weights[metric.value]
        return total


# ---- as source

def quoted(text):
    return '"' + text + '"'            # of the cases' alphabet: nothing in it needs an escape


def written_pattern(tree):
    def atom(a):
        if a[0] in ("none", "name"):
            return a[-1]
        return (quoted(a[1]) if a[0] == "glob" else f"/{a[1]}/") + ("i" if a[2] else "")
    return " | ".join(atom(a) for a in tree)


def inner(tree, write):
    """In parentheses where it is not a single word."""
    return write(tree) if tree[0] in ("name", "type", "inlined", "linked") else f"({write(tree)})"


def written_frame(tree):
    word = tree[0]
    if word in ("and", "or"):
        return f" {word} ".join(inner(kid, written_frame) for kid in tree[1:])
    if word == "not":
        return "not " + inner(tree[1], written_frame)
    if word == "type":
        return tree[1] if tree[1] != "cobol" else 'type == "cobol"'
    if word == "inlined":
        return word
    if word == "match":
        # A pattern alone is about the function: both ways to say it.
        bare = tree[1] == "function" and tree[3] == "~" and tree[2][0][0] in ("glob", "regex") and len(tree[2]) % 2
        return written_pattern(tree[2]) if bare else f"{tree[1]} {tree[3]} {written_pattern(tree[2])}"
    if word == "equal":
        return f"{tree[1]} {tree[3]} " + ("none" if tree[2] is None else quoted(tree[2]))
    return tree[1]


def operand(tree):
    return tree[1] if tree[0] in ("name", "type") and tree[1] != "cobol" else f"({written_frame(tree)})"


def written_region(tree):
    after, hold, word, end = tree
    return "frames" + (f" after {operand(after)}" if after else "") + (f" while {operand(hold)}" if hold else "") + (
        f" {word} {operand(end)}" if end else "")


def in_region(name):
    return f" in {name}" if name else ""


def written_reference(tree):
    return tree[0] if len(tree) == 1 else f"{tree[0]} {operand(tree[1])}{in_region(tree[2])}"


def written_sample(tree):
    word = tree[0]
    if word in ("and", "or"):
        return f" {word} ".join(inner(kid, written_sample) for kid in tree[1:])
    if word == "not":
        return "not " + inner(tree[1], written_sample)
    if word == "linked":
        return word
    if word == "name":
        return tree[1]
    if word == "quantity":
        return f"{tree[1]} frame{in_region(tree[2])} is {operand(tree[3])}"
    if word == "is":
        return f"{written_reference(tree[1])} is {operand(tree[2])}"
    if word == "calls":
        text = operand(tree[1][0])
        for p, direct in zip(tree[1][1:], tree[2]):
            text += (" directly" if direct else "") + f" calls {operand(p)}"
        return text
    right = written_pattern(tree[3]) if word == "matches" else written_text(tree[3])
    return f"{written_text(tree[1])} {tree[2]} {right}"


def written_text(tree):
    word = tree[0]
    closed = lambda kid: f"({written_text(kid)})" if kid[0] in ("or", "join", "when") else written_text(kid)  # noqa: E731
    if word == "string":
        return quoted(tree[1])
    if word == "none":
        return word
    if word == "or":
        return f"{closed(tree[1])} ?? {closed(tree[2])}"
    if word == "join":
        return f"{closed(tree[1])} + {closed(tree[2])}"
    if word == "when":
        return f"{closed(tree[1])} when {inner(tree[2], written_sample)}"
    if word in ("name", "field"):
        return tree[1]
    if word == "of":
        return f"{tree[1]} of {written_reference(tree[2])}"
    if word == "column":
        return f"{tree[1]}.{tree[2]}"
    if word == "attribute":
        return f'{tree[1]}["{tree[2]}"]'
    if word == "profile":
        return f"profile.{tree[1]}"
    return f"capture /{tree[1]}/ from {closed(tree[2])}"


def written_table(name, table):
    lines = [f"table {name} ({', '.join(table.columns)})" + (f" over {table.region or 'frames'}" if table.over else "")
             + (" nearest leaf" if table.nearest else "") + " {"]
    for condition, when, cells in table.rows:
        lines.append("    " + ("else" if condition is None else written_frame(condition))
                     + (f" when {written_sample(when)}" if when else "") + " => "
                     + ", ".join("-" if c[0] == "none" else written_text(c) for c in cells))
    return "\n".join(lines + ["}"])


def written_metric(name, metric):
    parts = []
    for i, source in enumerate(metric.sources):
        lines = [f"{'also ' if i else ''}counter {name} {{"]
        if not i:
            lines.append(f"    on {metric.on}  value {metric.value}")
        if source.where is not None:
            lines.append(f"    where {written_sample(source.where)}")
        if source.each is not None:
            distinct, region, condition = source.each
            lines.append("    each " + ("distinct " if distinct else "") + f"frame{in_region(region)}"
                         + (f" is {operand(condition)}" if condition else ""))
        lines += [f"    label {label} = {written_text(tree)}" for label, tree in source.labels]
        parts.append("\n".join(lines + ["}"]))
    return "\n".join(parts)


def written(rules):
    """The rule file."""
    write = {"pattern": written_pattern, "frame": written_frame, "region": written_region, "sample": written_sample,
             "text": written_text}
    lines = ["rules 1", "pack made_up"]
    for name, (word, tree) in rules.definitions.items():
        lines.append(written_table(name, tree) if word == "table" else f"{word} {name} = {write[word](tree)}")
    return "\n".join(lines + [written_metric(name, metric) for name, metric in rules.metrics.items()]) + "\n"
