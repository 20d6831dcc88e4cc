/* SPDX-License-Identifier: Apache-2.0 */
/* Erlang stacks by the step that the kernel runs, in memory made by hand, and past them in user space. */
#include "tests/lib/unit.h"

#include "sender/runtimes/runtime.h"
#include "tests/unit/sender/runtimes/made_memory.h"

struct thread {
    struct beam_place *place;
    struct beam_walk *walk;
    struct unwind_registers at;
};
static struct thread thread;

enum {
    SHARED = 0x4000, /* begins with process_main */
    MAIN_SIZE = 0x400,
    SHARED_SIZE = 0x1000,
    EXIT = 0x4f00,
    TEXT = 0x6000,
    ROOT = 0x6100, /* process_main was called there */
    CALLED = 0x6800,
    TEXT_SIZE = 0x1000,
    CODE = 0x8000, /* a module's */
    STACK = 0xa000,
    BASE = 0xc000, /* the scheduler's registers */
    THREAD = 0xd000,
    SCHEDULER = 0xe000,
    PROCESS = 0xe200,
    FRAME = 0x100,
    REGISTERS = 0x40,
    STOP = 0x50,
    VALUE = 0x1f
};

#define RUNTIME_READ(to, n, address) step_read(to, n, address)
#define RUNTIME_THREAD()             (uint64_t) THREAD
#define STEP_HANDLE                  struct thread *
#define STEP_PART                    static int
#define STEP_OPEN(name, handle)                                           \
    __attribute__((unused)) struct beam_walk *w = (handle)->walk;         \
    __attribute__((unused)) const struct beam_place *p = (handle)->place; \
    __attribute__((unused)) struct unwind_registers *r = &(handle)->at
#include "bpf/beam_step.h"

static struct beam_walk walk;
static struct beam_place place;
static uint64_t told[128];
static uint32_t n_told;
static struct sample_frame last;

/* A call that returns to `back`. */
static void put_call(uint64_t back, uint64_t to)
{
    put(back - 8, (to - back) << 32 | 0xe8ull << 24);
}

static void begin(void)
{
    memset(memory, 0, sizeof memory);
    memset(&walk, 0x55, sizeof walk);
    walk.is_inside = 0;
    place = (struct beam_place){.main = SHARED,
                                .main_size = MAIN_SIZE,
                                .shared = SHARED,
                                .shared_size = SHARED_SIZE,
                                .text = TEXT,
                                .text_size = TEXT_SIZE,
                                .call = CALLED,
                                .exit = EXIT,
                                .frame = FRAME,
                                .registers = REGISTERS,
                                .stop = STOP};
    thread = (struct thread){.place = &place, .walk = &walk};
    put(BASE + FRAME + 8, TEXT + 0x40); /* a pointer to a function, which nothing has called */
    put(BASE + FRAME + 40, ROOT);
    put_call(ROOT, CALLED);
    for (uint64_t i = 0; i < 5; i++)
        put(CODE + 8 * i, 0x90909090);
}

/* Where an Erlang stack is: two frames, with values between. */
static void put_stack(void)
{
    static const uint64_t words[] = {VALUE, CODE + 0x104, VALUE, VALUE, CODE + 0x204, EXIT};
    memcpy(memory + STACK, words, sizeof words);
}

/* What the thread's keys say; one that has itself at its beginning is no scheduler. */
static void put_scheduler(void)
{
    put(THREAD + BEAM_SPECIFIC + 16 + 8, BASE + 64);
    put(BASE + 64, BASE + 64);
    put(THREAD + BEAM_SPECIFIC + 16 * 4 + 8, SCHEDULER);
    put(SCHEDULER + BEAM_SCHEDULER_REGISTERS, BASE);
    put(SCHEDULER + BEAM_SCHEDULER_PROCESS, PROCESS);
    put(PROCESS + STOP, STACK);
}

static void in_code(uint64_t ip)
{
    thread.at = (struct unwind_registers){.ip = ip, .sp = STACK, .has_all = 1};
    thread.at.all[BEAM_REGISTERS] = BASE + REGISTERS;
}

static void has_called_c(uint64_t back)
{
    thread.at = (struct unwind_registers){.ip = back, .sp = BASE, .is_return = 1, .bp = 0x77};
}

