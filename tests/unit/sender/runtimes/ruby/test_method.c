/* SPDX-License-Identifier: Apache-2.0 */
/* Names of methods, out of memory made by hand; and frames, by the step that the kernel runs. */
#include "tests/lib/unit.h"

#include "proto/base/macros.h"
#include "sender/foreign/allowance.h"
#include "sender/runtimes/ruby/binary.h"
#include "sender/runtimes/ruby/layout.h"
#include "sender/runtimes/ruby/method.h"
#include "sender/runtimes/runtime.h"
#include "tests/unit/sender/runtimes/made_memory.h"

struct thread {
    struct ruby_place place;
    struct ruby_walk walk;
};
static struct thread thread;

#define THREAD                       0xf000
#define RUNTIME_READ(to, n, address) step_read(to, n, address)
#define RUNTIME_THREAD()             THREAD
#define STEP_HANDLE                  struct thread *
#define STEP_PART                    static int
#define STEP_OPEN(name, handle)                                    \
    __attribute__((unused)) struct ruby_walk *w = &(handle)->walk; \
    __attribute__((unused)) const struct ruby_place *p = &(handle)->place
#include "bpf/ruby_step.h"

/* Objects, a page or less each. */
enum {
    ISEQ = 0x1000,  /* of Shop#sell */
    BLOCK = 0x1100, /* in it */
    MAIN = 0x1200,
    BODY = 0x2000, /* of these three, 0x200 each */
    CODE = 0x3000, /* likewise */
    ENTRY = 0x4000,
    METHOD = 0x4100,
    C_ENTRY = 0x4200,
    C_METHOD = 0x4300,
    SVAR = 0x4400,
    CLASS = 0x5000,
    SINGLETON = 0x5100,
    VARIABLES = 0x5200,
    EXTENSION = 0x5400,
    STRING = 0x6000, /* 0x40 each */
    PATH = 0x7000,
    LINES = 0x7100,
    TABLE = 0x7200,
    SYMBOLS = 0x8000,
    STACK = 0xa000,
    CONTEXT = 0xb000,
    FAR = 0xc000,
};
#define EXEC        0x100000u
#define CORE        0x200000u
#define IMEMO(kind) (0x1au | (kind) << 12)
#define NUMBER(n)   (2ull * (n) + 1)
#define CLASS_NAME  40u /* numbers of symbols */
#define METHOD_C    41u

static uint32_t n_strings;

/* A new string: by its own characters if they are few. */
static uint64_t put_string(const char *text)
{
    size_t n = strlen(text);
    uint64_t at = STRING + 0x40 * (uint64_t)n_strings++;
    bool has_length = thread.place.has_length;
    if (n < 24) {
        put(at, 0x05 | (has_length ? 0 : n << 14));
        put(at + 16, n);
        memcpy(memory + at + 16 + 8 * has_length, text, n);
        return at;
    }
    uint64_t far = FAR + 0x200 * (uint64_t)n_strings;
    put(at, 0x05 | 1u << 13);
    put(at + 16, n);
    put(at + 24, far);
    memcpy(memory + far, text, n);
    return at;
}

static void put_iseq(uint64_t iseq, uint32_t i, uint32_t type, const char *label, const char *base,
                     uint64_t local)
{
    uint64_t body = BODY + 0x200 * (uint64_t)i;
    put(iseq, IMEMO(RUBY_IMEMO_ISEQ));
    put(iseq + RUBY_ISEQ_BODY, body);
    memcpy(memory + body, &type, sizeof type);
    memcpy(memory + body + 4, &(uint32_t){5}, 4);
    put(body + 8, CODE + 0x100 * (uint64_t)i);
    put(body + 64, PATH);
    put(body + 72, put_string(base));
    put(body + 80, put_string(label));
    put(body + 88, thread.place.is_first_value ? NUMBER(10) : 10);
    put(body + thread.place.lines, LINES);
    put(body + thread.place.lines + 16, 3);
    put(body + thread.place.lines + 24, TABLE);
    put(body + thread.place.local, local);
}

