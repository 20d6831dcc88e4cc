/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions, out of memory made by hand; and frames, by the step that the kernel runs. */
#include "tests/lib/unit.h"

#include "sender/runtimes/v8/function.h"
#include "sender/runtimes/v8/heap.h"
#include "sender/runtimes/v8/lines.h"
#include "tests/unit/sender/runtimes/made_memory.h"

#define V8_FROM                       const struct source
#define V8_READ(from, to, n, address) (source_read(from, address, to, n) ? 0 : -1)
#include "bpf/v8_step.h"

/* As Node 20 has them, and as Node 24 does. */
static const struct v8_place node20 = {.builtins = 0x100000,
                                       .builtins_size = 0x10000,
                                       .shared = 24,
                                       .map_type = 12,
                                       .type_shared = 262,
                                       .read = 56,
                                       .data = 8,
                                       .name = 16,
                                       .script = 32,
                                       .number = 52,
                                       .script_id = 64,
                                       .type_function = 2066,
                                       .type_scope = 261,
                                       .type_script = 167,
                                       .type_bytecode = 191,
                                       .type_array = 175,
                                       .scope_module = 3,
                                       .scope_first = 3,
                                       .script_name = 16,
                                       .script_source = 8,
                                       .script_lines = 56,
                                       .string_length = 12,
                                       .one_byte = 16,
                                       .two_byte = 16,
                                       .actual = 16,
                                       .parent = 16,
                                       .offset = 24,
                                       .external = 24,
                                       .array_length = 8,
                                       .array_data = 16,
                                       .bytecode = 54,
                                       .positions = 32};
static struct v8_place place;

#define TAG(at) ((at) | 1ull)
#define SMI(n)  ((uint64_t)(n) << 32)

/* Maps, one for each type. */
enum {
    SHARED_MAP = 0x100,
    SCOPE_MAP,
    SCRIPT_MAP,
    CODE_MAP,
    BYTES_MAP,
    ONE_MAP,
    TWO_MAP,
    ARRAY_MAP,
    FUNCTION_MAP
};
enum { CONS_MAP = 0x110, SLICED_MAP, THIN_MAP, EXTERNAL_MAP };
#define MAP(which) ((uint64_t)(which)*16)

static void put_map(uint32_t which, uint16_t type)
{
    memcpy(memory + MAP(which) + 12, &type, sizeof type);
}

static void put_object(uint64_t at, uint32_t map)
{
    put(at, TAG(MAP(map)));
}

static void put_string(uint64_t at, const char *text)
{
    uint32_t n = (uint32_t)strlen(text);
    put_object(at, ONE_MAP);
    memcpy(memory + at + 12, &n, sizeof n);
    memcpy(memory + at + 16, text, n);
}

#define FUNCTION 0x3000ull
#define SHARED   0x3100ull
#define SCOPE    0x3200ull
#define SCRIPT   0x3400ull
#define CODE     0x3500ull
#define TABLE    0x3600ull
#define NAME     0x3800ull
#define FILE_    0x3a00ull
#define SOURCE   0x4000ull
#define OTHER    0x5000ull

#define FLAGS_NAMED    (3u << 12)
#define FLAGS_INFERRED (1u << 14)

