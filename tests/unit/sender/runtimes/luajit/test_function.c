/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions, out of memory made by hand; and frames, by the step that the kernel runs. */
#include "tests/lib/unit.h"

#include "sender/runtimes/luajit/function.h"
#include "sender/runtimes/runtime.h"
#include "tests/unit/sender/runtimes/made_memory.h"

struct thread {
    struct luajit_place place;
    struct luajit_walk *walk;
    struct unwind_registers at;
};
static struct thread thread;

#define RUNTIME_READ(to, n, address) step_read(to, n, address)
#define STEP_HANDLE                  struct thread *
#define STEP_PART                    static int
#define STEP_OPEN(name, handle)                                              \
    __attribute__((unused)) struct luajit_walk *w = (handle)->walk;          \
    __attribute__((unused)) const struct luajit_place *p = &(handle)->place; \
    __attribute__((unused)) struct unwind_registers *r = &(handle)->at
#include "bpf/luajit_step.h"

static struct luajit_walk walk;

#define CODE    0x100u /* the interpreter's */
#define STATE   0x400u
#define OTHER   0x500u
#define GLOBAL  0x600u
#define OBJECTS 0x1000u
#define STACK   0x8000u
#define OTHERS  0xa000u
#define FRAME   0xc000u

#define DISPATCH   0x100u
#define TRACE_BASE 0x40u

/* Instructions. */
#define AD(op, a, d)     ((uint32_t)(op) | (uint32_t)(a) << 8 | (uint32_t)(d) << 16)
#define ABC(op, a, b, c) (AD(op, a, c) | (uint32_t)(b) << 24)
#define FUNCF(slots)     AD(89, slots, 0)
#define MOV              18
#define UGET             45
#define GGET             54
#define TGETS            57
#define CALL             66
#define ITERC            69
#define ADDVV            32

static uint64_t objects, top;

static uint64_t object(size_t n)
{
    uint64_t at = objects;
    objects += (n + 15) & ~15ull;
    ck_assert(objects < STACK);
    return at;
}

static void put_state(uint64_t at, uint64_t stack)
{
    put(at + 8, 0x010600);
    put(at + 0x10, GLOBAL);
    put(at + 0x30, stack + 0x2000);
    put(at + 0x38, stack);
}

static void begin(void)
{
    memset(memory, 0, sizeof memory);
    memset(&walk, 0x55, sizeof walk);
    walk.is_begun = walk.tries = 0;
    walk.is_inside = 0;
    thread = (struct thread){.walk = &walk,
                             .place = {CODE, 0x100, DISPATCH, TRACE_BASE, ""},
                             .at = {.ip = CODE + 8, .sp = FRAME, .is_return = 1}};
    objects = OBJECTS;
    put_state(STATE, STACK);
    put_state(OTHER, OTHERS);
    top = STACK + 16;
    reads = 0;
    on_read = NULL;
}

/* A frame of the interpreter's; how many of them there are already. */
static void machine(uint64_t n, uint64_t state, uint64_t pc, uint64_t previous)
{
    uint64_t at = FRAME + LUAJIT_FRAME_BYTES * n;
    put(at + 16, state);
    put(at + 24, pc);
    put(at + 32, previous);
    if (!get(state + 0x50))
        put(state + 0x50, at);
}

static uint64_t text(const char *of)
{
    uint64_t at = object(25 + strlen(of));
    put(at + 16, (uint64_t)strlen(of) << 32);
    strcpy((char *)memory + at + 24, of);
    return at;
}

/* A prototype of n instructions, each on a line of its own, with constants. */
static uint64_t prototype(const char *chunk, uint32_t line, const uint32_t *code, uint32_t n,
                          const char *const *constants)
{
    uint32_t n_constants = 0;
    while (constants && constants[n_constants])
        n_constants++;
    uint64_t strings[4] = {0};
    for (uint32_t i = 0; i < n_constants; i++)
        strings[i] = text(constants[i]);
    uint64_t name = text(chunk), below = object(8 * n_constants), at = object(104 + 4 * n + 64),
             more = at + 104 + 4 * n;
    for (uint32_t i = 0; i < n_constants; i++)
        put(below + 8 * (n_constants - 1 - i), strings[i]);
    put(at + 8, 0x0700 | (uint64_t)n << 32);
    put(at + 32, below + 8 * n_constants);
    put(at + 48, n_constants);
    put(at + 56, 104 + 4 * n + 64);
    put(at + 64, name);
    put(at + 72, line | (uint64_t)n << 32);
    put(at + 80, more);
    put(at + 88, more + 16);
    memcpy(memory + at + 104, code, 4 * n);
    for (uint32_t i = 0; i < n; i++)
        memory[more + i] = (uint8_t)(i + 1);
    return at;
}

