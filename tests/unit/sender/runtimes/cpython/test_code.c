/* SPDX-License-Identifier: Apache-2.0 */
/* Names of code objects, out of memory made by hand; and frames, by the step that the kernel runs. */
#include "tests/lib/unit.h"

#include "sender/foreign/allowance.h"
#include "sender/runtimes/cpython/code.h"
#include "sender/runtimes/cpython/layout.h"
#include "sender/runtimes/cpython/lines.h"
#include "sender/runtimes/runtime.h"
#include "tests/unit/sender/runtimes/made_memory.h"

static struct cpython_place place;
static uint64_t steps_read; /* times */
#define RUNTIME_READ(to, n, address) (steps_read++, step_read(to, n, address))
#define RUNTIME_THREAD()             0x8000
#define STEP_HANDLE                  struct cpython_walk *
#define STEP_PART                    static int
#define STEP_OPEN(name, handle)        \
    struct cpython_walk *w = (handle); \
    const struct cpython_place *p = &place
#include "bpf/cpython_step.h"

#define CODE  0x100
#define SP    0x7000
#define NAME  0x400
#define FILE_ 0x800
#define LINES 0x1000
#define HASH  77ull

static void put_string(uint64_t at, const char *text, uint32_t kind, bool is_ascii)
{
    size_t n = strlen(text) / kind;
    put(at + 16, n);
    put(at + CPYTHON_STRING_HASH, HASH);
    put(at + 32, 0x20u | kind << 2 | (is_ascii ? 0x40u : 0));
    memcpy(memory + at + (is_ascii ? place.ascii : place.wide), text, n * kind);
}

static struct sample_frame begin(uint32_t minor)
{
    struct source s = all();
    memset(memory, 0, sizeof memory);
    reads = 0;
    on_read = NULL;
    ck_assert_int_eq(cpython_layout(&place, minor, &s, 0), 0);
    uint32_t first = 40;
    put(CODE + place.name, NAME);
    put(CODE + place.cookie + 8 * place.hashed, NAME);
    put(CODE + place.file_name, FILE_);
    put(CODE + place.lines, LINES);
    memcpy(memory + CODE + place.first, &first, sizeof first);
    put_string(NAME, "Worker.method", 1, true);
    put_string(FILE_, "/srv/work.py", 1, true);
    put(LINES + 16, 6);
    /* Three instructions without a line step, one of the next line, the rest without any. */
    static const uint8_t table[] = {0x80 | 13 << 3 | 2, 0, 0x80 | 11 << 3, 1, 1, 0x80 | 15 << 3 | 7};
    memcpy(memory + LINES + 32, table, sizeof table);
    struct sample_frame word = {.kind = SAMPLE_FRAME_WORD, .runtime = RUNTIME_CPYTHON, .where = CODE};
    uint64_t cookie[CPYTHON_COOKIE_WORDS];
    memcpy(cookie, memory + CODE + place.cookie, sizeof cookie);
    word.file = CPYTHON_COOKIE(cookie, HASH);
    return word;
}

static bool name_of(const struct sample_frame *word, struct runtime_name *ret, char text[4096])
{
    struct source s = all();
    struct arena arena = {0};
    bool found = cpython_code_name(&s, &place, word, &arena, ret);
    text[0] = 0;
    if (found) {
        ck_assert_uint_lt(ret->name.n, 4096);
        memcpy(text, ret->name.p, ret->name.n);
        text[ret->name.n] = 0;
    }
    arena_release(&arena);
    return found;
}

UNIT(a_code_object_has_name_file_and_line)
{
    char text[4096];
    struct runtime_name name;
    struct sample_frame word = begin(12);
    for (word.extra = 0; word.extra < 3; word.extra++) {
        ck_assert(name_of(&word, &name, text));
        ck_assert_str_eq(text, "Worker.method");
        ck_assert_uint_eq(name.line, 40);
    }
    ck_assert(name_of(&word, &name, text) && name.line == 41);
    word.extra = 4;
    ck_assert(name_of(&word, &name, text) && name.line == 0);
    word.extra = 12; /* behind the table */
    ck_assert(name_of(&word, &name, text) && name.line == 0);
    word.extra = CPYTHON_NO_INSTRUCTION;
    ck_assert(name_of(&word, &name, text) && name.line == 40); /* where it begins */
}