/* A function "add" at characters 12 to 40 of a script, in its third line. */
static struct sample_frame begin(void)
{
    memset(memory, 0, sizeof memory);
    on_read = NULL;
    reads = 0;
    place = node20;
    put_map(SHARED_MAP, place.type_shared);
    put_map(SCOPE_MAP, place.type_scope);
    put_map(SCRIPT_MAP, place.type_script);
    put_map(CODE_MAP, place.type_bytecode);
    put_map(BYTES_MAP, 190);
    put_map(ONE_MAP, 8);
    put_map(TWO_MAP, 0);
    put_map(ARRAY_MAP, place.type_array);
    put_map(FUNCTION_MAP, place.type_function);
    put_map(CONS_MAP, 8 | 1);
    put_map(SLICED_MAP, 8 | 3);
    put_map(THIN_MAP, 8 | 5);
    put_map(EXTERNAL_MAP, 8 | 2);
    put_object(FUNCTION, FUNCTION_MAP);
    put(FUNCTION + place.shared, TAG(SHARED));
    put_object(SHARED, SHARED_MAP);
    put(SHARED + place.data, TAG(CODE));
    put(SHARED + place.name, TAG(SCOPE));
    put(SHARED + place.script, TAG(SCRIPT));
    put(SHARED + 48, 7ull << 32); /* flags, number */
    put_object(SCOPE, SCOPE_MAP);
    put(SCOPE + 8, SMI(FLAGS_NAMED | FLAGS_INFERRED | 2));
    put(SCOPE + 24, SMI(2)); /* locals */
    put(SCOPE + 8 * 8, TAG(NAME));
    put(SCOPE + 8 * 10, TAG(OTHER)); /* undefined */
    put(SCOPE + 8 * 11, SMI(12));
    put(SCOPE + 8 * 12, SMI(40));
    put_object(SCRIPT, SCRIPT_MAP);
    put(SCRIPT + place.script_name, TAG(FILE_));
    put(SCRIPT + place.script_source, TAG(SOURCE));
    put(SCRIPT + place.script_id, SMI(33));
    put_object(CODE, CODE_MAP);
    put(CODE + place.positions, TAG(TABLE));
    put_object(TABLE, BYTES_MAP);
    /* At 0 position 20, at 4 position 30, at 9 position 36 (one more, shifted, and doubled for the sign). */
    static const uint8_t table[] = {2, 0x80 | (84 & 127), 84 >> 7, 8, 40, 10, 24};
    put(TABLE + 8, SMI(sizeof table));
    memcpy(memory + TABLE + 16, table, sizeof table);
    put_string(NAME, "add");
    put_string(FILE_, "/srv/add.js");
    put_string(SOURCE, "one\r\ntwo\nfunction\nadd()\rfive\nsix\nseven\n");
    put_object(OTHER, BYTES_MAP);
    struct sample_frame word = {.kind = SAMPLE_FRAME_WORD, .runtime = RUNTIME_V8, .where = SHARED};
    word.extra = V8_NO_OFFSET;
    word.file = V8_COOKIE(SMI(33), 7, TAG(SCOPE), TAG(SCRIPT));
    return word;
}

static struct runtime_name name;

static const char *name_of(const struct sample_frame *word)
{
    static char text[8192];
    struct source s = all();
    struct arena arena = {0};
    bool found = v8_function_name(&s, &place, word, &arena, &name);
    text[0] = 0;
    if (found)
        snprintf(text, sizeof text, "%.*s %.*s:%u", (int)name.name.n, (const char *)name.name.p,
                 (int)name.file.n, (const char *)name.file.p, name.line);
    arena_release(&arena);
    return found ? text : "";
}

UNIT(a_function_has_name_file_and_line)
{
    struct sample_frame word = begin();
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:3"); /* where it begins */
    word.extra = (uint16_t)(place.bytecode - 1);
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:4");
    word.extra += 3;
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:4");
    word.extra += 1;
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:6");
    word.extra += 500;
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:7");
    word.extra = 3; /* before the first */
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:3");
}

UNIT(lines_that_are_counted_already_are_taken)
{
    struct sample_frame word = begin();
    put(SCRIPT + place.script_lines, TAG(OTHER));
    put_object(OTHER, ARRAY_MAP);
    put(OTHER + 8, SMI(3));
    put(OTHER + 16, SMI(5));
    put(OTHER + 24, SMI(12));
    put(OTHER + 32, SMI(50));
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:2"); /* a line has its end in it */
    put(OTHER + 24, SMI(11));
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:3");
}

