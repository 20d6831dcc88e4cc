/* SPDX-License-Identifier: Apache-2.0 */
/* Java's frames and their names, out of a process's memory made by hand: what is at address n is byte n. */
#include "tests/lib/unit.h"

#include "sender/runtimes/hotspot/compiled.h"
#include "sender/runtimes/hotspot/step.h"
#include "tests/unit/sender/runtimes/made_memory.h"

static void put_n(uint64_t at, uint64_t value, size_t n)
{
    memcpy(memory + at, &value, n);
}

/* The code cache: a heap with blobs at its segments 0, 16 and 32; one other after that. */
#define HEAP     0x8000u
#define SEGMENTS 0x7000u
#define METHOD   (HEAP + 16u) /* compiled, */
#define STUB     (HEAP + 0x800u + 16u)
#define INTER    (HEAP + 0x1000u + 16u)
#define CODE(of) ((of) + 0x200u)
#define STACK    0xc000u

#define USED 8 /* in the header of a blob's block */

/* Offsets in a blob. */
enum {
    NAME = 8,
    SIZE = 16,
    COMPLETE = 20,
    BEGIN = 24,
    DEOPT = 32,
    ORIGINAL = 40,
    ID = 48,
    OF = 56,
    PCS = 64,
    PCS_END = 68,
    METADATA = 72,
    SCOPES = 80
};

static struct runtime_place place;
static struct hotspot_place *p = (struct hotspot_place *)place.word;

static void put_blob(uint64_t at, uint32_t segment, const char *kind, int32_t words)
{
    static uint64_t names = 0x100;
    put_n(at - 16 + USED, 1, 1);
    put_n(at + NAME, names, 8);
    memcpy(memory + names, kind, strlen(kind) + 1);
    names = 0x100 + (names + 32) % 0x100;
    put_n(at + SIZE, (uint32_t)words, 4);
    put_n(at + COMPLETE, 16, 4);
    put_n(at + BEGIN, CODE(at), 8);
    for (uint32_t i = 0; i < 16; i++)
        memory[SEGMENTS + segment + i] = (uint8_t)i;
}

static void put_symbol(uint64_t at, const char *text)
{
    put_n(at + 4, strlen(text), 2);
    memcpy(memory + at + 6, text, strlen(text));
}

/* A method with its class, both named, whose line 1040 begins at bytecode 0, 1041 at 5 and 1050 at 9. */
static void put_method(uint64_t at, const char *class, const char *name)
{
    uint64_t code = at + 0x40, pool = at + 0x100, klass = at + 0x180;
    static const uint8_t lines[] = {0xff, 0, 224, 29, 5 << 3 | 1, 0xff, 8, 18, 0};
    put_n(at + 8, code, 8);
    put_n(code + 8, pool, 8);
    put_n(code + 0x1c, 1, 2);
    put_n(code + 0x20, 12, 2);
    put_n(code + 0x22, 2, 2);
    memcpy(memory + code + 48 + 12, lines, sizeof lines);
    put_n(pool + 0x18, klass, 8);
    put_n(pool + 0x36, 3, 2);
    put_n(pool + 64 + 16, at + 0x200, 8);
    put_n(pool + 64 + 24, at + 0x260, 8);
    put_n(klass + 0x18, at + 0x2c0, 8);
    put_symbol(at + 0x200, name);
    put_symbol(at + 0x260, "Shop.java");
    put_symbol(at + 0x2c0, class);
}

#define OUTER 0x1000u
#define INNER 0x1800u

static void begin(void)
{
    memset(memory, 0, sizeof memory);
    memset(memory + SEGMENTS, 0xff, 0x100);
    on_read = NULL;
    *p = (struct hotspot_place){.heap = {{HEAP, 0x2000, SEGMENTS}},
                                .segment_shift = 7,
                                .block_header = 16,
                                .block_used = USED,
                                .bcp = 8,
                                .blob_name = NAME,
                                .blob_frame = SIZE,
                                .blob_complete = COMPLETE,
                                .blob_code = BEGIN,
                                .nmethod_deopt = {DEOPT},
                                .nmethod_original_pc = ORIGINAL,
                                .nmethod_id = ID,
                                .nmethod_method = OF,
                                .nmethod_pcs = PCS,
                                .nmethod_pcs_end = PCS_END,
                                .nmethod_metadata = METADATA,
                                .nmethod_scopes = SCOPES,
                                .method_const = 8,
                                .const_size = 48,
                                .const_code_size = 0x20,
                                .const_constants = 8,
                                .const_flags = 0x1c,
                                .const_name = 0x22,
                                .pool_holder = 0x18,
                                .pool_size = 64,
                                .source_name = 0x36,
                                .klass_name = 0x18,
                                .symbol_length = 4,
                                .symbol_body = 6,
                                .major = 17};
    put_blob(METHOD, 0, "nmethod", 6);
    put_blob(STUB, 16, "StubRoutines (1)", 0);
    put_blob(INTER, 32, "Interpreter", 0);
    put_n(METHOD + ID, 77, 4);
    put_n(METHOD + OF, OUTER, 8);
    put_method(OUTER, "com/acme/Shop", "sell");
    put_method(INNER, "com/acme/Shop$$Lambda$7+0x0000000800c03200", "apply");
}