UNIT(characters_of_any_width_become_utf_8)
{
    char text[4096];
    struct runtime_name name;
    struct sample_frame word = begin(11);
    put_string(NAME,
               "Gr\xf6\xdf"
               "e",
               1, false);
    ck_assert(name_of(&word, &name, text));
    ck_assert_str_eq(text, "Größe");
    memset(memory + NAME, 0, 256);
    put_string(NAME, "\xac\x20\x41\x01", 2, false);
    ck_assert(name_of(&word, &name, text));
    ck_assert_str_eq(text, "€Ł");
    memset(memory + NAME, 0, 256);
    put_string(NAME, "\x80\xdc\xff\xdb", 2, false); /* surrogates alone are no characters */
    ck_assert(name_of(&word, &name, text));
    ck_assert_str_eq(text, "\xef\xbf\xbd\xef\xbf\xbd");
    memset(memory + NAME, 0, 256);
    put(NAME + 16, 1);
    put(NAME + CPYTHON_STRING_HASH, HASH);
    put(NAME + 32, 0x20 | 4 << 2);
    put(NAME + place.wide, 0x1f40d);
    ck_assert(name_of(&word, &name, text));
    ck_assert_str_eq(text, "🐍");
}

UNIT(another_one_in_its_memory_has_not_its_name)
{
    char text[4096];
    struct runtime_name name;
    struct sample_frame word = begin(11);
    word.file++;
    ck_assert(!name_of(&word, &name, text));
    ck_assert_uint_eq(reads, 2); /* nothing is read by what it says */
}

/* It is freed after its name was read. */
static void free_it(void)
{
    if (reads > 6)
        put(CODE + place.name, 0x7777);
}

UNIT(another_one_whose_strings_are_in_its_memory_too_has_not_its_name)
{
    char text[4096];
    struct runtime_name name;
    for (uint32_t minor = 8; minor <= 12; minor++) {
        struct sample_frame word = begin(minor);
        ck_assert(name_of(&word, &name, text));
        put(NAME + CPYTHON_STRING_HASH, HASH + 1);
        ck_assert(!name_of(&word, &name, text));
    }
}

UNIT(one_with_a_number_for_itself_has_a_name_while_it_is_alive)
{
    static const uint64_t gone[] = {0, 0x7f1200000000, (uint64_t)0xffff << 48};
    char text[4096];
    struct runtime_name name;
    struct sample_frame word = begin(12);
    struct cpython_walk c = {0};
    word.file = 4711;
    ck_assert(!name_of(&word, &name, text));
    put(CODE + place.version, 4711);
    ck_assert(!name_of(&word, &name, text)); /* it is no object */
    place.code_type = 0x5000;
    put(CODE + 8, 0x5000);
    put(CODE, 1);
    ck_assert(name_of(&word, &name, text));
    put(CODE, (uint64_t)4 << 48 | 0xc0000000); /* for ever, as 3.14 says it */
    ck_assert(name_of(&word, &name, text));
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        put(CODE, gone[i]); /* nobody has it, all of it is yet there */
        ck_assert(!name_of(&word, &name, text));
    }
    put(CODE, 1);
    put(CODE + 8, 0x123456789);
    ck_assert(!name_of(&word, &name, text));
    put(CODE + 8, 0x5000);
    put(CODE + place.version, 4712); /* another one */
    ck_assert(!name_of(&word, &name, text));
    ck_assert(cpython_look(&place, &c, CODE) == 0 && c.told_as == 4712);
    put(CODE + place.version, 0); /* all numbers were given out */
    ck_assert(cpython_look(&place, &c, CODE) == 0 && c.told_as == begin(12).file);
}

UNIT(one_that_goes_while_it_is_read_has_no_name)
{
    char text[4096];
    struct runtime_name name;
    struct sample_frame word = begin(12);
    on_read = free_it;
    ck_assert(!name_of(&word, &name, text));
}