UNIT(one_without_a_name_has_that_of_what_it_was_assigned_to)
{
    struct sample_frame word = begin();
    put(SCOPE + 8 * 8, 0);
    ck_assert_str_eq(name_of(&word), "<anonymous> /srv/add.js:3");
    put_string(OTHER, "exports.add");
    ck_assert_str_eq(name_of(&word), "exports.add /srv/add.js:3");
    put(SCOPE + 8, SMI(FLAGS_INFERRED | 2)); /* without the slots of a name */
    put(SCOPE + 8 * 8, TAG(OTHER));
    ck_assert_str_eq(name_of(&word), "exports.add /srv/add.js:0");
}

UNIT(one_that_was_not_compiled_has_its_name_itself)
{
    struct sample_frame word = begin();
    put(SHARED + place.name, TAG(NAME));
    word.file = V8_COOKIE(SMI(33), 7, TAG(NAME), TAG(SCRIPT));
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:0");
}

UNIT(many_locals_are_a_table_of_their_own)
{
    struct sample_frame word = begin();
    put(SCOPE + 24, SMI(75));
    put(SCOPE + 8 * (4 + 76), TAG(NAME));
    put(SCOPE + 8 * (4 + 79), SMI(12));
    put(SCOPE + 8 * (4 + 80), SMI(40));
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:3");
    put(SCOPE + 24, SMI(1u << 30));
    ck_assert_str_eq(name_of(&word), "");
}

UNIT(flags_and_positions_are_elsewhere_from_13_on)
{
    struct sample_frame word = begin();
    memset(memory + SCOPE + 8, 0, 0x100);
    place.scope_first = 5;
    put(SCOPE + 8, FLAGS_NAMED | 4);
    put(SCOPE + 24, SMI(1));
    put(SCOPE + 32, SMI(12));
    put(SCOPE + 40, SMI(40));
    put(SCOPE + 8 * 8, TAG(NAME));
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:3");
}

UNIT(strings_are_kept_in_many_ways)
{
    struct sample_frame word = begin();
    put_object(OTHER, CONS_MAP); /* of two, of which one is again */
    put(OTHER + 8, SMI(9));
    put(OTHER + 16, TAG(OTHER + 0x40));
    put(OTHER + 24, TAG(NAME));
    put_object(OTHER + 0x40, CONS_MAP);
    put(OTHER + 0x40 + 8, SMI(6));
    put(OTHER + 0x40 + 16, TAG(NAME));
    put(OTHER + 0x40 + 24, TAG(NAME));
    put(SCOPE + 8 * 8, TAG(OTHER));
    ck_assert_str_eq(name_of(&word), "addaddadd /srv/add.js:3");
    put_object(OTHER, SLICED_MAP);
    put(OTHER + 8, SMI(3));
    put(OTHER + 16, TAG(OTHER + 0x80));
    put(OTHER + 24, SMI(5));
    put_object(OTHER + 0x80, EXTERNAL_MAP);
    put(OTHER + 0x80 + 8, SMI(11));
    put(OTHER + 0x80 + 24, FILE_ + 16);
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:3");
    put(OTHER + 24, SMI(9)); /* more than there is */
    ck_assert_str_eq(name_of(&word), "");
    put_object(OTHER, THIN_MAP);
    put(OTHER + 16, TAG(NAME));
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:3");
    put(SCOPE + 8 * 8, TAG(NAME));
    put_object(NAME, TWO_MAP);
    put(NAME + 8, SMI(4));
    memcpy(memory + NAME + 16, "\xf6\0\xac\x20\x3d\xd8\x0d\xdc", 8);
    ck_assert_str_eq(name_of(&word), "ö€🐍 /srv/add.js:3");
    memcpy(memory + NAME + 16, "\x3d\xd8\x3d\xd8\x0d\xdc\x0d\xdc",
           8); /* surrogates alone are no characters */
    ck_assert_str_eq(name_of(&word), "\xef\xbf\xbd🐍\xef\xbf\xbd /srv/add.js:3");
}

UNIT(another_one_in_its_memory_has_not_its_name)
{
    struct sample_frame word = begin();
    ck_assert_str_ne(name_of(&word), "");
    put(SCRIPT + place.script_id, SMI(34));
    ck_assert_str_eq(name_of(&word), "");
    word = begin();
    put(SHARED + 48, 8ull << 32);
    ck_assert_str_eq(name_of(&word), "");
    word = begin();
    put_map(SHARED_MAP, place.type_scope);
    ck_assert_str_eq(name_of(&word), "");
}