static int load(void *of, uint64_t address, uint64_t *value)
{
    if (address < STACK || address + 8 > sizeof memory)
        return -1;
    memcpy(value, memory + address, sizeof *value);
    return 0;
}

/* A step from registers; whether it was taken. */
static bool step(struct unwind_registers *at, struct sample_frame *word)
{
    struct source s = all();
    struct runtime_process process = {.memory = &s, .place = &place};
    struct runtime_stack stack = {load, NULL};
    return hotspot_step(&process, &stack, at, word);
}

static struct runtime_name name;
static struct arena text;

static bool is_named(const struct sample_frame *word)
{
    struct source s = all();
    arena_release(&text);
    return runtime_hotspot.resolve(&(struct runtime_process){.memory = &s, .place = &place}, word, &text,
                                   &name);
}

UNIT(compiled_code_is_left_by_its_frame_size)
{
    struct sample_frame word;
    struct unwind_registers at = {.ip = CODE(METHOD) + 0x50, .sp = STACK, .bp = 5, .has_all = 1};
    begin();
    put_n(STACK + 5 * 8, CODE(STUB) + 4, 8);
    put_n(STACK + 4 * 8, 0xd000, 8);
    ck_assert(step(&at, &word));
    ck_assert_uint_eq(at.ip, CODE(STUB) + 4);
    ck_assert_uint_eq(at.sp, STACK + 6 * 8);
    ck_assert_uint_eq(at.bp, 0xd000);
    ck_assert(at.is_return && !at.has_all);
    ck_assert_int_eq(word.kind, SAMPLE_FRAME_WORD);
    ck_assert_uint_eq(word.where, CODE(METHOD) + 0x50);
    ck_assert_uint_eq(word.file, 77);
    ck_assert(is_named(&word));
    ck_assert(bytes_is(name.name, "com.acme.Shop.sell") && bytes_is(name.file, "Shop.java"));
}

UNIT(a_frame_that_is_not_made_or_torn_down_is_left_by_what_there_is)
{
    static const struct {
        uint32_t at;
        uint8_t code[13];             /* the byte before, and what follows */
        uint32_t return_at, saved_at; /* words; 9: it is where it was */
    } edges[] = {
        {4, {0x90, 0x55}, 0, 9},                                                 /* push %rbp */
        {4, {0x55, 0x48, 0x83, 0xec, 0x20}, 1, 0},                               /* sub behind it */
        {4, {0xff, 0x48, 0x81, 0xec, 0x20}, 0, 9},                               /* without a push */
        {4, {0x20, 0x48, 0x89, 0x6c, 0x24, 0x10}, 5, 9},                         /* mov %rbp, n(%rsp) */
        {4, {0x20, 0x0f, 0x1f, 0x40, 0, 0x41, 0x81, 0x7f, 0x24, 0, 0x2c}, 5, 4}, /* nothing, before … */
        {4, {0x20, 0x66, 0x90, 0x41, 0x81, 0x7f, 0x20}, 5, 4},          /* … what looks whether … */
        {4, {0x50, 0x41, 0x81, 0x7f, 0x20, 0, 0, 0, 0, 0x74, 5}, 5, 4}, /* … the code is fit yet */
        {4, {0, 0x74, 5, 0xe8}, 5, 4},                                  /* and goes over a call, … */
        {4, {0, 0x0f, 0x84, 5, 0, 0, 0, 0xe8}, 5, 4},                   /* … of JDK 17, … */
        {4, {0, 0xe8}, 5, 4},                                           /* … which is this, … */
        {4, {0, 0x0f, 0x85, 0x20, 0, 0, 0}, 5, 4},                      /* … or jumps */
        {4, {0x08, 0x0f, 0x85, 0x20, 0, 0, 0}, 0, 9},                   /* it is another class's */
        {4, {0x90, 0x66, 0x90, 0x89, 0x84, 0x24, 0, 0xc0}, 0, 9},       /* nothing, before all else */
        {80, {0x20, 0x5d, 0xc3}, 1, 0},                                 /* pop %rbp */
        {80, {0x5d, 0xc3}, 0, 9},                                       /* ret */
        {80, {0x5d, 0x49, 0x3b, 0xa7, 0x40, 3, 0, 0}, 0, 9},            /* the safepoint's look */
        {80, {0x5d, 0x49, 0x3b, 0x67, 0x28, 0x0f, 0x87}, 0, 9},         /* that of JDK 25 */
        {80, {0x20, 0x5d, 0xe9, 0x93, 0xc0, 0xba, 0xff}, 1, 0},         /* with an exception, … */
        {80, {0x5d, 0xe9, 0x93, 0xc0, 0xba, 0xff}, 0, 9},               /* … and on with it; … */
        {80, {0x5d, 0xe9, 0, 6, 0, 0}, 0, 9},                           /* … a stub may be near, … */
        {80, {0x5d, 0xe9, 0xf0, 0xff, 0xff, 0xff}, 5, 4},               /* … not within the method */
        {80, {0x00, 0x0f, 0x87, 1, 0, 0, 0, 0xc3}, 0, 9},               /* and jump */
        {80, {0x5d, 0x4d, 0x8b, 0x97, 8, 1, 0, 0, 0x41, 0x85, 2, 0xc3}, 0, 9},  /* that of JDK 11 */
        {80, {0x20, 0x4d, 0x8b, 0x97, 64, 3, 0, 0, 0x41, 0x85, 2, 0x3b}, 5, 4}, /* a loop's */
        {80, {0x20, 0x8b, 0x07}, 5, 4},                                         /* nothing of this */
    };
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        struct sample_frame word;
        struct unwind_registers at = {
            .ip = CODE(METHOD) + edges[i].at, .sp = STACK, .bp = 0xe000, .has_all = 1};
        begin();
        memcpy(memory + at.ip - 1, edges[i].code, sizeof edges[i].code);
        put_n(STACK, CODE(METHOD) + 8, 8); /* what was there before, in a frame that is whole */
        put_n(STACK + edges[i].return_at * 8, CODE(STUB) + 4, 8);
        if (edges[i].saved_at < 9)
            put_n(STACK + edges[i].saved_at * 8, 0xd000, 8);
        ck_assert_msg(step(&at, &word), "%zu", i);
        ck_assert_uint_eq(at.sp, STACK + 8 * (edges[i].return_at + 1));
        ck_assert_uint_eq(at.bp, edges[i].saved_at < 9 ? 0xd000 : 0xe000);
    }
}

