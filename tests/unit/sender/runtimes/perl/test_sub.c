/* SPDX-License-Identifier: Apache-2.0 */
/* Names of subroutines, out of memory made by hand; and frames, by the step that the kernel runs. */
#include "tests/lib/unit.h"

#include "sender/runtimes/perl/sub.h"
#include "tests/unit/sender/runtimes/made_memory.h"

struct thread {
    struct perl_place place;
    struct perl_walk *walk;
};
static struct thread thread;

#define THREAD                       0xf000u
#define RUNTIME_READ(to, n, address) step_read(to, n, address)
#define RUNTIME_THREAD()             THREAD
#define STEP_HANDLE                  struct thread *
#define STEP_PART                    static int
#define STEP_OPEN(name, handle)                                   \
    __attribute__((unused)) struct perl_walk *w = (handle)->walk; \
    __attribute__((unused)) const struct perl_place *p = &(handle)->place
#include "bpf/perl_step.h"

static struct perl_walk walk;

#define LOOP      0x400000u
#define KEY       0x100u
#define INTERPRET 0x200u
#define STACKS    0x400u /* 0x800 each */
#define OBJECTS   0x4000u
#define COPS      0xc000u
#define OP        0xe000u

#define ENTERSUB  0xb8u
#define NEXTSTATE 0xc3u
#define REQUIRE   0x156u

static uint64_t objects, n_stacks, n_cops;

static uint64_t object(size_t n)
{
    uint64_t at = objects;
    objects += (n + 15) & ~15ull;
    ck_assert(objects < COPS);
    return at;
}

static void begin(void)
{
    memset(memory, 0, sizeof memory);
    walk = (struct perl_walk){0};
    thread = (struct thread){.walk = &walk,
                             .place = {.start = {LOOP},
                                       .size = {0x100},
                                       .key = KEY,
                                       .op = 8,
                                       .cop = 16,
                                       .stack = 24,
                                       .catches = 32,
                                       .entersub = ENTERSUB,
                                       .nextstate = NEXTSTATE,
                                       .require = REQUIRE,
                                       .version = {5, 36, 0}}};
    put(KEY, 3);
    put(THREAD + CPYTHON_TSD_FIRST + 16 * 3 + 8, INTERPRET);
    put(INTERPRET + 8, OP);
    put(OP + PERL_COP_FROM, 1);
    objects = OBJECTS;
    n_stacks = n_cops = reads = 0;
    on_read = NULL;
}

static uint64_t name(const char *text)
{
    uint64_t at = object(16 + strlen(text));
    put(at, 0x12345678ull | (uint64_t)strlen(text) << 32);
    strcpy((char *)memory + at + PERL_NAME_TEXT, text);
    return at;
}

static uint64_t sv(uint64_t type, uint64_t body)
{
    uint64_t at = object(24);
    put(at, body);
    put(at + 8, type << 32 | 1);
    return at;
}

static uint64_t package(const char *text)
{
    uint64_t body = object(0x60);
    put(body + 0x20, name(text));
    return sv(0x0200000c, body);
}

static uint64_t glob(const char *text, uint64_t of)
{
    uint64_t body = object(0x40);
    put(body + PERL_GLOB_FROM, name(text));
    put(body + PERL_GLOB_FROM + 8, of);
    return sv(9, body);
}

static uint64_t code(uint64_t package, uint64_t named, uint64_t flags)
{
    uint64_t body = object(0x68);
    put(body + PERL_CODE_FROM, package);
    put(body + PERL_CODE_FROM + 8 * PERL_CODE_GLOB, named);
    put(body + PERL_CODE_FROM + 8 * PERL_CODE_FLAGS, flags << 32);
    return sv(13, body);
}

static uint64_t sub(const char *of, const char *text)
{
    return code(0, glob(text, package(of)), 0);
}

/* A statement. */
static uint64_t cop(const char *file, uint64_t line)
{
    uint64_t at = COPS + 64 * n_cops++, path = object(strlen(file) + 9);
    strcpy((char *)memory + path, file);
    put(at + PERL_COP_FROM, NEXTSTATE | line << 32);
    put(at + PERL_COP_FROM + 8 * PERL_COP_FILE, path);
    return at;
}