UNIT(lies_cost_little)
{
    char text[4096];
    struct runtime_name name;
    struct sample_frame word = begin(12);
    put(NAME + 16, UINT64_MAX); /* as long as can be */
    ck_assert(name_of(&word, &name, text));
    ck_assert_uint_eq(name.name.n, CPYTHON_NAME_MAX);
    put(NAME + 32, 0x20 | 3 << 2); /* characters of three bytes */
    ck_assert(!name_of(&word, &name, text));
    word = begin(12);
    put(LINES + 16, UINT64_MAX);
    memset(memory + LINES + 32, 0x80 | 13 << 3, sizeof memory - LINES - 32); /* no step ends */
    reads = 0;
    word.extra = CPYTHON_NO_INSTRUCTION - 1;
    ck_assert(name_of(&word, &name, text));
    ck_assert_uint_lt(reads, CPYTHON_LINES_MAX / 1024);
    word = begin(12);
    word.where = sizeof memory - 8; /* the end of what can be read */
    ck_assert(!name_of(&word, &name, text));
    word.where = UINT64_MAX - 7;
    ck_assert(!name_of(&word, &name, text));
}

UNIT(versions_that_are_not_known_have_no_layout)
{
    struct source s = all();
    memset(memory, 0, sizeof memory);
    for (uint32_t minor = 0; minor < 20; minor++)
        ck_assert_int_eq(cpython_layout(&place, minor, &s, 0),
                         minor >= 8 && minor <= 12 ? 0 : RUNTIME_NOT_KNOWN);
    memcpy(memory, "xdebugpy", 8); /* a description whose offsets are all 0 is one */
    ck_assert_int_eq(cpython_layout(&place, 13, &s, 0), 0);
    put(8 * 23, 1 << 20);
    ck_assert_int_eq(cpython_layout(&place, 13, &s, 0), RUNTIME_NOT_KNOWN); /* no such structure */
    put(8 * 23, 72);
    put(16, 1); /* without a lock of its own */
    ck_assert_int_eq(cpython_layout(&place, 13, &s, 0), RUNTIME_NOT_KNOWN);
}

/* Frames of 3.12: the thread's state at 0x2000, its cframe at 0x2800, frames from 0x3000 on, of code. */
static void begin_frames(void)
{
    (void)begin(12);
    place.key = 0x1800;
    place.start[0] = 0x400000;
    place.size[0] = 0x1000;
    put(0x1800, (uint64_t)3 << 32 | 1);
    put(0x8000 + CPYTHON_TSD_FIRST + 16 * 3 + 8, 0x2000);
    put(0x2000 + place.thread_frame, 0x2800);
    put(0x2800 + place.cframe, 0x3000);
}

static void put_frame(uint64_t at, uint64_t previous, uint8_t owner)
{
    put(at + place.code, CODE);
    put(at + place.previous, previous);
    put(at + place.at, CODE + place.code_start + 6);
    memory[at + place.owner] = owner;
}

UNIT(frames_of_a_call_end_at_its_shim)
{
    struct cpython_walk c = {0};
    struct sample_frame word;
    begin_frames();
    put_frame(0x3000, 0x3100, 0);
    put_frame(0x3100, 0x3200, 1);
    put_frame(0x3200, 0x3300, 3);
    put_frame(0x3300, 0, 0);
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x500000, SP, &word), STEP_NATIVE); /* it is elsewhere */
    ck_assert(!c.is_begun);
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_TAKEN);
    ck_assert(word.where == CODE && word.extra == 3 && word.runtime == RUNTIME_CPYTHON);
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_TAKEN);
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_PASSED);
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x500000, SP, &word), STEP_NATIVE);
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_TAKEN); /* the call below */
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_PASSED);
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word),
                     STEP_NATIVE); /* there is no more */
}

/* The step to the frame whose instruction is `at`; how often memory was read. */
static uint64_t step_to(struct cpython_walk *c, uint16_t at)
{
    struct sample_frame word;
    uint64_t before = steps_read;
    ck_assert_int_eq(cpython_walk_on(&place, c, c, 0x400010, SP, &word), STEP_TAKEN);
    ck_assert_uint_eq(word.extra, at);
    return steps_read - before;
}