UNIT(what_is_pushed_for_a_call_is_below_the_frame)
{
    static const struct {
        uint8_t code[16]; /* from the instruction on */
        uint32_t words;
        bool is_return;
    } at_work[] = {
        {{0x53, 0x50, 0xe8, 1, 2, 3, 4, 0x5b, 0x5b, 0x83}, 0, false}, /* push %rbx */
        {{0x50, 0xe8, 1, 2, 3, 4, 0x5b, 0x5b, 0x83}, 1, false},       /* push %rax */
        {{0xe8, 1, 2, 3, 4, 0x5b, 0x5b, 0x83}, 2, false},             /* call */
        {{0x5b, 0x5b, 0x83}, 2, true},                                /* pop %rbx */
        {{0x5b, 0x5b, 0x83}, 2, false},                               /* the same, once there */
        {{0x5b, 0x83}, 1, false},                                     /* and the second */
        {{0x41, 0x50, 0x41, 0x55, 0xe8, 1, 2, 3, 4, 0x41, 0x5d, 0x41, 0x58}, 0, false}, /* of r8, r13 */
        {{0x41, 0x55, 0xe8, 1, 2, 3, 4, 0x41, 0x5d, 0x41, 0x58}, 1, false},
        {{0x41, 0x5d, 0x41, 0x58}, 2, true},
        {{0x5d, 0x5b}, 0, true},                    /* pop %rbp is the frame's own */
        {{0xe8, 1, 2, 3, 4, 0x48, 0x8b}, 0, false}, /* a call with nothing pushed */
        {{0x50, 0x50, 0x50, 0x50, 0x50}, 0, false}, /* what is only pushed says nothing */
        {{0x48, 0x8b, 0x58, 0x58}, 0, true},
    };
    for (size_t i = 0; i < sizeof at_work / sizeof *at_work; i++) {
        struct sample_frame word;
        uint32_t top = at_work[i].words + 5;
        struct unwind_registers at = {
            .ip = CODE(METHOD) + 80, .sp = STACK, .bp = 5, .is_return = at_work[i].is_return};
        begin();
        memcpy(memory + at.ip, at_work[i].code, sizeof at_work[i].code);
        for (uint32_t word_of = 0; word_of < 16; word_of++) /* what was there before */
            put_n(STACK + word_of * 8, CODE(METHOD) + 8, 8);
        put_n(STACK + top * 8, CODE(STUB) + 4, 8);
        put_n(STACK + (top - 1) * 8, 0xd000, 8);
        ck_assert_msg(step(&at, &word), "%zu", i);
        ck_assert_msg(at.ip == CODE(STUB) + 4, "%zu", i);
        ck_assert_uint_eq(at.sp, STACK + (top + 1) * 8);
        ck_assert_uint_eq(at.bp, 0xd000);
    }
}