/* It is freed after its name was read. */
static void free_it(void)
{
    if (reads > 8)
        put(SHARED + place.name, TAG(OTHER));
}

UNIT(one_that_goes_while_it_is_read_has_no_name)
{
    struct sample_frame word = begin();
    on_read = free_it;
    ck_assert_str_eq(name_of(&word), "");
}

UNIT(lies_cost_little)
{
    struct sample_frame word = begin();
    put_object(OTHER, CONS_MAP); /* of itself */
    put(OTHER + 8, SMI(1u << 30));
    put(OTHER + 16, TAG(OTHER));
    put(OTHER + 24, TAG(OTHER));
    put(SCOPE + 8 * 8, TAG(OTHER));
    reads = 0;
    ck_assert_str_eq(name_of(&word), "");
    ck_assert_uint_lt(reads, 400);
    put_object(OTHER, THIN_MAP);
    reads = 0;
    ck_assert_str_eq(name_of(&word), "");
    ck_assert_uint_lt(reads, 400);
    word = begin();
    put(NAME + 8, SMI(UINT32_MAX)); /* as long as can be */
    ck_assert_str_ne(name_of(&word), "");
    ck_assert_uint_eq(name.name.n, V8_NAME_MAX);
    word = begin();
    put(TABLE + 8, SMI(INT32_MAX));
    memset(memory + TABLE + 16, 0x80, 0x100); /* a number without an end */
    word.extra = 1000;
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:3");
    word = begin();
    word.where = UINT64_MAX - 7;
    ck_assert_str_eq(name_of(&word), "");
    word.where = sizeof memory - 8;
    ck_assert_str_eq(name_of(&word), "");
}

static bool word_of(const struct v8_slots *slots, struct v8_walk *walk, struct sample_frame *ret)
{
    struct source s = all();
    walk->is_begun = 0; /* of another stack */
    walk->slots = *slots;
    return v8_word(&s, &place, walk, ret);
}

UNIT(a_frame_of_a_function_is_a_word)
{
    struct sample_frame word = begin(), found;
    struct v8_walk walk = {0};
    struct v8_slots slots = {TAG(OTHER), TAG(FUNCTION), TAG(CODE), SMI(60)};
    ck_assert(word_of(&slots, &walk, &found));
    word.extra = 60;
    ck_assert_mem_eq(&found, &word, sizeof word);
    slots.bytecode = TAG(OTHER); /* of code that is compiled, anything */
    word.extra = V8_NO_OFFSET;
    ck_assert(word_of(&slots, &walk, &found));
    ck_assert_mem_eq(&found, &word, sizeof word);
    slots.context = 13 << 1; /* a frame of V8's own */
    ck_assert(!word_of(&slots, &walk, &found));
    slots.context = TAG(OTHER);
    put(SHARED + place.data, SMI(1344)); /* a builtin */
    ck_assert(!word_of(&slots, &walk, &found));
    slots.function = SMI(3);
    ck_assert(!word_of(&slots, &walk, &found));
    slots.function = TAG(SCOPE); /* something else */
    ck_assert(!word_of(&slots, &walk, &found));
    slots.function = UINT64_MAX;
    ck_assert(!word_of(&slots, &walk, &found));
}

UNIT(a_regular_expression_is_a_word_where_its_kind_of_frame_is_known)
{
    struct v8_walk walk = {.slots = {.context = 2 * 9}};
    struct sample_frame found = {0};
    struct source s = all();
    ck_assert(!v8_word(&s, &place, &walk, &found));
    place.kind_regexp = 9;
    ck_assert(v8_word(&s, &place, &walk, &found));
    ck_assert_int_eq(found.kind, SAMPLE_FRAME_WORD);
    ck_assert_uint_eq(found.where, V8_REGEXP);
    walk.slots.context = 2 * 8;
    ck_assert(!v8_word(&s, &place, &walk, &found));
    place.kind_regexp = 0;
}

