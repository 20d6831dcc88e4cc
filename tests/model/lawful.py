"""What is left of a request when everything is gone that OTLP forbids (profiles.proto 1.10). There the gateway does not do as
the connector does, on purpose: it refuses a sample that refers to something that is not there, by itself and by name, where the
connector counts it in part, answers with an error or ends its process; and it reads references to the string table, which the
connector's Collector leaves unread. rules/LANGUAGE.md says so in the words of a user. What says nothing beside siblings goes, too."""
import collections


def lawful(request):
    """Changes the request; returns how many samples went."""
    d = request.dictionary
    if d.stack_table:  # entry 0 is "none", whatever it holds
        d.stack_table[0].Clear()
    if d.mapping_table:
        d.mapping_table[0].Clear()
    read_references(d.string_table, [a.value for a in d.attribute_table])
    bad = Bad(d)
    gone = 0
    for resource in request.resource_profiles:
        for scope in resource.scope_profiles:
            beside = siblings(scope)
            for profile, has_siblings in zip(scope.profiles, beside):
                whole = bad.profile(profile)
                for i in reversed(range(len(profile.samples))):
                    if whole or bad.sample(profile.samples[i]) or has_siblings and says_nothing(profile.samples[i]):
                        del profile.samples[i]
                        gone += 1
                if whole:
                    profile.ClearField("sample_type")
    return gone


def siblings(scope):
    """Of each profile, whether it has any: rules/LANGUAGE.md §4."""
    keys = []
    for p in scope.profiles:
        key = (p.time_unix_nano, p.duration_nano, p.profile_id)
        keys.append(keys[-1] if keys and not p.profile_id and keys[-1][:2] == key[:2] else key)
    many = collections.Counter(keys)
    return [1 < many[key] for key in keys]


def says_nothing(sample):
    return list(sample.values) == [0] and not sample.timestamps_unix_nano


def read_references(strings, values):
    for value in values:
        if value.WhichOneof("value") == "string_value_strindex" and 0 <= value.string_value_strindex < len(strings):
            value.string_value = strings[value.string_value_strindex]


class Bad:
    """Which entries of the tables refer, at some distance, to what is not there. An empty table has its entry 0 all the same."""

    def __init__(self, d):
        self.sizes = {name: max(len(getattr(d, name + "_table")), 1)
                      for name in ("string", "attribute", "function", "mapping", "location", "stack", "link")}
        strings = self.sizes["string"]
        self.bad_attributes = {i for i, a in enumerate(d.attribute_table) if self.out("string", a.key_strindex, a.unit_strindex) or
                               (a.value.WhichOneof("value") == "string_value_strindex" and
                                not 0 <= a.value.string_value_strindex < strings)}
        self.bad_functions = {i for i, f in enumerate(d.function_table) if self.out(
            "string", f.name_strindex, f.system_name_strindex, f.filename_strindex)}
        self.bad_mappings = {i for i, m in enumerate(d.mapping_table) if self.out("string", m.filename_strindex) or
                             self.attributes(m.attribute_indices)}
        self.bad_locations = {i for i, l in enumerate(d.location_table) if self.entry("mapping", self.bad_mappings, l.mapping_index) or
                              any(self.entry("function", self.bad_functions, line.function_index) for line in l.lines) or
                              self.attributes(l.attribute_indices)}
        self.bad_stacks = {i for i, s in enumerate(d.stack_table) if any(
            self.entry("location", self.bad_locations, index) for index in s.location_indices)}

    def out(self, table, *indices):
        return any(not 0 <= i < self.sizes[table] for i in indices)

    def entry(self, table, bad, index):
        return self.out(table, index) or index in bad

    def attributes(self, indices):
        return any(self.entry("attribute", self.bad_attributes, i) for i in indices)

    def profile(self, p):
        return self.out("string", p.sample_type.type_strindex, p.sample_type.unit_strindex, p.period_type.type_strindex,
                        p.period_type.unit_strindex) or self.attributes(p.attribute_indices)

    def sample(self, s):
        return (not s.values and not s.timestamps_unix_nano or self.entry("stack", self.bad_stacks, s.stack_index) or
                self.out("link", s.link_index) or self.attributes(s.attribute_indices))