UNIT(a_stub_that_pushes_is_left_to_where_it_was_called)
{
    struct sample_frame word;
    struct unwind_registers at = {.ip = CODE(STUB) + 9, .sp = STACK, .bp = 0xe000, .has_all = 1};
    int32_t distance = (int32_t)(CODE(STUB) - (CODE(METHOD) + 0x60));
    begin();
    put_blob(STUB, 16, "slow_subtype_check Runtime1 stub", -1);
    memory[CODE(STUB)] = 0x57;
    memory[CODE(METHOD) + 0x5b] = 0xe8;
    put_n(CODE(METHOD) + 0x5c, (uint32_t)distance, 4);
    at.all[1] = CODE(METHOD) + 0x30; /* where an exception was thrown, before */
    put_n(STACK + 2 * 8, CODE(METHOD) + 0x30, 8);
    put_n(STACK + 3 * 8, CODE(STUB) + 0x30, 8);
    put_n(STACK + 4 * 8, CODE(METHOD) + 0x60, 8);
    ck_assert(step(&at, &word));
    ck_assert_uint_eq(at.ip, CODE(METHOD) + 0x60);
    ck_assert_uint_eq(at.sp, STACK + 5 * 8);
    ck_assert_uint_eq(at.bp, 0xe000);
}

UNIT(what_goes_on_with_an_exception_has_its_return_address_where_it_put_it)
{
    static const struct {
        uint8_t code[5];    /* the byte before, and what follows */
        uint32_t return_at; /* words */
    } at_work[] = {
        {{0, 0x48, 0x89, 0x6c, 0x24}, 3},    /* mov %rbp, n(%rsp) */
        {{0x10, 0x48, 0xff, 0x74, 0x24}, 3}, /* pushq n(%rsp) */
        {{0x18, 0x48, 0x8f, 0x04, 0x24}, 4}, /* popq (%rsp) */
        {{0x5d, 0x5a, 0x41, 0xff, 0xe2}, 0}, /* pop %rdx, to jump */
    };
    for (size_t i = 0; i < sizeof at_work / sizeof *at_work; i++) {
        struct sample_frame word;
        struct unwind_registers at = {.ip = CODE(STUB) + 0x20, .sp = STACK, .bp = 0xe000, .has_all = 1};
        begin();
        put_blob(STUB, 16, "C2 Runtime rethrow", 4);
        put_n(STUB + COMPLETE, UINT32_MAX, 4); /* never, it says */
        put_n(CODE(STUB), 0x18ec8148, 4);
        memcpy(memory + at.ip - 1, at_work[i].code, sizeof at_work[i].code);
        put_n(STACK, CODE(METHOD) + 8, 8); /* a copy, or its own */
        put_n(STACK + 3 * 8, i == 2 ? 0xd000 : CODE(METHOD) + 0x60,
              8); /* of another frame, but for the first */
        put_n(STACK + at_work[i].return_at * 8, CODE(METHOD) + 0x44, 8);
        ck_assert_msg(step(&at, &word), "%zu", i);
        ck_assert_uint_eq(at.ip, CODE(METHOD) + 0x44);
        ck_assert_uint_eq(at.sp, STACK + 8 * (at_work[i].return_at + 1));
    }
}

/* C1's, which has called C++ on a stack that it aligns if need be. What is in rdx is of another method. */
UNIT(what_goes_on_with_an_exception_without_a_frame_has_its_return_address_on_top)
{
    static const struct {
        uint8_t code[10];   /* the byte before, and what follows */
        uint32_t return_at; /* words; 9: it is popped, to rdx */
    } at_work[] = {
        {{0x90, 0x4c, 0x8b, 0xf0}, 0},                   /* mov %rax, %r14 */
        {{0x90, 0x48, 0x83, 0xec, 8}, 0},                /* sub $8, %rsp */
        {{8, 0xe8, 1, 2, 3, 4, 0x48, 0x83, 0xc4, 8}, 1}, /* call */
        {{4, 0x48, 0x83, 0xc4, 8, 0xe9, 5, 0, 0, 0}, 1}, /* add $8, %rsp */
        {{0, 0xe8, 1, 2, 3, 4, 0x48, 0x8b, 0xd8}, 0},    /* call, and mov %rax, %rbx */
        {{0xc6, 0x5a, 0xff, 0xe3}, 0},                   /* pop %rdx */
        {{0x5a, 0xff, 0xe3}, 9},                         /* jmp *%rbx */
    };
    for (size_t i = 0; i < sizeof at_work / sizeof *at_work; i++) {
        struct sample_frame word;
        struct unwind_registers at = {.ip = CODE(STUB) + 0x20, .sp = STACK, .bp = 0xe000, .has_all = 1};
        bool is_popped = at_work[i].return_at == 9;
        begin();
        put_blob(STUB, 16, "unwind_exception Runtime1 stub", -1);
        memcpy(memory + at.ip - 1, at_work[i].code, sizeof at_work[i].code);
        at.all[1] = CODE(METHOD) + 0x30;
        put_n(STACK, CODE(METHOD) + 8, 8); /* what was there before */
        put_n(STACK + 8, CODE(METHOD) + 8, 8);
        if (!is_popped)
            put_n(STACK + at_work[i].return_at * 8, CODE(METHOD) + 0x44, 8);
        ck_assert_msg(step(&at, &word), "%zu", i);
        ck_assert_msg(at.ip == CODE(METHOD) + (is_popped ? 0x30 : 0x44), "%zu", i);
        ck_assert_uint_eq(at.sp, is_popped ? STACK : STACK + 8 * (at_work[i].return_at + 1));
        ck_assert_uint_eq(at.bp, 0xe000);
    }
}