static void put_class(uint64_t at, bool is_singleton, uint64_t value)
{
    put(at, is_singleton ? 0x1002 : 2);
    switch (thread.place.classes) {
    case RUBY_CLASS_FIELD: put(at + (is_singleton ? 128 : 152), value); break;
    case RUBY_CLASS_VALUES:
        put(at + 32, VARIABLES + is_singleton * 64);
        put(VARIABLES + is_singleton * 64, value);
        break;
    default:
        put(at + 24, EXTENSION + is_singleton * 128);
        put(EXTENSION + is_singleton * 128 + 8, EXTENSION + is_singleton * 128 + 16);
        put(EXTENSION + is_singleton * 128 + 16 + 40, 2); /* bound: one is deleted */
        put(EXTENSION + is_singleton * 128 + 16 + 48, VARIABLES + is_singleton * 64);
        put(VARIABLES + is_singleton * 64, UINT64_MAX);
        put(VARIABLES + is_singleton * 64 + 32, 0xff0 & (uint64_t)CLASS_NAME << 4);
        put(VARIABLES + is_singleton * 64 + 40, value);
    }
}

/* Symbols by number: those below 512 in one part. */
static void put_symbol(uint32_t number, const char *text)
{
    put(SYMBOLS + 16, SYMBOLS + 64);
    put(SYMBOLS + 64, 0x07 | 1u << 13);
    put(SYMBOLS + 64 + 16, SYMBOLS + 128);
    put(SYMBOLS + 128, 0x07);
    put(SYMBOLS + 128 + 16, 1024);
    put(SYMBOLS + 128 + 32, SYMBOLS + 256);
    put(SYMBOLS + 256 + 16 * (uint64_t)number, put_string(text));
}

static void begin(uint32_t version)
{
    memset(memory, 0, sizeof memory);
    memset(&thread, 0, sizeof thread);
    reads = n_strings = 0;
    on_read = NULL;
    ck_assert_int_eq(ruby_layout(&thread.place, version), 0);
    thread.place.exec = EXEC;
    thread.place.core = CORE;
    thread.place.exec_size = thread.place.core_size = 0x100;
    thread.place.symbols = SYMBOLS;
    put_iseq(ISEQ, 0, 1, "sell", "sell", ISEQ);
    put_iseq(BLOCK, 1, 2, "block in sell", "sell", ISEQ);
    put_iseq(MAIN, 2, 0, "<main>", "<main>", MAIN);
    put(PATH, 0x07 | 1u << 13);
    put(PATH + 16, put_string("shop.rb"));
    put(PATH + 24, put_string("/srv/a-rather-long-name/shop.rb"));
    put(ENTRY, IMEMO(RUBY_IMEMO_ENTRY));
    put(ENTRY + 16, METHOD);
    put(ENTRY + 32, CLASS);
    put(METHOD + 8, ISEQ);
    put(C_ENTRY, IMEMO(RUBY_IMEMO_ENTRY));
    put(C_ENTRY + 16, C_METHOD);
    put(C_ENTRY + 32, SINGLETON);
    put(C_METHOD, 1);
    put(C_METHOD + 32, (uint64_t)METHOD_C << 4 | 0x1000);
    put_symbol(CLASS_NAME, "__classpath__");
    put_symbol(METHOD_C + 256, "open"); /* 0x1000 >> 4 */
    put_class(CLASS, false, put_string("Great::Shop"));
    put_class(SINGLETON, true, CLASS);
    put(CLASS + 8, SINGLETON);
    /* Of five instructions the second begins an entry, and the fourth. */
    static const uint32_t lines[] = {11, 12, 13};
    for (uint32_t i = 0; i < 3; i++)
        memcpy(memory + LINES + i * thread.place.line_size, &lines[i], sizeof *lines);
    put(TABLE, 1 | 2 << 7 | 2 << 14 | 3 << 21 | 3ull << 28);
    if (version < 30) {
        thread.place.current = 64;
        put(64, CONTEXT);
        put(CONTEXT + thread.place.thread, CONTEXT + 256);
        put(CONTEXT + 256 + thread.place.thread_id, THREAD);
    } else {
        thread.place.context = (struct context_place){.how = CONTEXT_STATIC, .offset = -8};
        put(THREAD - 8, CONTEXT);
    }
    put(CONTEXT, STACK);
    put(CONTEXT + 8, 0x100);
    put(CONTEXT + 16, STACK + 0x800);
}