static uint64_t function(uint64_t prototype)
{
    uint64_t at = object(48);
    put(at + 8, prototype ? 0x0800 : 0x010800);
    put(at + 32, prototype + 104);
    return at;
}

/* Puts a frame on a stack, so many bytes above the one below. */
static void frame(uint64_t of, uint64_t link, uint64_t above)
{
    top += above;
    put(top - 16, 0x1fff7ull << 47 | of);
    put(top - 8, link);
}

static void state_at_top(uint64_t state)
{
    put(state + 0x20, top);
}

static bool name_of(const struct sample_frame *word, char to[512])
{
    struct source s = all();
    struct arena arena = {0};
    struct runtime_name ret = {0};
    bool found = luajit_function_name(&s, word, &arena, &ret);
    snprintf(to, 512, "%.*s %.*s:%u", (int)ret.name.n, (const char *)ret.name.p, (int)ret.file.n,
             (const char *)ret.file.p, ret.line);
    arena_release(&arena);
    return found;
}

/* What the next step tells in the interpreter. */
static const char *told(int did)
{
    static char ret[512];
    ck_assert_int_eq(luajit_walk_on(&thread, CODE + 7, 0), did);
    if (walk.word.kind != SAMPLE_FRAME_WORD)
        return "";
    ck_assert(name_of(&walk.word, ret));
    return ret;
}

/* As the unwinder does by its table. */
static void leave(void)
{
    thread.at.sp += LUAJIT_FRAME_BYTES;
    thread.at.has_all = 0;
}

/* main chunk, which calls `called` as the first of `constants`, a global; where it goes on in *pc. */
static uint64_t chunk(uint64_t *pc)
{
    static const uint32_t code[] = {FUNCF(4), AD(GGET, 0, 0), ABC(CALL, 0, 1, 1), ABC(CALL, 1, 1, 1)};
    static const char *const names[] = {"shop", NULL};
    uint64_t of = prototype("@/srv/a.lua", 0, code, 4, names);
    *pc = of + 104 + 12;
    return function(of);
}

/* One that calls what is in a field as well. */
static uint64_t caller(uint32_t line, uint64_t *pc)
{
    static const uint32_t code[] = {FUNCF(8), AD(UGET, 1, 1), ABC(TGETS, 0, 1, 0), AD(MOV, 4, 0),
                                    ABC(CALL, 4, 1, 1)};
    static const char *const names[] = {"sell", NULL};
    uint64_t of = prototype("@/srv/a.lua", line, code, 5, names);
    *pc = of + 104 + 20;
    return function(of);
}

static void two_segments(uint64_t *pc)
{
    uint64_t in_main, in_shop;
    frame(chunk(&in_main), 16 | LUAJIT_LINK_CP, 16);
    frame(caller(10, &in_shop), in_main, 16); /* shop */
    frame(function(0), in_shop, 16 + 8 * 4);  /* sell, in C */
    frame(caller(20, pc), 32 | LUAJIT_LINK_C, 32);
    state_at_top(STATE);
}

UNIT(a_call_of_the_interpreter_has_frames_down_to_the_one_that_c_has_called)
{
    uint64_t pc;
    begin();
    two_segments(&pc);
    machine(0, STATE, pc, FRAME + LUAJIT_FRAME_BYTES);
    machine(1, STATE, 0, 0);
    ck_assert_int_eq(luajit_walk_on(&thread, CODE + 0x1000, 0), STEP_NATIVE); /* it is elsewhere */
    ck_assert_str_eq(told(STEP_LAST), "<a.lua:20> /srv/a.lua:24");
    leave();
    ck_assert_str_eq(told(STEP_TAKEN), "sell :0");
    ck_assert_str_eq(told(STEP_TAKEN), "shop /srv/a.lua:14");
    ck_assert_str_eq(told(STEP_LAST), "main chunk /srv/a.lua:2");
    leave();
    ck_assert_str_eq(told(STEP_NATIVE), ""); /* there is no more */
}