/* Its frame pointer is the caller's again. */
UNIT(what_goes_to_a_handler_has_popped_where_that_is)
{
    static const uint8_t end[] = {0xc9, 0x59, 0xff, 0xe1}; /* leave; pop %rcx; jmp *%rcx */
    for (uint32_t i = 0; i < 2; i++) {
        struct sample_frame word;
        struct unwind_registers at = {
            .ip = CODE(STUB) + 0x21 + i, .sp = STACK, .bp = STACK + 0x40, .has_all = 1};
        begin();
        put_blob(STUB, 16, "handle_exception_from_callee Runtime1 stub", -1);
        put_n(CODE(STUB), 0xec8b4855, 4);
        memcpy(memory + CODE(STUB) + 0x20, end, sizeof end);
        at.all[2] = CODE(METHOD) + 0x44;
        put_n(STACK, CODE(METHOD) + (i ? 8 : 0x44), 8);
        put_n(STACK + 0x48, CODE(METHOD) + 0x30, 8);
        ck_assert(step(&at, &word));
        ck_assert_uint_eq(at.ip, CODE(METHOD) + 0x44);
        ck_assert_uint_eq(at.sp, STACK + (i ? 0 : 8));
        ck_assert_uint_eq(at.bp, STACK + 0x40);
    }
}

UNIT(a_frame_that_is_to_be_made_another_one_is_told_as_what_it_was)
{
    struct sample_frame word;
    struct unwind_registers at = {.ip = CODE(METHOD) + 0x90, .sp = STACK, .is_return = 1};
    begin();
    put_n(METHOD + DEOPT, CODE(METHOD) + 0x90, 8);
    put_n(METHOD + ORIGINAL, 16, 4);
    put_n(STACK + 16, CODE(METHOD) + 0x44, 8);
    put_n(STACK + 5 * 8, CODE(STUB) + 4, 8);
    ck_assert(step(&at, &word));
    ck_assert_uint_eq(word.where, CODE(METHOD) + 0x43);
}

UNIT(the_interpreter_has_method_and_bytecode_in_its_frame)
{
    struct sample_frame word;
    uint64_t bp = STACK + 0x100, bytecode = OUTER + 0x40 + 48;
    struct unwind_registers at = {.ip = CODE(INTER) + 9, .sp = STACK, .bp = bp, .has_all = 1};
    begin();
    put_n(bp, STACK + 0x400, 8);
    put_n(bp + 8, CODE(METHOD) + 0x30, 8);
    put_n(bp - 8, bp + 0x40, 8);
    put_n(bp - 24, OUTER, 8);
    put_n(bp - 64, bytecode + 6, 8);
    struct unwind_registers live = at;
    live.all[13] = bytecode + 9;
    ck_assert(step(&at, &word));
    ck_assert_uint_eq(word.where, OUTER);
    ck_assert_uint_eq(word.extra, 6);
    ck_assert_uint_eq(at.ip, CODE(METHOD) + 0x30);
    ck_assert_uint_eq(at.sp, bp + 0x40); /* the caller's before arguments were moved */
    ck_assert_uint_eq(at.bp, STACK + 0x400);
    reads = 0;
    ck_assert(is_named(&word));
    ck_assert_uint_le(reads, 17); /* each is charged for more than what it reads */
    ck_assert(bytes_is(name.name, "com.acme.Shop.sell"));
    ck_assert_uint_eq(name.line, 1041);
    ck_assert(step(&live, &word));
    ck_assert_uint_eq(word.extra, 9); /* of a frame that runs it is in a register */
    ck_assert(is_named(&word));
    ck_assert_uint_eq(name.line, 1050);
    /* Another class where it was. */
    memory[OUTER + 0x2c0 + 6 + 12]++;
    ck_assert(!is_named(&word));
}

