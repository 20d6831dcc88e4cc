/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The builtins have neither an exported name nor an entry in the unwinder's table (.eh_frame_hdr): they are
 * the largest piece of code, megabytes, that the table knows nothing of.
 *
 * What V8 does not export are facts of its versions, which the soak of tests/e2e/test_node.py compares with
 * what processes show.
 */
#include "sender/runtimes/v8/binary.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/eh_index.h"
#include "sender/symbolize/elf/elf.h"
#include "sender/runtimes/runtime.h"

#define MAJOR    "_ZN2v88internal7Version6major_E"
#define MINOR    "_ZN2v88internal7Version6minor_E"
#define SHARED   "v8dbg_class_JSFunction__shared__SharedFunctionInfo"
#define GET_NODE "napi_get_node_version"

static bool read_constant(const struct dynamic *d, const char *name, int32_t *ret)
{
    Elf64_Sym symbol;
    return dynamic_find(d, name, STT_OBJECT, &symbol, NULL) && symbol.st_size >= sizeof *ret &&
           dynamic_read(d, symbol.st_value, ret, sizeof *ret);
}

bool v8_binary_is(const struct source *file)
{
    struct dynamic d;
    int32_t value;
    return dynamic_open(&d, file) && read_constant(&d, SHARED, &value) && read_constant(&d, MAJOR, &value);
}

/* Values that are the same in all builds that are known. */
static const struct {
    const char *name;
    int32_t value;
} same[] = {
    {"v8dbg_HeapObjectTag", V8_TAG},
    {"v8dbg_TaggedSize", 8}, /* pointers are not compressed */
    {"v8dbg_SmiValueShift", 1},
    {"v8dbg_SmiShiftSize", V8_IS_SMI - 1},
    {"v8dbg_IsNotStringMask", -128}, /* see heap.c */
    {"v8dbg_StringRepresentationMask", 7},
    {"v8dbg_OneByteStringTag", 8},
    {"v8dbg_ConsStringTag", 1},
    {"v8dbg_ExternalStringTag", 2},
    {"v8dbg_SlicedStringTag", 3},
    {"v8dbg_ThinStringTag", 5},
    {"v8dbg_class_ConsString__first__String", 16},
    {"v8dbg_class_ConsString__second__String", 24},
    {"v8dbg_off_fp_context", V8_SLOT_CONTEXT},
    {"v8dbg_off_fp_function", V8_SLOT_FUNCTION},
    {"v8dbg_off_fp_bytecode_array", V8_SLOT_BYTECODE},
    {"v8dbg_off_fp_bytecode_offset", V8_SLOT_OFFSET},
};

/* Values that are said. Names of fields have their types in them, and those change. */
#define FIELD(field) offsetof(struct v8_place, field)
static const struct {
    size_t to;
    const char *name[3];
} said[] = {
    {FIELD(shared), {SHARED}},
    {FIELD(map_type), {"v8dbg_class_Map__instance_type__uint16_t"}},
    {FIELD(name),
     {"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object",
      "v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
      "v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_"}},
    {FIELD(script),
     {"v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject",
      "v8dbg_class_SharedFunctionInfo__script__Tagged_HeapObject_"}},
    {FIELD(number), {"v8dbg_class_SharedFunctionInfo__flags__int"}}, /* it is behind those */
    {FIELD(type_shared), {"v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"}},
    {FIELD(type_function), {"v8dbg_type_JSFunction__JS_FUNCTION_TYPE"}},
    {FIELD(type_scope), {"v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE"}},
    {FIELD(type_script), {"v8dbg_type_Script__SCRIPT_TYPE"}},
    {FIELD(type_bytecode), {"v8dbg_type_BytecodeArray__BYTECODE_ARRAY_TYPE"}},
    {FIELD(scope_first), {"v8dbg_scopeinfo_idx_first_vars"}},
    {FIELD(script_name), {"v8dbg_class_Script__name__Object"}},
    {FIELD(script_source), {"v8dbg_class_Script__source__Object"}},
    {FIELD(script_lines), {"v8dbg_class_Script__line_ends__Object"}},
    {FIELD(string_length), {"v8dbg_class_String__length__int32_t"}},
    {FIELD(one_byte), {"v8dbg_class_SeqOneByteString__chars__char"}},
    {FIELD(two_byte), {"v8dbg_class_SeqTwoByteString__chars__char"}},
    {FIELD(actual), {"v8dbg_class_ThinString__actual__String"}},
    {FIELD(parent), {"v8dbg_class_SlicedString__parent__String"}},
    {FIELD(offset), {"v8dbg_class_SlicedString__offset__SMI"}},
    {FIELD(external),
     {"v8dbg_class_ExternalString__resource__Object"}}, /* the text's address is behind that */
    {FIELD(array_length), {"v8dbg_class_FixedArrayBase__length__SMI"}},
    {FIELD(array_data), {"v8dbg_class_FixedArray__data__uintptr_t"}},
    {FIELD(type_array), {"v8dbg_type_FixedArray__FIXED_ARRAY_TYPE"}},
    {FIELD(bytecode), {"v8dbg_class_BytecodeArray__data__uintptr_t"}},
};
/* No object is larger, and no number of a type. */
#define VALUE_MAX 4096

static bool read_said(struct v8_place *ret, const struct dynamic *d)
{
    int32_t value;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!read_constant(d, same[i].name, &value) || value != same[i].value)
            return false;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        bool found = false;
        for (int k = 0; k < 3 && said[i].name[k] && !found; k++)
            found = read_constant(d, said[i].name[k], &value);
        if (!found || value < 0 || value >= VALUE_MAX)
            return false;
        *(uint16_t *)((char *)ret + said[i].to) = (uint16_t)value;
    }
    return true;
}