/* On top of those there are. */
static void stack(void)
{
    uint64_t at = STACKS + 0x800 * n_stacks++;
    put(at + 8, at + 0x40);
    put(at + 16, n_stacks > 1 ? at - 0x800 : 0);
    put(at + 32, 0xffffffff);
    put(INTERPRET + 24, at);
}

/* A context on top; made by a statement on the line, and what returns or does not. */
static uint64_t context(uint64_t type, uint64_t line, bool returns, uint64_t of)
{
    uint64_t info = get(INTERPRET + 24), n = (uint32_t)(get(info + 32) + 1),
             at = info + 0x40 + n * PERL_CONTEXT_BYTES;
    put(info + 32, n);
    put(at, type);
    put(at + 8 * PERL_CONTEXT_COP, cop("/srv/a.pl", line));
    put(at + 8 * PERL_CONTEXT_RETURN, returns ? OP : 0);
    put(at + 8 * PERL_CONTEXT_CODE, of);
    return at;
}

static void at_line(uint64_t line)
{
    put(INTERPRET + 16, cop("/srv/a.pl", line));
}

static int step(uint64_t sp)
{
    return perl_walk_on(&thread, LOOP + 8, sp);
}

static bool name_of(const struct sample_frame *word, struct runtime_name *ret, char text[4096])
{
    struct source s = all();
    struct arena arena = {0};
    bool found = perl_sub_name(&s, &thread.place, word, &arena, ret);
    snprintf(text, 4096, "%.*s %.*s:%u", found ? (int)ret->name.n : 0, found ? (const char *)ret->name.p : "",
             found ? (int)ret->file.n : 0, found ? (const char *)ret->file.p : "", found ? ret->line : 0);
    arena_release(&arena);
    return found;
}

/* What the next step tells at the loop. */
static const char *told_at(int did, uint64_t sp)
{
    static char text[4096];
    struct runtime_name ret = {0};
    ck_assert_int_eq(step(sp), did);
    if (walk.word.kind != SAMPLE_FRAME_WORD)
        return "";
    ck_assert(name_of(&walk.word, &ret, text));
    return text;
}
#define told(did) told_at(did, 0)

UNIT(a_call_of_the_loop_has_contexts_down_to_the_one_that_returns_nowhere)
{
    begin();
    stack();
    context(PERL_TYPE_SUB, 10, true, sub("main", "run"));
    context(2, 11, true, 0); /* a block */
    context(PERL_TYPE_EVAL | (uint64_t)REQUIRE << 23, 12, true, 0);
    stack();
    context(PERL_TYPE_EVAL | PERL_EVAL_BLOCK, 20, false, 0); /* of who calls from C */
    context(PERL_TYPE_SUB, 21, false, sub("Some::Class", "DESTROY"));
    context(PERL_TYPE_EVAL | PERL_EVAL_BLOCK, 22, true, 0);
    context(PERL_TYPE_EVAL | PERL_EVAL_TRY, 23, true, 0);
    context(PERL_TYPE_FORMAT, 24, true, code(package("Lexical"), name("named"), 0x8000));
    at_line(25);
    ck_assert_int_eq(perl_walk_on(&thread, LOOP + 0x1000, 0), STEP_NATIVE); /* it is elsewhere */
    ck_assert(!walk.is_begun);
    ck_assert_str_eq(told(STEP_TAKEN), "Lexical::named /srv/a.pl:25");
    ck_assert_str_eq(told(STEP_TAKEN), "(eval) /srv/a.pl:24");
    ck_assert_str_eq(told(STEP_LAST), "Some::Class::DESTROY /srv/a.pl:22");
    ck_assert_int_eq(perl_walk_on(&thread, LOOP + 0x1000, 0), STEP_NATIVE);
    ck_assert_str_eq(told(STEP_TAKEN), "require /srv/a.pl:21");
    ck_assert_str_eq(told(STEP_TAKEN), "main::run /srv/a.pl:12");
    ck_assert_str_eq(told(STEP_LAST), "<main> /srv/a.pl:10");
    ck_assert_str_eq(told(STEP_NATIVE), ""); /* there is no more */
}