static uint32_t n_frames;

/* The next frame towards the root; its environment has `method` and `parent`. Where that is. */
static uint64_t put_frame(uint64_t iseq, uint64_t code, uint32_t flags, uint64_t method, uint64_t parent)
{
    uint64_t at = STACK + 0x800 - thread.place.frame * (uint64_t)(n_frames + 1);
    /* Written from the root on, as they are called. */
    n_frames++;
    uint64_t ep = STACK + 0x20 * (uint64_t)n_frames;
    put(at, code);
    put(at + 16, iseq);
    put(at + 32, ep);
    put(ep - 16, method);
    put(ep - 8, parent);
    put(ep, flags);
    put(CONTEXT + 16, at);
    return ep;
}

#define MARKED (RUBY_FRAME_FINISH)

/* <main> calls sell, whose block C calls, which calls sell again. */
static void put_frames(void)
{
    n_frames = 0;
    put(CONTEXT + 8, 0x100);
    put_frame(MAIN, CODE + 0x200, RUBY_FRAME_KIND_NONE | MARKED | RUBY_FRAME_LOCAL, 0, 0);
    put_frame(MAIN, CODE + 0x200 + 8, 0x77770000 | MARKED | RUBY_FRAME_LOCAL, 0, 0);
    uint64_t own = put_frame(ISEQ, CODE + 8 * 3, 0x11110000 | RUBY_FRAME_LOCAL, ENTRY, 0);
    put_frame(0, 0, RUBY_FRAME_KIND_C | RUBY_FRAME_C | RUBY_FRAME_LOCAL, C_ENTRY, 0);
    put_frame(BLOCK, CODE + 0x100 + 8, 0x22220000 | MARKED, 0, own | 1);
    put_frame(ISEQ, CODE + 8 * 5, 0x11110000 | RUBY_FRAME_LOCAL, SVAR, 0);
    put(SVAR, IMEMO(RUBY_IMEMO_SVAR));
    put(SVAR + 8, ENTRY);
}

static struct arena text;

static const char *name_of(const struct sample_frame *word)
{
    struct source s = all();
    struct runtime_name name;
    if (!ruby_method_name(&s, &thread.place, word, &text, &name))
        return NULL;
    return arena_printf(&text, "%.*s %.*s:%u", (int)name.name.n, name.name.p, (int)name.file.n, name.file.p,
                        name.line);
}

/* Goes on at an address as the kernel side does: the names of the words told there. */
static const char *step(uint64_t address, bool is_return)
{
    const char *told = "";
    for (int did = STEP_TAKEN; did == STEP_TAKEN;) {
        struct sample_frame word;
        did = ruby_walk_on(&thread, address, is_return, &word);
        if (did == STEP_NATIVE)
            return NULL;
        if (word.kind == SAMPLE_FRAME_WORD)
            told = arena_printf(&text, "%s(%s)", told, name_of(&word));
    }
    return told;
}

static const uint32_t versions[] = {27, 30, 31, 32, 33};
#define SHOP " /srv/a-rather-long-name/shop.rb:"

UNIT(each_call_of_rb_vm_exec_is_the_methods_that_it_runs)
{
    for (uint32_t i = 0; i < ARRAY_LEN(versions); i++) {
        begin(versions[i]);
        put_frames();
        ck_assert_ptr_null(step(0x5000, false)); /* something else */
        ck_assert_str_eq(step(CORE + 0x10, false), "");
        ck_assert_str_eq(step(EXEC + 0x10, true),
                         "(Great::Shop#sell" SHOP "13)(block in Great::Shop#sell" SHOP "11)");
        ck_assert_ptr_null(step(0x5000, true));
        ck_assert_str_eq(step(CORE + 0x20, true), "");
        ck_assert_str_eq(step(EXEC + 0x10, true),
                         "(Great::Shop.open :0)(Great::Shop#sell" SHOP "12)(<main>" SHOP "11)");
        /* What it begins with is no method; and behind that is nothing. */
        ck_assert_str_eq(step(EXEC + 0x10, true), "");
        ck_assert_ptr_null(step(EXEC + 0x10, true));
        arena_release(&text);
    }
}