static void goes_back_by_process(uint64_t back)
{
    static const uint8_t code[] = {0x90, 0x49, 0x8b, 0x65, STOP};
    memcpy(memory + back, code, sizeof code);
}

static void goes_back_by_rbp(uint64_t back)
{
    static const uint8_t code[] = {0x90, 0x90, 0x48, 0x89, 0xec};
    memcpy(memory + back, code, sizeof code);
}

/* All steps that there are; the first one's answer. */
static int walk_on(bool is_ahead)
{
    uint64_t address = thread.at.ip - thread.at.is_return;
    int first = -1;
    n_told = 0;
    for (int i = 0; i < 200 && (i == 0 || walk.is_inside); i++) {
        int did = beam_walk_on(&thread, address, is_ahead);
        first = i ? first : did;
        last = walk.word;
        if (walk.word.kind == SAMPLE_FRAME_WORD && walk.word.where)
            told[n_told++] = walk.word.where;
    }
    ck_assert(!walk.is_inside);
    return first;
}

#define CHECK_TOLD(...)                                        \
    do {                                                       \
        const uint64_t want[] = {__VA_ARGS__};                 \
        ck_assert_uint_eq(n_told, sizeof want / sizeof *want); \
        for (uint32_t i_ = 0; i_ < n_told; i_++)               \
            ck_assert_uint_eq(told[i_], want[i_]);             \
    } while (0)

static void check_left(void)
{
    ck_assert_uint_eq(thread.at.ip, ROOT);
    ck_assert_uint_eq(thread.at.sp, BASE + FRAME + 48);
    ck_assert(thread.at.is_return && thread.at.bp_lost && !thread.at.has_all);
}

UNIT(code_has_its_callers_by_their_return_addresses)
{
    begin();
    put_stack();
    in_code(CODE + 0x10);
    ck_assert_int_eq(walk_on(false), STEP_TAKEN);
    CHECK_TOLD(CODE + 0x10, CODE + 0x103, CODE + 0x203);
    check_left();
}

/* An offset in bits, a multiple of 8 as that of a byte is. */
UNIT(numbers_that_are_near_to_nothing_are_no_return_addresses)
{
    begin();
    put_stack();
    put(STACK, 1ull << 45 | 8);
    put(STACK + 16, ~0ull << 46);
    in_code(CODE + 0x10);
    walk_on(false);
    CHECK_TOLD(CODE + 0x10, CODE + 0x103, CODE + 0x203);
    check_left();
}

/* `n` frames of `size` words each, that return to the same place, below those of put_stack. */
static void put_recursion(uint32_t n, uint32_t size)
{
    static const uint64_t words[] = {VALUE, CODE + 0x104, CODE + 0x204, EXIT};
    for (uint32_t i = 0; i < n * size; i++)
        put(STACK + 8 * i, i % size == size - 1 ? CODE + 0x304 : VALUE);
    memcpy(memory + STACK + 8 * n * size, words, sizeof words);
}

/* Both ends of it, and that it is one. */
UNIT(recursion_is_told_as_such)
{
    static const uint32_t sizes[] = {1, 2, 3, 5, 16};
    for (uint32_t k = 0; k < 5; k++)
        for (uint32_t n = BEAM_AGAIN - 1; n < 980 / sizes[k] && n < 300; n += k == 1 ? 1 : 7) {
            begin();
            put_recursion(n, sizes[k]);
            in_code(CODE + 0x10);
            walk_on(false);
            bool is_much = n > BEAM_AGAIN;
            uint32_t same = is_much ? BEAM_AGAIN : n;
            ck_assert_uint_eq(n_told, 1 + same + is_much + 2);
            for (uint32_t i = 0; i < same; i++)
                ck_assert_uint_eq(told[1 + i], CODE + 0x303);
            ck_assert(!is_much || told[1 + same] == BEAM_RECURSION);
            ck_assert_uint_eq(told[n_told - 2], CODE + 0x103);
            ck_assert_uint_eq(told[n_told - 1], CODE + 0x203);
            check_left();
        }
}