UNIT(without_a_frame_of_its_own_the_interpreter_is_left_by_its_return_address)
{
    struct sample_frame word;
    struct unwind_registers at = {.ip = CODE(INTER) + 9, .sp = STACK, .bp = 1234, .has_all = 1};
    begin();
    put_n(STACK, CODE(METHOD) + 0x30, 8);
    at.all[13] = STACK + 0x20;
    ck_assert(step(&at, &word));
    ck_assert_uint_eq(at.ip, CODE(METHOD) + 0x30);
    ck_assert_uint_eq(at.sp, STACK + 0x20);
    ck_assert(is_named(&word));
    ck_assert(bytes_is(name.name, "Interpreter"));
}

/* A compiler's thread is in it: further up on the stack is what it works with, which calls nobody. */
UNIT(a_stub_that_flushes_is_called_by_what_it_returns_to)
{
    struct sample_frame word;
    struct unwind_registers at = {.ip = CODE(STUB) + 9, .sp = STACK, .bp = STACK + 0x40, .has_all = 1};
    begin();
    put_blob(STUB, 16, "flush_icache_stub", 0);
    put_n(STACK, 0x7f00, 8); /* C++ */
    put_n(STACK + 16, CODE(METHOD) + 0x30, 8);
    put_n(STACK + 0x48, CODE(METHOD) + 0x30, 8);
    at.all[1] = CODE(METHOD) + 0x30;
    ck_assert(step(&at, &word));
    ck_assert_uint_eq(at.ip, 0x7f00);
    ck_assert_uint_eq(at.sp, STACK + 8);
    ck_assert_uint_eq(at.bp, STACK + 0x40);
    ck_assert(is_named(&word));
    ck_assert(bytes_is(name.name, "flush_icache_stub"));
}

/* SHA-512 has what it works on and its registers on the stack, among them words that look like return
 * addresses, and anything in rbp. */
UNIT(a_stub_that_works_on_much_data_is_left_to_where_it_was_called)
{
    static const uint8_t by_register[] = {0x41, 0xff, 0xd2}; /* call *%r10 */
    const uint64_t ret = CODE(METHOD) + 0x30;
    for (int is_far = 0; is_far < 2; is_far++) {
        struct sample_frame word;
        struct unwind_registers at = {.ip = CODE(STUB) + 0x20, .sp = STACK, .bp = STACK + 0x18, .has_all = 1};
        begin();
        put_blob(STUB, 16, "StubRoutines (2)", 0);
        put_n(STACK + 8, CODE(METHOD) + 0x44, 8); /* what was there before */
        put_n(STACK + 85 * 8, ret, 8);
        memory[ret - 5] = 0xe8;
        put_n(ret - 4, (uint32_t)(CODE(STUB) + 0x10 - ret), 4);
        if (is_far) {
            put_n(ret - 13, 0xba49, 2); /* movabs n, %r10 */
            put_n(ret - 11, CODE(STUB) + 0x10, 8);
            memcpy(memory + ret - 3, by_register, sizeof by_register);
        }
        at.all[1] = CODE(METHOD) + 0x44;
        ck_assert_msg(step(&at, &word), "%d", is_far);
        ck_assert_uint_eq(at.ip, ret);
        ck_assert_uint_eq(at.sp, STACK + 86 * 8);
        ck_assert(is_named(&word) && bytes_is(name.name, "StubRoutines (2)"));
    }
}

UNIT(a_stub_that_has_called_is_no_frame)
{
    struct sample_frame word;
    uint64_t bp = STACK + 0x40;
    struct unwind_registers at = {.ip = CODE(STUB) + 9, .sp = STACK, .bp = bp, .is_return = 1};
    begin();
    put_n(bp, 0, 8);
    put_n(bp + 8, 0x7f00, 8); /* C++ */
    ck_assert(step(&at, &word));
    ck_assert_uint_eq(at.ip, 0x7f00);
    ck_assert_int_ne(word.kind, SAMPLE_FRAME_WORD);
}

UNIT(what_brings_frames_back_is_told_in_their_place)
{
    static const uint8_t barrier[] = {0x49, 0x8b, 0xa7, 0x18, 6, 0, 0}; /* mov 0x618(%r15), %rsp */
    struct sample_frame word;
    struct unwind_registers at = {.ip = CODE(STUB) + 9, .sp = STACK, .bp = 7, .is_return = 1};
    begin();
    memcpy(memory + CODE(STUB) + 9, barrier, sizeof barrier);
    put_n(STACK + 9 * 8, 0xd000, 8);
    put_n(STACK + 10 * 8, CODE(METHOD) + 0x50, 8);
    ck_assert(step(&at, &word));
    ck_assert_uint_eq(at.ip, CODE(METHOD) + 0x50);
    ck_assert_uint_eq(at.sp, STACK + 11 * 8);
    ck_assert_uint_eq(at.bp, 0xd000);
    ck_assert_int_eq(word.kind, SAMPLE_FRAME_WORD);
    ck_assert(is_named(&word) && bytes_is(name.name, "StubRoutines (1)"));
}