UNIT(a_call_that_is_not_there_yet_is_told_with_the_one_below)
{
    begin(31);
    put_frames();
    put_frame(BLOCK, CODE + 0x100, 0x22220000 | MARKED, 0, 0);
    /* Where it is there, it is told by itself. */
    ck_assert_str_eq(step(CORE, false), "");
    ck_assert_str_eq(step(EXEC, true), "(block in sell" SHOP "11)");
    memset(&thread.walk, 0, sizeof thread.walk);
    ck_assert_str_eq(step(CORE, true), "");
    ck_assert_str_eq(step(EXEC, true), "(block in sell" SHOP "11)(Great::Shop#sell" SHOP
                                       "13)(block in Great::Shop#sell" SHOP "11)");
    arena_release(&text);
}

UNIT(another_threads_context_is_not_ours)
{
    begin(27);
    put_frames();
    put(CONTEXT + 256 + thread.place.thread_id, THREAD + 8);
    ck_assert_ptr_null(step(EXEC, true));
    begin(31);
    put_frames();
    put(THREAD - 8, 0); /* none */
    ck_assert_ptr_null(step(EXEC, true));
    put(THREAD - 8, ~0ull << 20); /* nowhere */
    memset(&thread.walk, 0, sizeof thread.walk);
    ck_assert_ptr_null(step(EXEC, true));
    arena_release(&text);
}

UNIT(who_collects_garbage_says_so)
{
    begin(31);
    put_frames();
    thread.place.vm = 128;
    thread.place.heap = 8;
    thread.place.collects = 16;
    thread.place.collects_bit = 5;
    put(128, 0x100);
    put(0x108, 0x200);
    put(0x210, 1 << 5);
    put(CONTEXT + thread.place.thread, 0x300);
    put(0x300 + thread.place.ractor, 0x400);
    put(0x400 + thread.place.running, CONTEXT);
    ck_assert_str_eq(step(CORE, true), "((garbage collection) :0)");
    ck_assert_str_eq(step(EXEC, true), "(Great::Shop#sell" SHOP "13)(block in Great::Shop#sell" SHOP "11)");
    memset(&thread.walk, 0, sizeof thread.walk);
    ck_assert_str_eq(step(CORE, false), ""); /* it runs instructions */
    memset(&thread.walk, 0, sizeof thread.walk);
    put(0x400 + thread.place.running, CONTEXT + 8); /* another one does */
    ck_assert_str_eq(step(CORE, true), "");
    arena_release(&text);
}

/* The word of the leaf of put_frames(). */
static struct sample_frame leaf(void)
{
    struct sample_frame word;
    memset(&thread.walk, 0, sizeof thread.walk);
    ck_assert_int_eq(ruby_walk_on(&thread, EXEC, true, &word), STEP_TAKEN);
    ck_assert_int_eq(word.kind, SAMPLE_FRAME_WORD);
    return word;
}

static void free_it(void)
{
    if (reads > 12)
        put(BODY + 80, STRING);
}

UNIT(what_was_freed_is_not_named)
{
    begin(33);
    put_frames();
    struct sample_frame word = leaf();
    ck_assert_str_eq(name_of(&word), "Great::Shop#sell" SHOP "13");
    static const uint64_t changed[] = {ISEQ, ISEQ + RUBY_ISEQ_BODY, BODY + 8, BODY + 80, ENTRY + 16};
    for (uint32_t i = 0; i < ARRAY_LEN(changed); i++) {
        uint64_t was;
        memcpy(&was, memory + changed[i], sizeof was);
        put(changed[i], was + 0x1040);
        ck_assert_ptr_null(name_of(&word));
        put(changed[i], was);
    }
    ck_assert_ptr_nonnull(name_of(&word));
    reads = 0;
    on_read = free_it; /* while its name is read */
    ck_assert_ptr_null(name_of(&word));
    arena_release(&text);
}