UNIT(frames_that_lie_one_above_the_other_are_read_at_once)
{
    static const uint64_t frames[] = {0x3200, 0x31b0, 0x5000, 0x3160, 0x3110, 0x30c0, 0x3010, 0};
    static const uint64_t times[] = {0, 0, 1, 0, 0, 1, 0}; /* the third is a generator's */
    struct cpython_walk c = {0};
    struct sample_frame word;
    begin_frames();
    put(0x2800 + place.cframe, frames[0]);
    for (uint16_t i = 0; frames[i]; i++) {
        put_frame(frames[i], frames[i + 1], 0);
        put(frames[i] + place.at, CODE + place.code_start + 2 * i);
    }
    absent = 0x2fff; /* nothing is read of the page before the last one's */
    memcpy(memory + 0x4800, memory + 0x2800, 8);
    put(0x2000 + place.thread_frame, 0x4800);
    memcpy(memory + 0x6000, memory + 0x2000, 0x100); /* the state, which is in that page */
    put(0x8000 + CPYTHON_TSD_FIRST + 16 * 3 + 8, 0x6000);
    for (uint16_t i = 0; frames[i]; i++) {
        uint64_t n = step_to(&c, i);
        ck_assert(i == 0 || n == times[i]);
    }
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_PASSED);
    absent = ~0ull;
}

UNIT(a_thread_s_key_may_be_any)
{
    struct cpython_walk c = {0};
    struct sample_frame word;
    begin_frames();
    put_frame(0x3000, 0, 0);
    put(0x1800, 1);
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word),
                     STEP_NATIVE); /* no value at key 0 */
    put(0x1800, (uint64_t)70 << 32 | 1);
    put(0x8000 + CPYTHON_TSD_BLOCKS + 8 * 2, 0x5000);
    put(0x5000 + 16 * 6 + 8, 0x2000);
    c = (struct cpython_walk){0};
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_TAKEN);
    put(0x1800, (uint64_t)70 << 32); /* not made yet */
    c = (struct cpython_walk){0};
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_NATIVE);
    put(0x1800, UINT64_MAX << 32 | 1);
    c = (struct cpython_walk){0};
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_NATIVE);
}

UNIT(with_musl_a_thread_has_its_keys_elsewhere)
{
    struct cpython_walk c = {0};
    struct sample_frame word;
    begin_frames();
    put_frame(0x3000, 0, 0);
    place.has_musl = 1;
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word),
                     STEP_NATIVE); /* as glibc has them */
    put(0x8000 + CPYTHON_TSD_MUSL, 0x5000);
    put(0x5000 + 8 * 3, 0x2000);
    c = (struct cpython_walk){0};
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_TAKEN);
    ck_assert_uint_eq(word.where, CODE);
    place.has_musl = 0;
}

UNIT(who_has_the_lock_is_in_the_interpreter_it_is_in)
{
    struct cpython_walk c = {0};
    struct sample_frame word;
    begin_frames();
    put_frame(0x3000, 0, 0);
    place.current = 0x1810;
    place.thread_id = 152;
    put(0x1810, 0x2100); /* another state … */
    put(0x2100 + place.thread_frame, 0x2900);
    put(0x2900 + place.cframe, 0x3400);
    put_frame(0x3400, 0, 0);
    put(0x3400 + place.at, CODE + place.code_start + 8);
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_TAKEN);
    ck_assert_uint_eq(word.extra, 3); /* … of another thread's, … */
    put(0x2100 + 152, 0x8000);
    c = (struct cpython_walk){0};
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_TAKEN);
    ck_assert_uint_eq(word.extra, 4); /* … or this one's */
    put(0x1810, 0);
    c = (struct cpython_walk){0};
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_TAKEN);
    ck_assert_uint_eq(word.extra, 3);
}

