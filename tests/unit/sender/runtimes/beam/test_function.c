/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "proto/base/macros.h"
#include "sender/runtimes/beam/function.h"
#include "tests/unit/sender/runtimes/made_memory.h"

/* One module, in the third generation of code: two functions, of which the second has two lines. */
enum {
    RANGES = 0x100,
    MODULES = 0x200,
    HEADER = 0x1000,
    FUNCTIONS = 0x60,
    FIRST = 0x1100,
    SECOND = 0x1200,
    END = 0x1300,
    LINES = 0x2000,
    ADDRESSES = 0x2100,
    PLACES = 0x2200,
    FILES = 0x2300,
    FILE_NAME = 0x2400,
    ATOMS = 0x3000,
    PAGE = 0x3100,
    ATOM = 0x3400,
    TEXT = 0x3801
};

static uint64_t atom(uint64_t number, const char *name, bool is_boxed)
{
    uint64_t at = ATOM + 64 * number, text = TEXT + 64 * number;
    put(PAGE + 8 * number, at);
    put(at + 16, number);
    put(at + 24, strlen(name));
    put(at + 32, text);
    if (is_boxed) {
        text = (text & ~7ull) + 16;
        put(at + 32, text - 16 + 2);
        put(text - 8, 8 * strlen(name));
    }
    memcpy(memory + text, name, strlen(name));
    return number << 6 | 0x0b;
}

static struct beam_place make(const char *module, const char *function, uint16_t version)
{
    static const char file[] = "a.erl";
    memset(memory, 0, sizeof memory);
    put(RANGES + 64, MODULES);
    put(RANGES + 72, 1);
    put(MODULES, HEADER);
    put(MODULES + 8, END);
    put(HEADER, 2);
    put(HEADER + 0x48, LINES);
    put(HEADER + FUNCTIONS, FIRST);
    put(HEADER + FUNCTIONS + 8, SECOND);
    put(HEADER + FUNCTIONS + 16, END);
    put(ATOMS, PAGE);
    put(SECOND + 16, atom(1, module, version >= 16));
    put(SECOND + 24, atom(2, function, version >= 16));
    put(SECOND + 32, 3);
    put(LINES, FILES);
    put(LINES + 8, 2);
    put(LINES + 16, PLACES);
    put(LINES + 24, ADDRESSES);
    put(LINES + 32, ADDRESSES);
    put(LINES + 40, ADDRESSES + 16);
    put(ADDRESSES, SECOND + 0x40);
    put(ADDRESSES + 8, SECOND + 0x60);
    put(ADDRESSES + 16, END);
    put(PLACES, 7 | 9 << 16);
    put(FILES, FILE_NAME + 1);
    for (uint64_t i = 0; i < sizeof file - 1; i++) {
        put(FILE_NAME + 16 * i, (uint64_t)file[i] << 4 | 0xf);
        put(FILE_NAME + 16 * i + 8, i + 2 < sizeof file ? FILE_NAME + 16 * (i + 1) + 1 : 0x3b);
    }
    return (
        struct beam_place){.ranges = RANGES, .atoms = ATOMS, .functions = FUNCTIONS, .version = {version}};
}

static bool name(const struct beam_place *place, uint64_t address, struct arena *text,
                 struct runtime_name *ret)
{
    struct source source = all();
    uint64_t code;
    memcpy(&code, memory + (address & ~7ull), sizeof code);
    struct sample_frame word = {.where = address, .file = BEAM_COOKIE(code)};
    return beam_function_name(&source, place, &word, text, ret);
}

UNIT(a_function_has_its_module_arity_file_and_line)
{
    struct arena text = {0};
    struct runtime_name got;
    for (uint16_t version = 13; version <= 16; version += 3) {
        struct beam_place place = make("lists", "map", version);
        ck_assert(name(&place, SECOND + 0x65, &text, &got));
        ck_assert(bytes_is(got.name, "lists:map/3") && bytes_is(got.file, "a.erl"));
        ck_assert_uint_eq(got.line, 9);
        ck_assert(name(&place, SECOND + 0x38, &text, &got)); /* before its first line */
        ck_assert(bytes_is(got.name, "lists:map/3") && got.line == 0);
    }
    arena_release(&text);
}

/* The same instructions, and another function, another end or another line. */
UNIT(a_name_that_was_another_modules_has_changed)
{
    struct arena text = {0};
    struct runtime_name got;
    struct source source = all();
    const uint64_t changed[] = {SECOND + 24, HEADER + FUNCTIONS + 16, PLACES + 2};
    for (size_t i = 0; i < ARRAY_LEN(changed); i++) {
        struct beam_place place = make("lists", "map", 13);
        ck_assert(name(&place, SECOND + 0x65, &text, &got));
        ck_assert(!beam_function_has_changed(&source, &got.mark));
        put(changed[i], get(changed[i]) + 64);
        ck_assert(beam_function_has_changed(&source, &got.mark));
    }
    ck_assert(!beam_function_has_changed(&source, &(struct runtime_mark){.at = {1, 2, 3}}));
    got.mark.at[0] = sizeof memory;
    ck_assert(!beam_function_has_changed(&source, &got.mark)); /* it cannot be read */
    arena_release(&text);
}

UNIT(what_erlang_quotes_is_quoted)
{
    struct arena text = {0};
    struct runtime_name got;
    struct beam_place place = make("Elixir.Enum", "it's", 13);
    ck_assert(name(&place, SECOND + 0x41, &text, &got));
    ck_assert(bytes_is(got.name, "'Elixir.Enum':'it\\'s'/3"));
    arena_release(&text);
}

UNIT(other_code_at_the_same_place_has_no_name)
{
    struct arena text = {0};
    struct runtime_name got;
    struct beam_place place = make("lists", "map", 13);
    struct source source = all();
    struct sample_frame word = {.where = SECOND + 0x45, .file = BEAM_COOKIE(1)};
    ck_assert(!beam_function_name(&source, &place, &word, &text, &got));
    ck_assert(!name(&place, END + 8, &text, &got)); /* nor has what is in no module */
    arena_release(&text);
}