UNIT(ahead_of_the_walk_frames_are_found_by_themselves)
{
    uint64_t pc;
    static const char *const words[] = {"<a.lua:20> /srv/a.lua:24", "sell :0", "shop /srv/a.lua:14",
                                        "main chunk /srv/a.lua:2"};
    char name[512];
    begin();
    two_segments(&pc);
    machine(0, STATE, pc, FRAME + LUAJIT_FRAME_BYTES);
    machine(1, STATE, 0, 0);
    thread.at.sp = FRAME - 5000; /* five times as much is looked through at once */
    thread.at.has_all = 1;
    int n = 0, did = STEP_TAKEN;
    for (int i = 0; i < 20 && (did != STEP_NATIVE || walk.base); i++) {
        did = luajit_walk_on(&thread, 0, 1);
        if (walk.word.kind != SAMPLE_FRAME_WORD)
            continue;
        ck_assert(n < 4 && name_of(&walk.word, name));
        ck_assert_str_eq(name, words[n++]);
    }
    ck_assert_int_eq(n, 4);
    ck_assert_int_eq(did, STEP_NATIVE);
    ck_assert_uint_eq(thread.at.sp, FRAME - 5000);
}

UNIT(registers_say_where_the_interpreter_is)
{
    uint64_t pc, other;
    begin();
    two_segments(&pc);
    put(STATE + 0x20, STACK + 16); /* long ago */
    machine(0, STATE, 0, 0);
    thread.at.has_all = 1;
    thread.at.all[LUAJIT_REGISTER_BASE] = top;
    thread.at.all[LUAJIT_REGISTER_PC] = pc - 4;
    ck_assert_str_eq(told(STEP_LAST), "<a.lua:20> /srv/a.lua:23");
    begin();
    two_segments(&pc);
    frame(caller(30, &other), pc, 16 + 8 * 4); /* it returns: its own function is overwritten */
    put(top - 16, 1);
    machine(0, STATE, 0, 0);
    thread.at.has_all = 1;
    thread.at.all[LUAJIT_REGISTER_BASE] = top;
    thread.at.all[LUAJIT_REGISTER_PC] = pc;
    ck_assert_str_eq(told(STEP_LAST), "<a.lua:20> /srv/a.lua:24");
    begin();
    two_segments(&pc);
    machine(0, STATE, 0, 0);
    put(STATE + 0x20, STACK + 16);
    thread.at.bp = top; /* kept there while C is called */
    ck_assert_str_eq(told(STEP_LAST), "<a.lua:20> /srv/a.lua:20");
}

UNIT(a_trace_s_frames_are_those_it_was_entered_at)
{
    uint64_t pc;
    begin();
    two_segments(&pc);
    put(STATE + 0x20, STACK + 16);
    put(GLOBAL + TRACE_BASE, top);
    machine(0, STATE, pc, 0);
    thread.at = (struct unwind_registers){.ip = 0x10, .sp = FRAME - 16 * 3};
    ck_assert_int_eq(luajit_generated(&thread), STEP_TAKEN);
    ck_assert_uint_eq(thread.at.ip, CODE);
    ck_assert_uint_eq(thread.at.sp, FRAME);
    ck_assert_str_eq(told(STEP_LAST), "<a.lua:20> /srv/a.lua:20");
    begin();
    ck_assert_int_eq(luajit_generated(&thread), STEP_NATIVE); /* somebody else's code */
}

static void coroutine(uint64_t *pc)
{
    uint64_t in_main, in_shop;
    begin();
    frame(chunk(&in_main), 16 | LUAJIT_LINK_CP, 16);
    frame(caller(10, &in_shop), in_main, 16);
    frame(function(0), in_shop, 16 + 8 * 4); /* resumes */
    state_at_top(STATE);
    top = OTHERS + 16;
    frame(caller(40, pc), 16 | LUAJIT_LINK_CP, 16);
    state_at_top(OTHER);
    machine(0, OTHER, *pc, 0);
    machine(1, STATE, 0, 0);
}

UNIT(a_coroutine_has_a_stack_of_its_own)
{
    uint64_t pc;
    coroutine(&pc);
    ck_assert_str_eq(told(STEP_LAST), "<a.lua:40> /srv/a.lua:44");
    leave();
    ck_assert_str_eq(told(STEP_TAKEN), "sell :0");
    ck_assert_str_eq(told(STEP_TAKEN), "shop /srv/a.lua:14");
    ck_assert_str_eq(told(STEP_LAST), "main chunk /srv/a.lua:2");
}

