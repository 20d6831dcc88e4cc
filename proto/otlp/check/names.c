/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/check/names.h"

#include "proto/base/macros.h"

/* clang-format off */
static const struct check_name names[] = {
#define NAME(name, kind, place) {name, KIND_##kind, PLACE_##place, NULL},
#define RENAMED(name, instead)
#include "proto/otlp/check/names.def"
#undef NAME
#undef RENAMED
};

static const struct check_name renamed[] = {
#define NAME(name, kind, place)
#define RENAMED(name, instead) {name, KIND_NONE, PLACE_ANYWHERE, instead},
#include "proto/otlp/check/names.def"
};
/* clang-format on */

static const struct check_name *find(const struct check_name *of, uint32_t n, struct bytes name)
{
    uint32_t i = first_where(n, k, bytes_compare(bytes_str(of[k].name), name) >= 0);
    return i < n && bytes_is(name, of[i].name) ? &of[i] : NULL;
}

const struct check_name *check_name(struct bytes name)
{
    const struct check_name *found = find(names, ARRAY_LEN(names), name);
    return found ? found : find(renamed, ARRAY_LEN(renamed), name);
}

const char *check_kind_name(enum check_kind kind)
{
    static const char *const words[] = {
        [KIND_NONE] = "nothing",
        [KIND_STRING] = "a string",
        [KIND_BOOL] = "a boolean",
        [KIND_INT] = "an integer",
        [KIND_DOUBLE] = "a floating-point number",
        [KIND_BYTES] = "bytes",
        [KIND_MAP] = "a list of keys and values",
        [KIND_ARRAY] = "an array",
        [KIND_STRINGS] = "an array of strings",
        [KIND_INTS] = "an array of integers",
    };
    return words[kind];
}

const char *check_place_name(enum check_place place)
{
    static const char *const words[] = {
        [PLACE_ANYWHERE] = "anything",   [PLACE_RESOURCE] = "a resource", [PLACE_SCOPE] = "a scope",
        [PLACE_PROFILE] = "a profile",   [PLACE_SAMPLE] = "a sample",     [PLACE_MAPPING] = "a mapping",
        [PLACE_LOCATION] = "a location",
    };
    return words[place];
}

bool check_is_frame_type(struct bytes value)
{
    static const char *const known[] = {"beam",   "cpython", "dotnet", "go",   "jvm",  "kernel", "luajit",
                                        "native", "perl",    "php",    "ruby", "rust", "v8js"};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (bytes_is(value, known[i]))
            return true;
    return false;
}