/* Frames of one return address have one size: what is between is none of them. */
UNIT(what_comes_between_is_told)
{
    begin();
    put_recursion(200, 2);
    put(STACK + 8 * 301, CODE + 0x404);
    in_code(CODE + 0x10);
    walk_on(false);
    ck_assert_uint_eq(n_told, 1 + BEAM_AGAIN + 1 + 1 + 49 + 2);
    ck_assert_uint_eq(told[BEAM_AGAIN + 2], CODE + 0x403);
    ck_assert_uint_eq(told[BEAM_AGAIN + 3], CODE + 0x303);
    check_left();
}

/* As while the kernel clears the page that a call is about to write to. */
UNIT(a_page_that_is_not_there_yet_has_nothing_in_it)
{
    begin();
    static const uint64_t words[] = {VALUE, CODE + 0x104, VALUE, CODE + 0x204, EXIT};
    memcpy(memory + STACK + 4096, words, sizeof words);
    in_code(CODE + 0x10);
    thread.at.sp = STACK + 4000;
    absent = STACK;
    ck_assert_int_eq(walk_on(false), STEP_TAKEN);
    CHECK_TOLD(CODE + 0x10, CODE + 0x103, CODE + 0x203);
    check_left();
    in_code(CODE + 0x10); /* below it there would be something */
    put(STACK + 4088, CODE + 0x104);
    thread.at.sp = STACK + 4000;
    absent = STACK + 4096;
    walk_on(false);
    ck_assert_uint_eq(thread.at.ip, 0);
    absent = ~0ull;
}

UNIT(a_word_has_what_is_there)
{
    begin();
    put_stack();
    put(CODE + 0x200, 4711);
    in_code(CODE + 0x10);
    beam_walk_on(&thread, CODE + 0x10, 0);
    beam_walk_on(&thread, CODE + 0x10, 0);
    beam_walk_on(&thread, CODE + 0x10, 0);
    ck_assert_uint_eq(walk.word.where, CODE + 0x203);
    ck_assert_uint_eq(walk.word.file, BEAM_COOKIE(4711));
}

UNIT(shared_code_may_be_called_at_any_place)
{
    begin();
    put_stack();
    put(STACK, CODE + 0x303);
    put_call(CODE + 0x303, SHARED + 0x800);
    in_code(SHARED + 0x810);
    ck_assert_int_eq(walk_on(false), STEP_TAKEN);
    CHECK_TOLD(SHARED + 0x810, CODE + 0x302, CODE + 0x103, CODE + 0x203);
    put_call(CODE + 0x303, TEXT); /* it is a value */
    in_code(SHARED + 0x810);
    walk_on(false);
    CHECK_TOLD(SHARED + 0x810, CODE + 0x103, CODE + 0x203);
}

UNIT(what_has_called_c_goes_back_by_its_process)
{
    begin();
    put_stack();
    put_scheduler();
    has_called_c(CODE + 0x311);
    goes_back_by_process(CODE + 0x311);
    ck_assert_int_eq(walk_on(false), STEP_TAKEN);
    CHECK_TOLD(CODE + 0x310, CODE + 0x103, CODE + 0x203);
    check_left();
    has_called_c(SHARED + 0x811); /* of shared code nothing is told */
    goes_back_by_process(SHARED + 0x811);
    walk_on(false);
    CHECK_TOLD(CODE + 0x103, CODE + 0x203);
}

UNIT(what_makes_a_binary_goes_back_far_behind)
{
    begin();
    put_stack();
    put_scheduler();
    has_called_c(CODE + 0x311);
    goes_back_by_process(CODE + 0x311 + BEAM_BEHIND - 4);
    ck_assert_int_eq(walk_on(false), STEP_TAKEN);
    CHECK_TOLD(CODE + 0x310, CODE + 0x103, CODE + 0x203);
    has_called_c(CODE + 0x311);
    memset(memory + CODE + 0x311, 0, BEAM_BEHIND);
    goes_back_by_process(CODE + 0x311 + BEAM_BEHIND); /* too far */
    ck_assert_int_eq(walk_on(false), STEP_NATIVE);
}