UNIT(what_runs_on_a_stack_above_a_coroutine_is_not_told_twice)
{
    uint64_t pc, own;
    coroutine(&pc);
    top = get(STATE + 0x20); /* called from the coroutine by somebody in C */
    frame(caller(50, &own), 32 | LUAJIT_LINK_C, 32);
    state_at_top(STATE);
    memset(memory + FRAME, 0, 0x400);
    put(STATE + 0x50, 0);
    put(OTHER + 0x50, 0);
    machine(0, STATE, own, FRAME + 2 * LUAJIT_FRAME_BYTES);
    machine(1, OTHER, pc, 0);
    machine(2, STATE, 0, 0);
    ck_assert_str_eq(told(STEP_LAST), "<a.lua:50> /srv/a.lua:54");
    leave();
    ck_assert_str_eq(told(STEP_LAST), "<a.lua:40> /srv/a.lua:44");
    leave();
    ck_assert_str_eq(told(STEP_TAKEN), "sell :0");
}

UNIT(what_c_runs_in_protected_mode_has_no_frames)
{
    uint64_t pc;
    begin();
    two_segments(&pc);
    machine(0, STATE, 0, FRAME + LUAJIT_FRAME_BYTES);
    put(FRAME + 8, 0xffffff00);
    machine(1, STATE, pc, 0);
    ck_assert_str_eq(told(STEP_NATIVE), "");
    leave();
    ck_assert_str_eq(told(STEP_LAST), "<a.lua:20> /srv/a.lua:24");
}

UNIT(links_say_how_it_goes_on)
{
    static const uint32_t add[] = {FUNCF(4), ABC(ADDVV, 0, 1, 2), 0};
    static const uint32_t each[] = {FUNCF(9), ABC(ITERC, 4, 3, 3), 0};
    uint64_t pc, in_main, adds, iterates;
    begin();
    frame(chunk(&in_main), 16 | LUAJIT_LINK_CP, 16);
    adds = prototype("=stdin", 5, add, 3, NULL);
    frame(function(adds), in_main, 16);
    iterates = prototype("return 1\n", 6, each, 3, NULL);
    frame(function(iterates), 64 | LUAJIT_LINK_CONTINUES, 64); /* __add */
    put(top - 32, 0x1000);
    put(top - 24, adds + 104 + 8);
    put(iterates + 96, iterates + 104 + 4 * 3 + 32); /* its local variables: */
    static const uint8_t variables[] = {'a', 0, 0, 1, 'b', 0, 0, 9, 4, 1, 5, 0};
    memcpy(memory + get(iterates + 96), variables, sizeof variables);
    uint64_t of = caller(70, &pc);
    frame(of, iterates + 104 + 8, 16 + 8 * 4);
    frame(of, 32 | LUAJIT_LINK_VARIABLE, 32); /* with arguments that vary */
    state_at_top(STATE);
    machine(0, STATE, pc, 0);
    ck_assert_str_eq(told(STEP_TAKEN), "(for generator) /srv/a.lua:74");
    ck_assert_str_eq(told(STEP_TAKEN), "__add [string \"return 1...\"]:7");
    ck_assert_str_eq(told(STEP_TAKEN), "shop stdin:6");
    ck_assert_str_eq(told(STEP_LAST), "main chunk /srv/a.lua:2");
}

struct end {
    uint8_t code[4];
    uint32_t room;
};

static void check_end(const struct end *end, bool is_callback)
{
    begin();
    thread.at.ip = CODE + 8;
    thread.at.has_all = 1;
    thread.at.is_return = 0;
    thread.at.bp = 77;
    memcpy(memory + CODE + 8, end->code, 4);
    put(FRAME + end->room - 8, 0x4711);
    if (end->room > 8)
        put(FRAME + end->room - 16, 78);
    int did = is_callback ? luajit_generated(&thread) : luajit_walk_on(&thread, CODE + 8, 0);
    ck_assert_int_eq(did, STEP_TAKEN);
    ck_assert_uint_eq(walk.word.kind, SAMPLE_FRAME_CODE);
    ck_assert_uint_eq(thread.at.ip, 0x4711);
    ck_assert_uint_eq(thread.at.sp, FRAME + end->room);
    ck_assert_uint_eq(thread.at.bp, end->room > 8 ? 78 : 77);
}