/* What is not said: by V8's version, the first row that is not above it from below. */
static const struct {
    uint16_t major, minor;
    uint16_t number, script_id; /* bytes behind what is said: flags, line_ends */
    uint16_t positions, scope_module;
} facts[] = {
    {10, 2, 4, 8, 32, 3}, /* Node 18, 20 */
    {12, 4, 8, 0, 24,
     3}, /* Node 22: functions have a number of their own; a BytecodeArray's pointers moved */
    {13, 6, 8, 0, 24, 5}, /* Node 24 */
};

static bool add_facts(struct v8_place *p)
{
    size_t i = sizeof facts / sizeof *facts;
    while (i > 0 && (facts[i - 1].major > p->v8_major ||
                     (facts[i - 1].major == p->v8_major && facts[i - 1].minor > p->v8_minor)))
        i--;
    if (i == 0 || p->v8_major > V8_MAJOR_LAST)
        return false;
    p->data = 8;
    p->number += facts[i - 1].number;
    p->script_id = facts[i - 1].script_id ? p->script_lines + facts[i - 1].script_id : 0;
    p->positions = facts[i - 1].positions;
    p->scope_module = facts[i - 1].scope_module;
    p->external += 8;
    p->read = (uint16_t)((p->number + 4u + 7u) & ~7u);
    return p->read < 8 * V8_SHARED_WORDS && p->name < p->read && p->script < p->read;
}

/* What an entry of the index leads to (DWARF 5, 6.4.1). */
struct description {
    uint32_t length, cie;
    int32_t begin;
    uint32_t size;
};
#define ENTRIES_MAX  (1u << 20)
#define BUILTINS_MIN (512u << 10)

/* The largest piece between where one function begins and the next. */
static bool find_gap(const struct eh_index *index, struct eh_entry *ret, int64_t *size)
{
    struct eh_entry piece[512], last = {0};
    uint64_t largest = 0;
    const uint32_t n = min_of(index->n, ENTRIES_MAX);
    for (uint32_t i = 0; i < n;) {
        uint32_t some = min_of(n - i, 512u);
        if (!eh_index_read(index, i, piece, some))
            return false;
        for (uint32_t k = 0; k < some; k++, i++) {
            int64_t distance = (int64_t)piece[k].start - last.start;
            if (i > 0 && distance > (int64_t)largest) {
                largest = (uint64_t)distance;
                *ret = last;
            }
            last = piece[k];
        }
    }
    *size = (int64_t)largest;
    return largest >= BUILTINS_MIN;
}

static bool find_builtins(struct v8_place *ret, const struct dynamic *d)
{
    struct eh_index index;
    struct eh_entry before;
    struct description description;
    int64_t size;
    uint64_t room;
    if (!eh_index_open(&index, d) || !find_gap(&index, &before, &size))
        return false;
    uint64_t start = eh_index_address(&index, before.start);
    if (dynamic_read(d, eh_index_address(&index, before.description), &description, sizeof description) &&
        description.size < size) { /* of the function before */
        start += description.size;
        size -= description.size;
    }
    ret->builtins_size = (uint64_t)size;
    return elf_file_offset(d->source, start, &ret->builtins, &room) && room >= ret->builtins_size;
}

/* Node's version: a structure that this function, a few instructions, answers the address of. */
static void find_node(struct v8_place *ret, const struct dynamic *d)
{
    Elf64_Sym symbol;
    uint8_t code[128];
    uint32_t version[3];
    if (!dynamic_find(d, GET_NODE, STT_FUNC, &symbol, NULL))
        return;
    size_t n = (size_t)min_of(symbol.st_size, (uint64_t)sizeof code);
    if (!dynamic_read(d, symbol.st_value, code, n))
        return;
    for (size_t i = 0; i + 7 <= n; i++) {
        int32_t at;
        memcpy(&at, code + i + 3, sizeof at);
        bool is_absolute = code[i] == 0x48 && code[i + 1] == 0xc7 && code[i + 2] == 0x06; /* mov $at,(%rsi) */
        bool is_relative = code[i] == 0x48 && code[i + 1] == 0x8d && (code[i + 2] & 0xc7) == 0x05; /* lea */
        uint64_t address = (uint64_t)(int64_t)at + (is_relative ? symbol.st_value + i + 7 : 0);
        if ((is_absolute || is_relative) && dynamic_read(d, address, version, sizeof version) &&
            version[0] >= 10 && version[0] < 100 && version[1] < 100 && version[2] < 1000) {
            for (int k = 0; k < 3; k++)
                ret->version[k] = (uint16_t)version[k];
            return;
        }
    }
}

int v8_binary_place(struct v8_place *ret, const struct source *file)
{
    struct dynamic d;
    int32_t major, minor;
    if (!dynamic_open(&d, file) || !read_constant(&d, MAJOR, &major) || !read_constant(&d, MINOR, &minor) ||
        !read_said(ret, &d))
        return RUNTIME_NOT_KNOWN;
    ret->v8_major = (uint16_t)major;
    ret->v8_minor = (uint16_t)minor;
    if (!add_facts(ret) || !find_builtins(ret, &d))
        return RUNTIME_NOT_KNOWN;
    int32_t kind; /* from Node 20 on */
    if (read_constant(&d, "v8dbg_frametype_IrregexpFrame", &kind) && kind > 0 && kind < VALUE_MAX)
        ret->kind_regexp = (uint16_t)kind;
    find_node(ret, &d);
    return 0;
}