UNIT(one_that_is_being_called_is_not_there_before_its_first_statement)
{
    begin();
    stack();
    context(PERL_TYPE_SUB, 10, true, sub("main", "run"));
    uint64_t top = context(PERL_TYPE_SUB, 11, true, sub("main", "called"));
    put(INTERPRET + 16, get(top + 8 * PERL_CONTEXT_COP));
    put(OP + PERL_COP_FROM, ENTERSUB);
    put(OP, OP); /* what is behind it */
    ck_assert_str_eq(told(STEP_TAKEN), "main::run /srv/a.pl:11");
    ck_assert_str_eq(told(STEP_LAST), "<main> /srv/a.pl:10");
    walk = (struct perl_walk){0};
    put(OP + PERL_COP_FROM, NEXTSTATE); /* it comes to that */
    ck_assert_str_eq(told(STEP_TAKEN), "main::run /srv/a.pl:11");
    walk = (struct perl_walk){0};
    put(OP + PERL_COP_FROM, ENTERSUB);
    put(OP, OP + 8); /* it calls something itself, in a statement that it was called by as well */
    ck_assert_str_eq(told(STEP_TAKEN), "main::called /srv/a.pl:11");
    walk = (struct perl_walk){0};
    put(top + 8 * PERL_CONTEXT_CODE, sub("main", "x") - 8); /* what is there is no subroutine's yet */
    ck_assert_str_eq(told(STEP_TAKEN), "main::run /srv/a.pl:11");
}

/* A list is gone through in C, which calls `block` for each element. */
static void listing(uint64_t block)
{
    begin();
    stack();
    context(PERL_TYPE_SUB, 10, true, sub("main", "run"));
    stack();
    context(block, 11, false, sub("main", "__ANON__"));
    at_line(12);
}

UNIT(between_two_elements_a_callback_has_no_call_of_its_own)
{
    listing(PERL_TYPE_SUB);
    ck_assert_str_eq(told(STEP_LAST), "main::__ANON__ /srv/a.pl:12");
    ck_assert_str_eq(told(STEP_TAKEN), "main::run /srv/a.pl:11");
    listing(PERL_TYPE_SUB);
    put(INTERPRET + 8, 0);
    ck_assert_str_eq(told(STEP_TAKEN), "main::__ANON__ /srv/a.pl:12");
    ck_assert_str_eq(told(STEP_TAKEN), "main::run /srv/a.pl:11");
    ck_assert_str_eq(told(STEP_LAST), "<main> /srv/a.pl:10");
}

UNIT(a_block_that_sort_calls_has_its_statement_in_the_subroutine_around)
{
    static const uint64_t kinds[] = {PERL_TYPE_SORT, PERL_TYPE_DEFER, PERL_TYPE_SUB | PERL_SUB_PATTERN};
    for (size_t i = 0; i < 3; i++) {
        listing(kinds[i]);
        ck_assert_str_eq(told(STEP_PASSED), "");
        ck_assert_str_eq(told(STEP_TAKEN), "main::run /srv/a.pl:12");
        ck_assert_str_eq(told(STEP_LAST), "<main> /srv/a.pl:10");
    }
}

UNIT(what_a_block_calls_last_is_of_the_block_s_call)
{
    static const uint64_t kinds[] = {PERL_TYPE_SORT, PERL_TYPE_SUB | PERL_SUB_PATTERN | PERL_SUB_CALLED};
    for (size_t i = 0; i < 2; i++) {
        listing(kinds[i]);
        context(PERL_TYPE_SUB, 13, false, sub("main", "compare"));
        ck_assert_str_eq(told(STEP_TAKEN), "main::compare /srv/a.pl:12");
        ck_assert_str_eq(told(STEP_PASSED), "");
        ck_assert_str_eq(told(STEP_TAKEN), "main::run /srv/a.pl:13");
    }
}