UNIT(or_by_rbp)
{
    begin();
    put_stack();
    has_called_c(CODE + 0x311);
    goes_back_by_rbp(CODE + 0x311);
    thread.at.bp = STACK;
    ck_assert_int_eq(walk_on(false), STEP_TAKEN);
    CHECK_TOLD(CODE + 0x310, CODE + 0x103, CODE + 0x203);
    has_called_c(CODE + 0x311);
    thread.at.bp_lost = 1;
    ck_assert_int_eq(walk_on(false), STEP_NATIVE);
    has_called_c(CODE + 0x321); /* who knows how? */
    ck_assert_int_eq(walk_on(false), STEP_NATIVE);
}

UNIT(who_called_process_main_has_its_frame_pointer_as_c_s_part_of_that_has_pushed_it)
{
    enum { PUSHED = BASE + FRAME + 32, POINTER = BASE + FRAME + 0x80 };
    begin();
    put_stack();
    put(PUSHED, POINTER);
    put(POINTER + 8, TEXT + 0x320);
    in_code(CODE + 0x10);
    walk_on(false);
    ck_assert_uint_eq(thread.at.ip, ROOT);
    ck_assert_uint_eq(thread.at.bp, POINTER);
    ck_assert(!thread.at.bp_lost);

    static const uint64_t no_pointers[] = {VALUE, POINTER + 4, PUSHED + 8, BASE, BASE + 0x1000000};
    for (uint32_t i = 0; i < sizeof no_pointers / 8; i++) {
        put(PUSHED, no_pointers[i]);
        in_code(CODE + 0x10);
        walk_on(false);
        check_left();
    }
    put(PUSHED, POINTER);
    put(POINTER + 8, VALUE); /* no frame */
    in_code(CODE + 0x10);
    walk_on(false);
    check_left();
}

UNIT(the_scheduler_s_own_code_has_no_erlang_stack)
{
    begin();
    has_called_c(SHARED + 0x90);
    ck_assert_int_eq(walk_on(false), STEP_TAKEN);
    ck_assert_uint_eq(n_told, 0);
    check_left();
}

UNIT(frame_pointers_are_no_return_addresses)
{
    enum { ABOVE = STACK + 0x800 }; /* code that is further up than the stack */
    static const uint64_t words[] = {VALUE, STACK + 0x40, CODE + 0x104,  VALUE, VALUE, VALUE, VALUE,
                                     VALUE, STACK + 0x78, ABOVE + 0x200, VALUE, VALUE, VALUE, VALUE,
                                     VALUE, STACK + 0x88, ABOVE + 0x304, 0,     EXIT};
    begin();
    place.has_pointers = 1;
    place.exit = ABOVE + 0x400;
    memcpy(memory + STACK, words, sizeof words);
    put(STACK + 8 * 18, place.exit);
    put(ABOVE + 0x200, 0xf0458b48f8458b48);
    put(ABOVE + 0x400, 0x9090909000008ce8);
    in_code(CODE + 0x10);
    ck_assert_int_eq(walk_on(false), STEP_TAKEN);
    CHECK_TOLD(CODE + 0x10, CODE + 0x103, ABOVE + 0x1ff, ABOVE + 0x303);
    check_left();
}

UNIT(the_stack_may_end_where_memory_does)
{
    begin();
    put(sizeof memory - 24, CODE + 0x104);
    put(sizeof memory - 16, VALUE);
    put(sizeof memory - 8, EXIT);
    in_code(CODE + 0x10);
    thread.at.sp = sizeof memory - 32;
    walk_on(false);
    CHECK_TOLD(CODE + 0x10, CODE + 0x103);
    check_left();
}

/* Where a walk ends in C. */
static void ends_in_c(uint64_t back)
{
    thread.at = (struct unwind_registers){.ip = TEXT + 0x500, .sp = BASE - 0x200, .bp = STACK};
    put(BASE - 8, back);
}

static bool step(struct unwind_registers *at, const struct sample_frame *ahead, struct sample_frame *word)
{
    struct runtime_place of = {0};
    struct source source = all();
    struct runtime_process process = {.memory = &source, .place = &of, .ahead = ahead, .offset = 1};
    memcpy(of.word, &place, sizeof place);
    return runtime_beam.step(&process, NULL, at, word);
}