UNIT(a_function_that_is_being_moved_is_where_it_went)
{
    struct sample_frame word = begin(), found;
    struct v8_walk walk = {0};
    struct v8_slots slots = {TAG(OTHER), TAG(FUNCTION), TAG(CODE), SMI(60)};
    memcpy(memory + 0x6000, memory + SHARED, 64);
    put(SHARED, 0x6000);
    ck_assert(word_of(&slots, &walk, &found));
    ck_assert_uint_eq(found.where, 0x6000);
    ck_assert_uint_eq(found.file, word.file);
    put(0x6000, SHARED); /* and back, for ever */
    ck_assert(!word_of(&slots, &walk, &found));
}

UNIT(a_function_that_calls_itself_is_looked_at_once)
{
    struct sample_frame word = begin(), found;
    struct v8_walk walk = {.slots = {TAG(OTHER), TAG(FUNCTION), TAG(CODE), SMI(60)}};
    struct source s = all();
    ck_assert(v8_word(&s, &place, &walk, &found));
    reads = 0;
    walk.slots.offset = SMI(61);
    ck_assert(v8_word(&s, &place, &walk, &found));
    word.extra = 61;
    ck_assert_mem_eq(&found, &word, sizeof word);
    ck_assert_uint_eq(reads, 0);
    put_object(OTHER + 0x100, FUNCTION_MAP); /* another one, which has no code */
    walk.slots.function = TAG(OTHER + 0x100);
    ck_assert(!v8_word(&s, &place, &walk, &found));
    walk.slots.function = TAG(FUNCTION);
    ck_assert(v8_word(&s, &place, &walk, &found));
    ck_assert_mem_eq(&found, &word, sizeof word);
}

UNIT(functions_one_below_another_ask_their_script_s_number_once)
{
    struct sample_frame word = begin(), found;
    struct v8_walk walk = {.slots = {TAG(OTHER), TAG(FUNCTION), TAG(CODE), SMI(60)}};
    struct source s = all();
    ck_assert(v8_word(&s, &place, &walk, &found));
    memcpy(memory + 0x6000, memory + FUNCTION, 64); /* another one, of the same script … */
    memcpy(memory + 0x6100, memory + SHARED, 64);
    put(0x6000 + place.shared, TAG(0x6100));
    put(0x6100 + 48, 8ull << 32);
    walk.slots.function = TAG(0x6000);
    reads = 0;
    ck_assert(v8_word(&s, &place, &walk, &found));
    ck_assert_uint_eq(reads, 2);
    ck_assert_uint_eq(found.file, V8_COOKIE(SMI(33), 8, TAG(SCOPE), TAG(SCRIPT)));
    put(0x6100 + place.script, TAG(0x6200)); /* … and of another one */
    put(0x6200 + place.script_id, SMI(34));
    walk.slots.function = TAG(FUNCTION);
    ck_assert(v8_word(&s, &place, &walk, &found));
    ck_assert_uint_eq(found.file, word.file);
    walk.slots.function = TAG(0x6000);
    ck_assert(v8_word(&s, &place, &walk, &found));
    ck_assert_uint_eq(found.file, V8_COOKIE(SMI(34), 8, TAG(SCOPE), TAG(0x6200)));
}

UNIT(a_function_with_a_number_of_its_own_needs_no_script_s)
{
    struct sample_frame word = begin(), found;
    struct v8_walk walk = {0};
    struct v8_slots slots = {TAG(OTHER), TAG(FUNCTION), TAG(CODE), TAG(OTHER)};
    place.script_id = 0;
    ck_assert(word_of(&slots, &walk, &found));
    word.file = V8_COOKIE(0, 7, TAG(SCOPE), TAG(SCRIPT));
    ck_assert_mem_eq(&found, &word, sizeof word);
    ck_assert_str_eq(name_of(&word), "add /srv/add.js:3");
}