/* While it asks C++ for them, whose answer it takes as those do that go on with an exception. */
UNIT(what_brings_frames_back_is_told_while_it_asks_for_them)
{
    static const uint8_t answer[] = {0xe8, 1,    2,    3,    4,   0x48,
                                     0x8b, 0xd8, 0x48, 0x8b, 0xe3}; /* mov %rax, %rbx */
    struct sample_frame word;
    struct unwind_registers at = {.ip = CODE(STUB) + 5, .sp = STACK, .bp = STACK + 0x400, .is_return = 1};
    begin();
    memcpy(memory + CODE(STUB), answer, sizeof answer);
    put_n(STACK, 0x7f00, 8); /* room for what is brought */
    put_n(STACK + 0x400, 0xd000, 8);
    put_n(STACK + 0x408, CODE(METHOD) + 0x50, 8);
    ck_assert(step(&at, &word));
    ck_assert_uint_eq(at.ip, CODE(METHOD) + 0x50);
    ck_assert_uint_eq(at.sp, STACK + 0x410);
    ck_assert_uint_eq(at.bp, 0xd000);
    ck_assert_int_eq(word.kind, SAMPLE_FRAME_WORD);
    ck_assert(is_named(&word) && bytes_is(name.name, "StubRoutines (1)"));
}

UNIT(what_is_in_no_blob_is_none_of_javas)
{
    struct sample_frame word;
    struct unwind_registers at = {.ip = HEAP + 0x1f00, .sp = STACK, .has_all = 1};
    begin();
    ck_assert(!step(&at, &word));
    at.ip = 0x4000;
    ck_assert(!step(&at, &word));
    at.ip = CODE(METHOD) + 0x50; /* a caller that is not in the code cache */
    ck_assert(!step(&at, &word));
}

/* Bytecode 6 of `apply`, inlined at bytecode 9 of `sell`, up to byte 0x60 of the code; then `sell` alone. */
static void put_scopes(uint64_t pcs, uint64_t scopes, uint64_t metadata, uint32_t excluded)
{
    const uint32_t pc[][4] = {{(uint32_t)-1, 0}, {0x60, 8}, {0x70, 1}, {0x7fffffff, 0}};
    const uint8_t number[][3] = {{0, 1, 10}, {1, 2, 7}}; /* in what, which method, which bytecode and one */
    memcpy(memory + pcs, pc, sizeof pc);
    for (uint32_t i = 0; i < 3; i++) {
        memory[scopes + 1 + i] = (uint8_t)(number[0][i] + excluded);
        memory[scopes + 8 + i] = (uint8_t)(number[1][i] + excluded);
    }
    put_n(metadata, OUTER, 8);
    put_n(metadata + 8, INNER, 8);
}

static void check_scopes(void)
{
    struct sample_frame word = {.kind = SAMPLE_FRAME_WORD, .extra = HOTSPOT_COMPILED, .file = 77};
    word.where = CODE(METHOD) + 0x5f;
    ck_assert(is_named(&word));
    ck_assert(bytes_is(name.name, "com.acme.Shop$$Lambda$7.apply"));
    ck_assert_uint_eq(name.line, 1041);
    ck_assert_ptr_nonnull(name.caller);
    ck_assert(bytes_is(name.caller->name, "com.acme.Shop.sell"));
    ck_assert_uint_eq(name.caller->line, 1050);
    ck_assert_ptr_null(name.caller->caller);
    word.where = CODE(METHOD) + 0x61;
    ck_assert(is_named(&word));
    ck_assert(bytes_is(name.name, "com.acme.Shop.sell"));
    ck_assert_ptr_null(name.caller);
}

UNIT(inlined_methods_are_told_with_their_lines)
{
    begin();
    put_n(METHOD + PCS, 0x400, 4);
    put_n(METHOD + PCS_END, 0x440, 4);
    put_n(METHOD + METADATA, 0x480, 4);
    put_n(METHOD + SCOPES, METHOD + 0x4c0, 8);
    put_scopes(METHOD + 0x400, METHOD + 0x4c0, METHOD + 0x480, 0);
    check_scopes();
}