UNIT(the_first_and_last_instructions_have_no_frame)
{
    static const struct end ends[] = {{{0x55, 0x53, 0x41, 0x57}, 8},  {{0x53, 0x41, 0x57, 0x41}, 16},
                                      {{0x41, 0x57, 0x41, 0x56}, 24}, {{0x41, 0x56, 0x48, 0x83}, 32},
                                      {{0x48, 0x83, 0xec, 0x28}, 40}, {{0x41, 0x5e, 0x41, 0x5f}, 40},
                                      {{0x41, 0x5f, 0x5b, 0x5d}, 32}, {{0x5b, 0x5d, 0xc3, 0}, 24},
                                      {{0x5d, 0xc3, 0, 0}, 16},       {{0xc3, 0, 0, 0}, 8}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        check_end(&ends[i], false);
}

UNIT(what_c_calls_back_by_has_none_either)
{
    static const struct end ends[] = {{{0xb0, 1, 0xeb, 0x40}, 8}, {{0xeb, 0x40, 0xb0, 2}, 8},
                                      {{0x55, 0xb4, 0, 0x48}, 8}, {{0xb4, 0, 0x48, 0xbd}, 16},
                                      {{0x48, 0xbd, 1, 2}, 16},   {{0xff, 0x25, 3, 4}, 16}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        check_end(&ends[i], true);
}

static void free_all(void)
{
    if (reads > 2)
        memset(memory + OBJECTS, 0x11, STACK - OBJECTS);
}

UNIT(another_one_in_its_memory_has_not_its_name)
{
    uint64_t pc;
    char name[512];
    begin();
    frame(caller(20, &pc), 16 | LUAJIT_LINK_CP, 16);
    state_at_top(STATE);
    machine(0, STATE, pc, 0);
    ck_assert_str_eq(told(STEP_LAST), "<a.lua:20> /srv/a.lua:24");
    struct sample_frame word = walk.word;
    uint64_t at = LUAJIT_OBJECT(word.where);
    put(at + 72, get(at + 72) + 1);
    ck_assert(!name_of(&word, name));
    put(at + 72, get(at + 72) - 1);
    ck_assert(name_of(&word, name));
    on_read = free_all; /* and while it is read */
    reads = 0;
    ck_assert(!name_of(&word, name));
}

UNIT(another_caller_in_its_caller_s_memory_has_not_called_it)
{
    static const uint32_t code[] = {FUNCF(8), AD(MOV, 3, 1), ABC(CALL, 3, 1, 1)};
    static const uint8_t variables[] = {'k', 'e', 'y', 0, 0, 9, 'c', 'u', 't', 0, 0, 9, 0};
    uint64_t in_main, in_shop, pc;
    char name[512];
    begin();
    frame(chunk(&in_main), 16 | LUAJIT_LINK_CP, 16);
    uint64_t constant = get(get(in_main - 12 - 104 + 32) - 8);
    uint64_t shop = prototype("@/srv/a.lua", 10, code, 3, NULL);
    put(shop + 96, get(shop + 88) + 8);
    memcpy(memory + get(shop + 96), variables, sizeof variables);
    in_shop = shop + 104 + 12;
    frame(function(shop), in_main, 16);
    frame(caller(20, &pc), in_shop, 16 + 8 * 3);
    state_at_top(STATE);
    machine(0, STATE, pc, 0);
    ck_assert_str_eq(told(STEP_TAKEN), "cut /srv/a.lua:24");
    struct sample_frame cut = walk.word;
    ck_assert_str_eq(told(STEP_TAKEN), "shop /srv/a.lua:12");
    struct sample_frame of_constant = walk.word;
    memory[get(shop + 96) + 8] = 'p';
    ck_assert(!name_of(&cut, name)); /* "cup" */
    put(constant + 12, 77);          /* a string that is not the one there was */
    ck_assert(!name_of(&of_constant, name));
}

UNIT(a_stack_that_lies_ends)
{
    uint64_t pc;
    begin();
    frame(caller(20, &pc), ~0ull, 16); /* farther down than there is memory */
    state_at_top(STATE);
    machine(0, STATE, pc, 0);
    ck_assert_str_eq(told(STEP_NATIVE), "");
    begin();
    frame(caller(20, &pc), 0 | LUAJIT_LINK_C, 16); /* itself */
    state_at_top(STATE);
    machine(0, STATE, pc, 0);
    ck_assert_str_eq(told(STEP_NATIVE), "");
    begin();
    put(FRAME + 16, 8); /* a state where nothing is */
    ck_assert_str_eq(told(STEP_NATIVE), "");
}