UNIT(ahead_of_the_walk_the_stack_is_told_and_user_space_goes_past_it)
{
    struct sample_frame word, wrong;
    begin();
    put_stack();
    put_scheduler();
    goes_back_by_process(CODE + 0x311);
    ends_in_c(CODE + 0x311);
    walk_on(true);
    CHECK_TOLD(CODE + 0x310, CODE + 0x103, CODE + 0x203);
    ck_assert(last.kind == SAMPLE_FRAME_WORD && !last.where && walk.next == 0);
    ck_assert_uint_eq(thread.at.ip, TEXT + 0x500); /* it is as it was */

    has_called_c(CODE + 0x311);
    ck_assert(!step(&thread.at, NULL, &word));
    ck_assert(!step(&thread.at, &(struct sample_frame){.where = 1, .file = last.file}, &word)); /* no end */
    wrong = last;
    wrong.file++;
    ck_assert(!step(&thread.at, &wrong, &word));
    ck_assert(step(&thread.at, &last, &word));
    ck_assert(word.kind == SAMPLE_FRAME_WORD && !word.where);
    check_left();
    ck_assert(!step(&thread.at, &last, &word)); /* C's own */
}

UNIT(what_was_guessed_ahead_is_checked)
{
    struct sample_frame word;
    begin();
    put_stack();
    put_scheduler();
    goes_back_by_rbp(SHARED + 0x811);
    ends_in_c(SHARED + 0x811);
    walk_on(true);
    CHECK_TOLD(CODE + 0x103, CODE + 0x203);
    has_called_c(SHARED + 0x811);
    ck_assert(!step(&thread.at, &last, &word)); /* rbp was another's */
    thread.at.bp = STACK;
    thread.at.bp_lost = 1;
    ck_assert(!step(&thread.at, &last, &word));
    thread.at.bp_lost = 0;
    ck_assert(step(&thread.at, &last, &word));
    check_left();
}

UNIT(the_scheduler_s_own_code_is_gone_past_likewise)
{
    struct sample_frame word;
    begin();
    put_scheduler();
    put(SCHEDULER + BEAM_SCHEDULER_PROCESS, 0);
    ends_in_c(SHARED + 0x91);
    walk_on(true);
    ck_assert_uint_eq(n_told, 0);
    has_called_c(SHARED + 0x91);
    ck_assert(step(&thread.at, &last, &word));
    check_left();
}

UNIT(what_ends_a_process_has_no_erlang_stack)
{
    struct sample_frame word;
    begin();
    put_stack();
    put_scheduler();
    place.exit = CODE + 0x300;
    goes_back_by_process(CODE + 0x311);
    has_called_c(CODE + 0x311);
    ck_assert_int_eq(walk_on(false), STEP_TAKEN);
    ck_assert_uint_eq(n_told, 0);
    check_left();
    ends_in_c(CODE + 0x311);
    walk_on(true);
    ck_assert_uint_eq(n_told, 0);
    has_called_c(CODE + 0x311);
    ck_assert(step(&thread.at, &last, &word));
    check_left();
}

UNIT(nothing_is_told_ahead_of_what_no_scheduler_runs)
{
    begin();
    put_stack();
    ends_in_c(CODE + 0x311);
    ck_assert_int_eq(walk_on(true), STEP_NATIVE);
    ck_assert(last.kind == SAMPLE_FRAME_KERNEL && walk.next == 0);
    put_scheduler();
    thread.at.sp = BASE + 8; /* it is below: the walk has been there */
    ck_assert_int_eq(walk_on(true), STEP_NATIVE);
    ck_assert(last.kind == SAMPLE_FRAME_KERNEL && walk.next == 0);
}

UNIT(a_stack_that_lies_ends)
{
    begin();
    in_code(CODE + 0x10);
    thread.at.sp = 0x7f0000000000; /* where nothing is */
    ck_assert_int_eq(walk_on(false), STEP_TAKEN);
    ck_assert_uint_eq(thread.at.ip, 0);
    begin();
    put_stack();
    put(BASE + FRAME + 40, 0); /* nobody has called process_main */
    in_code(CODE + 0x10);
    walk_on(false);
    ck_assert_uint_eq(thread.at.ip, 0);
    begin();
    in_code(CODE + 0x10);
    thread.at.all[BEAM_REGISTERS] = 7;
    ck_assert_int_eq(walk_on(false), STEP_NATIVE);
}