UNIT(an_eval_goes_on_with_a_call_in_one_of_its_own)
{
    listing(PERL_TYPE_SUB);
    put(INTERPRET + 32, 0x8000); /* what waits for exceptions, up the stack */
    put(0x8000, 0x8400);
    ck_assert_str_eq(told_at(STEP_LAST, 0x7000), "main::__ANON__ /srv/a.pl:12");
    ck_assert_str_eq(told_at(STEP_PASSED, 0x8200), "");
    ck_assert_str_eq(told_at(STEP_TAKEN, 0x8300), "main::run /srv/a.pl:11");
    listing(PERL_TYPE_SUB);
    put(STACKS + 0x800 + 0x40 + 8 * PERL_CONTEXT_RETURN, OP);
    put(STACKS + 0x800 + 0x40, PERL_TYPE_EVAL | PERL_EVAL_BLOCK);
    put(STACKS + 0x800 + 0x40 + 8 * PERL_CONTEXT_RETURN, 0);
    context(PERL_TYPE_SUB, 13, false, sub("main", "called"));
    put(INTERPRET + 32, 0x8000); /* it is who calls that waits */
    ck_assert_str_eq(told_at(STEP_LAST, 0x7000), "main::called /srv/a.pl:12");
    ck_assert_str_eq(told_at(STEP_TAKEN, 0x8200), "main::run /srv/a.pl:13");
    listing(PERL_TYPE_SUB);
    put(INTERPRET + 32, 0x8000);
    put(0x8000, 0x8000); /* for itself */
    ck_assert_str_eq(told_at(STEP_LAST, 0x7000), "main::__ANON__ /srv/a.pl:12");
    ck_assert_str_eq(told_at(STEP_PASSED, 0x8200), "");
}

UNIT(of_an_evaluated_text_the_line_is_said)
{
    begin();
    stack();
    context(PERL_TYPE_EVAL, 10, true, 0);
    put(INTERPRET + 16, cop("(eval 17)", 70000));
    ck_assert_str_eq(told(STEP_TAKEN), "(eval) (eval):70000");
    struct sample_frame word = walk.word;
    begin();
    stack();
    context(PERL_TYPE_EVAL, 10, true, 0);
    put(INTERPRET + 16, cop("(eval 1700)", 70000)); /* the same text once more */
    ck_assert_str_eq(told(STEP_TAKEN), "(eval) (eval):70000");
    ck_assert_mem_eq(&word, &walk.word, sizeof word);
}

UNIT(what_is_being_compiled_has_no_place)
{
    begin();
    stack();
    context(PERL_TYPE_EVAL | (uint64_t)REQUIRE << 23, 10, true, 0);
    at_line(5);
    put(get(INTERPRET + 16) + PERL_COP_FROM, 5ull << 32);
    ck_assert_str_eq(told(STEP_TAKEN), "require :0");
}

UNIT(without_threads_files_are_globs)
{
    begin();
    thread.place.key = 0;
    thread.place.op = INTERPRET + 8;
    thread.place.cop = INTERPRET + 16;
    thread.place.stack = INTERPRET + 24;
    thread.place.catches = INTERPRET + 32;
    stack();
    at_line(10);
    uint64_t at = get(INTERPRET + 16);
    put(at + PERL_COP_FROM + 8 * PERL_COP_FILE, glob("_</srv/b.pl", 0));
    ck_assert_str_eq(told(STEP_LAST), "<main> /srv/b.pl:10");
}

static void free_statement(void)
{
    if (reads > 4)
        put(walk.at + PERL_COP_FROM, 99ull << 32);
}

static void free_sub(void)
{
    if (reads > 12)
        memset(memory + OBJECTS, 0x11, COPS - OBJECTS);
}