/* A state whose running call has `on_stack` there, at a frame of its own: instruction `number`. */
static void put_state(uint64_t at, uint64_t next, uint64_t on_stack, uint32_t number)
{
    uint64_t frame = 0x3400 + 0x100 * number;
    put(at + CPYTHON_NEXT_STATE, next);
    put(at + place.on_stack, on_stack);
    put(at + place.thread_frame, 0x2900 + 0x40 * number);
    put(0x2900 + 0x40 * number + place.cframe, frame);
    put_frame(frame, 0, 0);
    put(frame + place.at, CODE + place.code_start + 2 * number);
}

/* The number of the instruction that a thread is at. */
static uint32_t at_instruction(void)
{
    struct cpython_walk c = {0};
    struct sample_frame word;
    ck_assert_int_eq(cpython_walk_on(&place, &c, &c, 0x400010, SP, &word), STEP_TAKEN);
    return word.extra;
}

UNIT(a_thread_is_in_the_interpreter_that_its_stack_is_in)
{
    begin_frames();
    put_frame(0x3000, 0, 0); /* what the key leads to: instruction 3 */
    place.current = 0x1810;
    place.interpreters = 0x1818;
    place.states = 16;
    place.on_stack = 0x40;
    put(0x1818, 0x1900);
    put(0x1900, 0x1a00);
    put(0x1900 + 16, 0x2100);
    put(0x1a00 + 16, 0x2300);
    put_state(0x2100, 0x2200, 0x8400, 4);   /* of another thread's, above this one's data, … */
    put_state(0x2200, 0, SP - 8, 5);        /* … or below its stack */
    put_state(0x2300, 0x2400, SP + 128, 6); /* the first that it was in, … */
    put_state(0x2400, 0, SP, 7);            /* … and where it is, though another one has the lock */
    put(0x1810, 0x2100);
    ck_assert_uint_eq(at_instruction(), 7);
    put(0x1810, 0x2300); /* it has the lock itself */
    ck_assert_uint_eq(at_instruction(), 6);
    put(0x1810, 0);
    put(0x1900, 0); /* no other interpreter */
    ck_assert_uint_eq(at_instruction(), 3);
    put(0x1900, 0x1a00);
    put(0x2400 + CPYTHON_NEXT_STATE, 0x2200); /* a ring */
    put(0x2200 + CPYTHON_NEXT_STATE, 0x2400);
    steps_read = 0;
    ck_assert_uint_eq(at_instruction(), 7);
    ck_assert_uint_lt(steps_read, 2 * CPYTHON_STATES_MAX + 16);
}

static int load(void *of, uint64_t address, uint64_t *value)
{
    (void)of;
    return step_read(value, sizeof *value, address);
}

UNIT(trampolines_are_gone_through_wherever_a_thread_is_in_them)
{
    static const uint8_t trampoline[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3};
    static const struct {
        uint8_t at, up;
    } places[] = {{0, 0}, {4, 8}, {6, 8}, {10, 0}};
    struct sample_frame word;
    struct source s = all();
    struct runtime_process process = {.memory = &s};
    struct runtime_stack stack = {load, NULL};
    memset(memory, 0, sizeof memory);
    memcpy(memory + 0x2010, trampoline, sizeof trampoline);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct unwind_registers at = {.ip = 0x2010 + places[i].at, .sp = 0x3000, .bp = 5, .has_all = 1};
        put(0x3000, 0x5000);
        put(0x3000 + places[i].up, 0x4000);
        ck_assert(runtime_cpython.step(&process, &stack, &at, &word));
        ck_assert_int_eq(word.kind, SAMPLE_FRAME_KERNEL); /* nothing is told of it */
        ck_assert(at.ip == 0x4000 && at.sp == 0x3008u + places[i].up && at.bp == 5);
        ck_assert(at.is_return && !at.has_all);
    }
    struct unwind_registers at = {.ip = 0x2012, .sp = 0x3000}; /* in no instruction of one */
    ck_assert(!runtime_cpython.step(&process, &stack, &at, &word));
    at = (struct unwind_registers){.ip = 0x2016, .sp = sizeof memory, .is_return = 1};
    ck_assert(!runtime_cpython.step(&process, &stack, &at, &word)); /* without a stack */
    at.sp = 0x3000;
    process.offset = 0x2016; /* in a file */
    ck_assert(!runtime_cpython.step(&process, &stack, &at, &word));
}