UNIT(a_class_that_has_no_name_is_left_out)
{
    for (uint32_t i = 0; i < ARRAY_LEN(versions); i++) {
        begin(versions[i]);
        put_frames();
        struct sample_frame word = leaf();
        put_class(CLASS, false, 0);
        ck_assert_str_eq(name_of(&word), "sell" SHOP "13");
        put_class(CLASS, false, put_string("#<Class:0x01234567>"));
        ck_assert_str_eq(name_of(&word), "sell" SHOP "13");
        put(ENTRY + 32, SINGLETON);
        put(CLASS, 1); /* an object's */
        word = leaf();
        ck_assert_str_eq(name_of(&word), "sell" SHOP "13");
        arena_release(&text);
    }
}

UNIT(names_are_utf_8_whatever_they_were)
{
    begin(31);
    put_frames();
    put(BODY + 72, put_string("gr\xf6\xdf\xc3\x9f"));
    put(BODY + 80, put_string("gr\xf6\xdf\xc3\x9f"));
    struct sample_frame word = leaf();
    ck_assert_str_eq(name_of(&word),
                     "Great::Shop#gr" BYTES_REPLACEMENT BYTES_REPLACEMENT "\xc3\x9f" SHOP "13");
    arena_release(&text);
}

UNIT(a_frame_costs_little_whatever_is_in_memory)
{
    /* Each environment is in itself, each class made of itself. */
    begin(31);
    put_frames();
    uint64_t own = put_frame(ISEQ, CODE, 0x11110000, 0, 0);
    put(own - 8, own);
    struct sample_frame word = leaf();
    ck_assert_str_eq(name_of(&word), "sell" SHOP "11");
    begin(31);
    put_frames();
    word = leaf();
    put_class(CLASS, true, CLASS);
    put(CLASS + 8, CLASS);
    reads = 0;
    ck_assert_str_eq(name_of(&word), "sell" SHOP "13");
    ck_assert_uint_lt(reads, 200);
    /* A table without an end, of which each entry has to be looked at. */
    put_class(CLASS, false, STRING);
    put(EXTENSION + 16 + 40, UINT64_MAX);
    put(EXTENSION + 16 + 48, 0x100);
    reads = 0;
    (void)name_of(&word);
    ck_assert_uint_lt(reads, 3000);
    arena_release(&text);
}

UNIT(generated_code_returns_to_ruby)
{
    uint64_t stack[RUBY_STACK_WORDS] = {EXEC + 0x900, 1, 2}; /* registers, whatever they are */
    struct unwind_registers at = {.ip = 0x777, .sp = 0x1000, .bp = 5, .has_all = 1};
    begin(33);
    thread.place.code = EXEC;
    thread.place.code_size = 0x1000;
    ck_assert(!ruby_leave_generated(&thread.place, stack, &at));
    ck_assert_uint_eq(at.sp, 0x1000);
    stack[5] = EXEC + 0x800;
    stack[6] = EXEC + 0x801;
    ck_assert(ruby_leave_generated(&thread.place, stack, &at));
    ck_assert_uint_eq(at.ip, EXEC + 0x800);
    ck_assert_uint_eq(at.sp, 0x1000 + 6 * 8);
    ck_assert_uint_eq(at.bp, 5);
    ck_assert(at.is_return && !at.has_all);
}

UNIT(an_instruction_that_is_not_the_iseqs_is_not_looked_for)
{
    /* As generated code leaves it: of what had the frame before. */
    begin(33);
    put_frames();
    struct sample_frame word = leaf();
    word.extra = 6; /* of five */
    ck_assert_str_eq(name_of(&word), "Great::Shop#sell" SHOP "10");
    arena_release(&text);
}

UNIT(other_versions_are_not_known)
{
    struct ruby_place place;
    ck_assert_int_eq(ruby_layout(&place, 26), RUNTIME_NOT_KNOWN);
    ck_assert_int_eq(ruby_layout(&place, RUBY_LAST + 1), RUNTIME_NOT_KNOWN);
}