UNIT(another_one_in_its_memory_has_not_its_name)
{
    char text[4096];
    struct runtime_name ret;
    begin();
    stack();
    uint64_t of = glob("f", package("A"));
    context(PERL_TYPE_SUB, 10, true, code(0, of, 0));
    at_line(11);
    ck_assert_str_eq(told(STEP_TAKEN), "A::f /srv/a.pl:11");
    struct sample_frame word = walk.word;
    on_read = free_statement; /* then its place is not known */
    reads = 0;
    ck_assert(name_of(&word, &ret, text));
    ck_assert_str_eq(text, "A::f :0");
    on_read = free_sub;
    reads = 0;
    ck_assert(!name_of(&word, &ret, text));
    ck_assert(!name_of(&word, &ret, text));
}

/* As Sub::Util's set_subname frees it, which Moose calls for each call of a method with modifiers. */
UNIT(one_whose_name_is_gone_still_is_where_it_is)
{
    char text[4096];
    struct runtime_name ret;
    begin();
    stack();
    uint64_t of = glob("f", package("A"));
    context(PERL_TYPE_SUB, 10, true, code(0, of, 0));
    at_line(11);
    ck_assert_str_eq(told(STEP_TAKEN), "A::f /srv/a.pl:11");
    put(of, glob("other", package("B")));
    ck_assert(name_of(&walk.word, &ret, text));
    ck_assert_str_eq(text, "__ANON__ /srv/a.pl:11");
}

UNIT(names_are_utf8_however_perl_has_them)
{
    begin();
    stack();
    context(PERL_TYPE_SUB, 10, true,
            sub("main", "Gr\xf6\xdf"
                        "e")); /* Latin-1 */
    context(PERL_TYPE_SUB, 11, true,
            sub("main", "Gr\xc3\xb6\xc3\x9f"
                        "e"));
    at_line(12);
    ck_assert_str_eq(told(STEP_TAKEN), "main::Größe /srv/a.pl:12");
    ck_assert_str_eq(told(STEP_TAKEN), "main::Größe /srv/a.pl:11");
}

UNIT(a_package_s_name_is_where_its_version_has_it)
{
    begin();
    thread.place.version[1] = 34; /* behind its array */
    uint64_t array = object(0x80), body = object(0x20), of = sv(0x0200000c, body), names = object(16);
    put(of + 16, array);
    put(body + 0x18, 7);
    put(array + 64, names); /* one of two names */
    put(array + 64 + 0x18, 2ull << 32);
    put(names, name("Alias"));
    stack();
    context(PERL_TYPE_SUB, 10, true, code(0, glob("f", of), 0));
    at_line(11);
    ck_assert_str_eq(told(STEP_TAKEN), "Alias::f /srv/a.pl:11");
    walk = (struct perl_walk){0};
    put(of + 8, 0x0cull << 32 | 1); /* a package that is gone */
    ck_assert_str_eq(told(STEP_TAKEN), "__ANON__::f /srv/a.pl:11");
}

UNIT(with_musl_a_thread_has_its_keys_elsewhere)
{
    begin();
    stack();
    context(PERL_TYPE_SUB, 10, true, sub("main", "run"));
    at_line(25);
    thread.place.has_musl = 1;
    ck_assert_int_eq(step(0), STEP_NATIVE); /* as glibc has them */
    uint64_t values = object(8 * 8), key = 0;
    memcpy(&key, memory + KEY, 4);
    put(THREAD + CPYTHON_TSD_MUSL, values);
    put(values + 8 * key, INTERPRET);
    walk = (struct perl_walk){0};
    ck_assert_str_eq(told(STEP_TAKEN), "main::run /srv/a.pl:25");
}

UNIT(stacks_in_a_circle_come_to_no_end_of_their_own)
{
    begin();
    stack();
    at_line(10);
    put(STACKS + 16, STACKS);
    for (int i = 0; i < 100; i++)
        ck_assert_str_eq(told(STEP_TAKEN), "");
    put(INTERPRET + 24, 0); /* none at all */
    walk = (struct perl_walk){0};
    ck_assert_str_eq(told(STEP_NATIVE), "");
    put(KEY, CPYTHON_TSD_KEYS);
    walk = (struct perl_walk){0};
    ck_assert_str_eq(told(STEP_NATIVE), "");
}