UNIT(inlined_methods_are_told_as_later_versions_have_them)
{
    begin();
    /* Lines are compressed likewise. */
    static const uint8_t lines[] = {0xff, 1, 225, 30, 5 << 3 | 1, 0xff, 9, 19, 0};
    memcpy(memory + OUTER + 0x40 + 48 + 12, lines, sizeof lines);
    memcpy(memory + INNER + 0x40 + 48 + 12, lines, sizeof lines);
    p->is_relative = HOTSPOT_APART | HOTSPOT_SCOPES | HOTSPOT_BYTES;
    p->nmethod_apart = 88;
    p->nmethod_metadata = 96;
    p->nmethod_relocation = 104;
    put_n(METHOD + 88, 0x4000, 8);
    put_n(METHOD + 96, 0x5000, 8);
    put_n(METHOD + 104, 0x20, 4);
    put_n(METHOD + PCS, 0x10, 4);
    put_n(METHOD + PCS_END, 0x50, 4);
    put_n(METHOD + SCOPES, 0x50, 4);
    put_scopes(0x4010, 0x4050, 0x5020, 1);
    check_scopes();
}

UNIT(code_that_is_compiled_anew_is_not_named_by_what_was_there)
{
    struct sample_frame word = {
        .kind = SAMPLE_FRAME_WORD, .extra = HOTSPOT_COMPILED, .file = 76, .where = CODE(METHOD) + 0x50};
    begin();
    ck_assert(!is_named(&word));
}

UNIT(code_that_was_freed_is_not_named_though_all_of_it_is_still_there)
{
    struct sample_frame word = {
        .kind = SAMPLE_FRAME_WORD, .extra = HOTSPOT_COMPILED, .file = 77, .where = CODE(METHOD) + 0x50};
    begin();
    memory[METHOD - 16 + USED] = 0;
    ck_assert(!is_named(&word));
}

UNIT(code_without_a_method_is_not_named)
{
    struct sample_frame word = {
        .kind = SAMPLE_FRAME_WORD, .extra = HOTSPOT_COMPILED, .file = 77, .where = CODE(METHOD) + 0x50};
    begin();
    put_n(METHOD + PCS, 0x400, 4);
    put_n(METHOD + PCS_END, 0x440, 4);
    put_n(METHOD + METADATA, 0x480, 4);
    put_n(METHOD + SCOPES, METHOD + 0x4c0, 8);
    put_scopes(METHOD + 0x400, METHOD + 0x4c0, METHOD + 0x480, 0);
    ck_assert(is_named(&word));
    put_n(METHOD + OF, 0, 8);
    ck_assert(!is_named(&word));
}

UNIT(what_can_be_no_name_is_none)
{
    struct sample_frame word = {
        .kind = SAMPLE_FRAME_WORD, .extra = HOTSPOT_COMPILED, .file = 77, .where = CODE(METHOD) + 0x50};
    begin();
    memory[OUTER + 0x200 + 6 + 1] = 0;
    ck_assert(!is_named(&word));
    memory[OUTER + 0x200 + 6 + 1] = 0xf3;
    ck_assert(!is_named(&word));
    memory[OUTER + 0x200 + 6 + 1] = 0xc4; /* "s?ll": Java's UTF-8 need not be others' */
    ck_assert(is_named(&word));
    ck_assert(bytes_is(name.name, "com.acme.Shop.s?ll"));
}

UNIT(names_may_be_long_or_at_the_end_of_memory)
{
    struct sample_frame word = {
        .kind = SAMPLE_FRAME_WORD, .extra = HOTSPOT_COMPILED, .file = 77, .where = CODE(METHOD) + 0x50};
    char class[200], whole[210];
    for (size_t n = 55; n < sizeof class; n++) {
        begin();
        memset(class, 'x', n);
        class[n] = 0;
        put_symbol(OUTER + 0x2c0, class);
        snprintf(whole, sizeof whole, "%s.sell", class);
        ck_assert(is_named(&word));
        ck_assert(bytes_is(name.name, whole));
    }
    begin();
    put_symbol(sizeof memory - 10, "sell");
    put_n(OUTER + 0x100 + 64 + 16, sizeof memory - 10, 8);
    ck_assert(is_named(&word));
    ck_assert(bytes_is(name.name, "com.acme.Shop.sell"));
    put_n(sizeof memory - 6, 5, 2);
    ck_assert(!is_named(&word));
    arena_release(&text);
}

static void compile_anew(void)
{
    static int n_reads;
    if (++n_reads == 12)
        put_n(METHOD + ID, 78, 4);
}

UNIT(code_that_is_compiled_anew_meanwhile_is_not_named)
{
    struct sample_frame word = {
        .kind = SAMPLE_FRAME_WORD, .extra = HOTSPOT_COMPILED, .file = 77, .where = CODE(METHOD) + 0x50};
    begin();
    ck_assert(is_named(&word));
    on_read = compile_anew;
    ck_assert(!is_named(&word));
    on_read = NULL;
    arena_release(&text);
}
