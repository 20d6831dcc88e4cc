/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions, out of memory made by hand; and frames, by the step that the kernel runs. */
#include "tests/lib/unit.h"

#include "sender/runtimes/php/function.h"
#include "tests/unit/sender/runtimes/made_memory.h"

#define RUNTIME_READ(to, n, address) step_read(to, n, address)
#include "bpf/php_step.h"

#define LOOP      0x400000u
#define CURRENT   0x100u
#define GENERATOR 0x108u /* where its class is said, which is at … */
#define CLASS     0x8888u
#define FRAMES    0x1000u
#define FUNCTIONS 0x4000u
#define STRINGS   0x8000u
#define OPLINES   0xc000u

static const struct php_place place = {.start = {LOOP},
                                       .size = {0x1000},
                                       .text = LOOP,
                                       .text_size = 0x10000,
                                       .body = LOOP + 16,
                                       .fiber = LOOP + 0x8000,
                                       .fiber_size = 32,
                                       .current = CURRENT,
                                       .generator_class = GENERATOR,
                                       .generator_frame = 56,
                                       .generator_parent = 152,
                                       .handler = 72,
                                       .file = 152};
static uint64_t n_strings, n_functions, n_frames;

static void begin(void)
{
    memset(memory, 0, sizeof memory);
    put(GENERATOR, CLASS);
    n_strings = n_functions = n_frames = reads = 0;
    on_read = NULL;
}

static uint64_t string(const char *text, size_t n)
{
    uint64_t at = STRINGS + 1024 * n_strings++;
    uint64_t hash = 5381;
    for (size_t i = 0; i < n; i++)
        hash = 33 * hash + (uint64_t)(int8_t)text[i];
    put(at + PHP_STRING_HASH_AT, hash | 1ull << 63);
    put(at + PHP_STRING_LENGTH_AT, n);
    memcpy(memory + at + PHP_STRING_TEXT_AT, text, n < 900 ? n : 900);
    return at;
}
#define STRING(text) string(text, sizeof(text) - 1)

static uint64_t class(uint64_t name)
{
    uint64_t at = FUNCTIONS + 256 * n_functions++;
    put(at + PHP_CLASS_NAME_AT, name);
    return at;
}

static uint64_t function(uint8_t type, uint64_t name, uint64_t scope, uint64_t file)
{
    uint64_t at = FUNCTIONS + 256 * n_functions++;
    memory[at] = type;
    put(at + 8 * PHP_FUNCTION_NAME, name);
    put(at + 8 * PHP_FUNCTION_SCOPE, scope);
    put(at + place.file, file);
    put(at + place.file + 8, 20ull << 32 | 10); /* lines 10 to 20 */
    return at;
}

/* A frame of it, below those there are; at line 15. */
static uint64_t frame(uint64_t of, uint32_t call)
{
    uint64_t at = FRAMES + 128 * n_frames++;
    if (n_frames == 1)
        put(CURRENT, at);
    else
        put(at - 128 + 8 * PHP_FRAME_PREVIOUS, at);
    put(at + 8 * PHP_FRAME_FUNCTION, of);
    put(at + 8 * PHP_FRAME_TYPE, call);
    put(at + 8 * PHP_FRAME_OPLINE, OPLINES);
    put(OPLINES + PHP_OPLINE_LINE_AT, 15);
    return at;
}

static struct php_walk walk;

static int step(uint64_t address)
{
    return php_walk_on(&place, &walk, address, 0, 0);
}

static bool name_of(const struct sample_frame *word, struct runtime_name *ret, char text[4096])
{
    struct source s = source_read_by(read_some, NULL, sizeof memory);
    struct arena arena = {0};
    bool found = php_function_name(&s, &place, word, &arena, ret);
    snprintf(text, 4096, "%.*s %.*s", found ? (int)ret->name.n : 0, found ? (const char *)ret->name.p : "",
             found ? (int)ret->file.n : 0, found ? (const char *)ret->file.p : "");
    arena_release(&arena);
    return found;
}

/* What the next step tells at the loop. */
static const char *told(int did)
{
    static char text[4096];
    struct runtime_name name = {0};
    ck_assert_int_eq(step(LOOP + 8), did);
    if (!walk.word.where)
        return "";
    ck_assert(name_of(&walk.word, &name, text));
    snprintf(text + strlen(text), 32, ":%u", name.line);
    return text;
}

UNIT(one_call_of_the_loop_has_frames_to_the_one_that_says_so)
{
    begin();
    walk = (struct php_walk){0};
    uint64_t file = STRING("/srv/a.php"), worker = class(STRING("App\\Worker"));
    frame(function(1, STRING("strlen"), 0, 0), 0);
    frame(function(2, STRING("method"), worker, file), 0);
    frame(function(2, STRING("{closure}"), 0, file), PHP_CALL_TOP | PHP_CALL_CLOSURE);
    frame(function(1, STRING("map"), worker, 0), 0);
    frame(function(4, 0, 0, STRING("/srv/a.php(3) : eval()'d code")), PHP_CALL_CODE);
    frame(function(2, 0, 0, STRING("/srv/b.php")), PHP_CALL_CODE);
    frame(function(2, STRING("name"), worker, file), PHP_CALL_CLOSURE | PHP_CALL_FAKE);
    frame(function(2, 0, 0, file), PHP_CALL_CODE | PHP_CALL_TOP);
    ck_assert_int_eq(step(LOOP + 0x2000), STEP_NATIVE); /* it is elsewhere */
    ck_assert(!walk.is_begun);
    ck_assert_str_eq(told(STEP_TAKEN), "strlen :0");
    ck_assert_str_eq(told(STEP_TAKEN), "App\\Worker::method /srv/a.php:15");
    ck_assert_str_eq(told(STEP_LAST), "{closure} /srv/a.php:15");
    ck_assert_int_eq(step(LOOP + 0x2000), STEP_NATIVE);
    ck_assert_str_eq(told(STEP_TAKEN), "App\\Worker::map :0");
    ck_assert_str_eq(told(STEP_TAKEN), "eval() /srv/a.php(3) : eval()'d code:15");
    ck_assert_str_eq(told(STEP_TAKEN), "/srv/b.php /srv/b.php:15");
    ck_assert_str_eq(told(STEP_TAKEN), "App\\Worker::name /srv/a.php:15");
    ck_assert_str_eq(told(STEP_LAST), "{main} /srv/a.php:15");
    ck_assert_str_eq(told(STEP_NATIVE), ""); /* there is no more */
}

UNIT(a_line_is_the_register_s_or_one_of_the_function)
{
    begin();
    uint64_t file = STRING("/srv/a.php"), at = frame(function(2, STRING("f"), 0, file), PHP_CALL_TOP);
    put(OPLINES + 32 + PHP_OPLINE_LINE_AT, 17);
    walk = (struct php_walk){0};
    ck_assert_int_eq(php_walk_on(&place, &walk, LOOP, at, OPLINES + 32), STEP_LAST);
    ck_assert_uint_eq(walk.word.extra, 17);
    walk = (struct php_walk){0};
    ck_assert_int_eq(php_walk_on(&place, &walk, LOOP, at + 8, OPLINES + 32), STEP_LAST);
    ck_assert_uint_eq(walk.word.extra, 15);
    put(OPLINES + PHP_OPLINE_LINE_AT, 21); /* another function's */
    walk = (struct php_walk){0};
    ck_assert_int_eq(step(LOOP), STEP_LAST);
    ck_assert_uint_eq(walk.word.extra, 10);
    put(at, 8); /* nowhere */
    walk = (struct php_walk){0};
    ck_assert_int_eq(step(LOOP), STEP_LAST);
    ck_assert_uint_eq(walk.word.extra, 10);
    put(FUNCTIONS + place.file + 8, UINT64_MAX << 32 | 0x10000); /* too large for a word */
    walk = (struct php_walk){0};
    ck_assert_int_eq(step(LOOP), STEP_LAST);
    ck_assert_uint_eq(walk.word.extra, PHP_NO_LINE);
}

/* `n` generators, the last of which runs, and the others wait for the next one each. */
static void delegate(uint64_t n)
{
    begin();
    uint64_t file = STRING("/srv/a.php"), objects = 0xe000;
    char name[] = "a";
    for (uint64_t i = 0; i < n; i++, name[0]++) {
        uint64_t of = function(2, string(name, 1), 0, file);
        put(objects + 192 * i + PHP_OBJECT_CLASS, CLASS);
        put(objects + 192 * i + place.generator_frame, frame(of, PHP_CALL_TOP));
        put(objects + 192 * i + place.generator_parent, i + 1 < n ? objects + 192 * (i + 1) : 0);
    }
    uint64_t runs = FRAMES + 128 * (n - 1), asked = frame(0, PHP_OBJECT),
             main = frame(function(2, 0, 0, file), PHP_CALL_TOP);
    put(CURRENT, runs);
    put(runs + 8 * PHP_FRAME_PREVIOUS, asked);
    put(asked + 8 * PHP_FRAME_THIS, objects);
    put(main + 8 * PHP_FRAME_TYPE, PHP_CALL_TOP | PHP_CALL_CODE);
    walk = (struct php_walk){0};
}

UNIT(generators_that_wait_for_others_are_told)
{
    delegate(4);
    ck_assert_str_eq(told(STEP_LAST), "d /srv/a.php:15");
    ck_assert_str_eq(told(STEP_TAKEN), ""); /* who was asked stands for all */
    ck_assert_str_eq(told(STEP_TAKEN), ""); /* the one that runs */
    ck_assert_str_eq(told(STEP_TAKEN), "c /srv/a.php:15");
    ck_assert_str_eq(told(STEP_TAKEN), "b /srv/a.php:15");
    ck_assert_str_eq(told(STEP_TAKEN), "a /srv/a.php:15");
    ck_assert_str_eq(told(STEP_LAST), "{main} /srv/a.php:15");
    delegate(4);
    put(GENERATOR, CLASS + 8); /* objects of another class */
    ck_assert_str_eq(told(STEP_LAST), "d /srv/a.php:15");
    ck_assert_str_eq(told(STEP_TAKEN), "");
    ck_assert_str_eq(told(STEP_LAST), "{main} /srv/a.php:15");
    delegate(4);
    put(0xe000 + 192 * 3 + place.generator_parent, 0xe000); /* in a circle */
    ck_assert_str_eq(told(STEP_LAST), "d /srv/a.php:15");
    ck_assert_str_eq(told(STEP_TAKEN), "");
    ck_assert_str_eq(told(STEP_TAKEN), "");
    ck_assert_str_eq(told(STEP_LAST), "{main} /srv/a.php:15");
}

#define HANDLER 0x500000u

/* A callback's frame, that of who calls it, and the function that called that. */
static uint64_t call_back(uint32_t type)
{
    begin();
    walk = (struct php_walk){0};
    uint64_t file = STRING("/srv/a.php"), of = function(1, STRING("map"), 0, 0);
    put(of + place.handler, HANDLER);
    uint64_t back = frame(function(2, STRING("f"), 0, file), type);
    frame(of, 0);
    frame(function(2, STRING("g"), 0, file), PHP_CALL_TOP);
    return back;
}

UNIT(a_callback_s_frame_is_not_told_before_it_is_entered)
{
    call_back(PHP_CALL_TOP);
    ck_assert_str_eq(told(STEP_LAST), "f /srv/a.php:15");
    ck_assert_str_eq(told(STEP_TAKEN), "map :0");
    call_back(PHP_CALL_TOP);
    walk.is_begun = PHP_CALLED;
    walk.called = HANDLER - 100; /* what the loop has called is map, and that has not called it yet */
    ck_assert_str_eq(told(STEP_TAKEN), "map :0");
    ck_assert_str_eq(told(STEP_LAST), "g /srv/a.php:15");
    call_back(PHP_CALL_TOP);
    walk.is_begun = PHP_CALLED;
    walk.called = HANDLER + 2 * PHP_HANDLER_NEAR; /* something else */
    ck_assert_str_eq(told(STEP_LAST), "f /srv/a.php:15");
    call_back(PHP_CALL_TOP | PHP_CALL_GENERATOR);
    walk.is_begun = PHP_CALLED;
    walk.called = HANDLER;
    ck_assert_str_eq(told(STEP_LAST), "f /srv/a.php:15");
}

UNIT(ahead_of_the_walk_a_callback_s_frame_is_told_with_who_has_called_it)
{
    call_back(PHP_CALL_TOP);
    walk.is_begun = PHP_AHEAD;
    walk.called = HANDLER; /* this is where the walk has ended, and not what the loop has called */
    ck_assert_str_eq(told(STEP_LAST), "f /srv/a.php:15");
    ck_assert_uint_eq(walk.caller, HANDLER);
    ck_assert(PHP_IS_OF(walk.caller, HANDLER - 100));
    ck_assert(!PHP_IS_OF(walk.caller, HANDLER + 2 * PHP_HANDLER_NEAR));
    call_back(0);
    walk.is_begun = PHP_AHEAD;
    ck_assert_str_eq(told(STEP_TAKEN), "f /srv/a.php:15");
    ck_assert_uint_eq(walk.caller, 0);
}

UNIT(a_callback_s_frame_is_told_until_it_is_left)
{
    uint64_t back = call_back(PHP_CALL_TOP);
    put(CURRENT, back + 128);
    ck_assert_int_eq(php_walk_on(&place, &walk, LOOP, back, 0), STEP_LAST);
    ck_assert_str_eq(told(STEP_TAKEN), "map :0");
    call_back(PHP_CALL_TOP);
    put(CURRENT, back + 128);
    walk.is_begun = PHP_CALLED;
    walk.called = HANDLER; /* it is being made: its frame is in the registers already */
    ck_assert_int_eq(php_walk_on(&place, &walk, LOOP, back, 0), STEP_TAKEN);
    ck_assert_str_eq(told(STEP_LAST), "g /srv/a.php:15");
    call_back(0); /* a function that the first one has called itself */
    put(CURRENT, back + 128);
    ck_assert_int_eq(php_walk_on(&place, &walk, LOOP, back, 0), STEP_TAKEN);
    ck_assert_str_eq(told(STEP_LAST), "g /srv/a.php:15");
}

UNIT(the_machine_s_frames_that_no_table_knows)
{
    struct unwind_registers at = {.ip = 0x7000000, .bp = 0x1234, .is_return = 1};
    ck_assert_int_eq(php_enter(&place, &at), PHP_COMPILED);
    ck_assert(at.ip == place.body && !at.is_return && at.bp == 0x1234);
    ck_assert_int_eq(php_enter(&place, &at), PHP_OTHER);
    at.ip = place.fiber;
    ck_assert_int_eq(php_enter(&place, &at), PHP_LEAF);
    at.ip = place.fiber + place.fiber_size;
    ck_assert_int_eq(php_enter(&place, &at), PHP_OTHER);
    at.is_return = 1;
    at.bp_lost = 1;
    ck_assert_int_eq(php_enter(&place, &at), PHP_ROOT);
    ck_assert(at.bp == 0 && !at.bp_lost);
}

UNIT(below_a_fiber_is_who_has_resumed_it)
{
    begin();
    uint64_t file = STRING("/srv/a.php");
    frame(function(2, STRING("f"), 0, file), PHP_CALL_TOP);
    frame(function(1, 0, 0, 0), 0); /* the fiber's own */
    frame(function(1, STRING("resume"), class(STRING("Fiber")), 0), 0);
    frame(function(2, STRING("g"), 0, file), PHP_CALL_TOP);
    frame(function(2, 0, 0, file), PHP_CALL_CODE | PHP_CALL_TOP);
    walk = (struct php_walk){0};
    ck_assert_str_eq(told(STEP_LAST), "f /srv/a.php:15");
    walk.is_fiber = walk.is_inside = 1; /* its root was met */
    ck_assert_str_eq(told(STEP_TAKEN), "");
    ck_assert_str_eq(told(STEP_TAKEN), "Fiber::resume :0");
    ck_assert_str_eq(told(STEP_TAKEN), "g /srv/a.php:15");
    ck_assert_str_eq(told(STEP_TAKEN), "{main} /srv/a.php:15");
    ck_assert_str_eq(told(STEP_PASSED), "");
    walk = (struct php_walk){.is_fiber = 1, .is_inside = 1}; /* before it has run anything */
    ck_assert_int_eq(step(LOOP + 0x8000), STEP_TAKEN);
    ck_assert(walk.is_fiber && walk.word.where);
}

/* The function goes after its name was read. */
static void free_it(void)
{
    if (reads > 8)
        put(FUNCTIONS + 256 + 8 * PHP_FUNCTION_SCOPE, 0x7770);
}

UNIT(another_one_in_its_memory_has_not_its_name)
{
    char text[4096];
    struct runtime_name name;
    begin();
    uint64_t file = STRING("/srv/a.php"), f = STRING("f"), scope = STRING("A");
    frame(function(2, f, class(scope), file), PHP_CALL_TOP);
    walk = (struct php_walk){0};
    ck_assert_str_eq(told(STEP_LAST), "A::f /srv/a.php:15");
    struct sample_frame word = walk.word;
    word.file++;
    ck_assert(!name_of(&word, &name, text));
    word.file--;
    uint64_t strings[] = {file, f, scope};
    for (size_t i = 0; i < 3; i++) {
        memory[strings[i] + PHP_STRING_HASH_AT]++; /* another name */
        ck_assert(!name_of(&word, &name, text));
        memory[strings[i] + PHP_STRING_HASH_AT]--;
        memory[strings[i] + PHP_STRING_TEXT_AT]++; /* it was written over */
        ck_assert(i == 0 ? name_of(&word, &name, text) && name.file.n == 0 : !name_of(&word, &name, text));
        memory[strings[i] + PHP_STRING_TEXT_AT]--;
    }
    ck_assert(name_of(&word, &name, text));
    reads = 0;
    on_read = free_it;
    ck_assert(!name_of(&word, &name, text));
}

/* What a function is called while one of its strings is in a page that its process has not looked at yet. */
static const char *told_unread(uint8_t type, uint32_t call, const char *function_name, bool is_name)
{
    static char text[4096];
    struct runtime_name name;
    begin();
    uint64_t first = string(function_name, strlen(function_name)), file = STRING("/srv/a.php");
    n_strings = 4; /* the next page */
    uint64_t apart = is_name ? string(function_name, strlen(function_name)) : STRING("/srv/a.php");
    frame(function(type, is_name ? apart : first, 0, is_name ? file : apart), call);
    frame(function(2, first, 0, file), PHP_CALL_TOP);
    absent = apart;
    walk = (struct php_walk){0};
    ck_assert_int_ne(step(LOOP + 8), STEP_NATIVE);
    absent = ~0ull;
    ck_assert(walk.word.where && name_of(&walk.word, &name, text));
    return text;
}

UNIT(what_is_in_a_page_that_nobody_has_looked_at_has_its_name)
{
    ck_assert_str_eq(told_unread(1, 0, "map", true), "map ");
    ck_assert_str_eq(told_unread(2, PHP_CALL_TOP, "f", true), "f /srv/a.php");
    ck_assert_str_eq(told_unread(2, PHP_CALL_TOP, "f", false), "f /srv/a.php");
    ck_assert_str_eq(told_unread(2, PHP_CALL_TOP | PHP_CALL_CLOSURE, "{closure}", false),
                     "{closure} /srv/a.php");
}

UNIT(what_has_no_name_is_called_so_without_its_file)
{
    char text[4096];
    struct runtime_name name;
    static const char *const names[] = {[PHP_WHERE_MAIN] = "{main} ",
                                        [PHP_WHERE_FILE] = "include ",
                                        [PHP_WHERE_EVAL] = "eval() ",
                                        [PHP_WHERE_CLOSURE] = "{closure} "};
    begin();
    for (uint32_t what = 1; what < sizeof names / sizeof *names; what++) {
        struct sample_frame word = {.where = STRINGS | what, .extra = 7, .file = 99};
        ck_assert(name_of(&word, &name, text));
        ck_assert_str_eq(text, names[what]);
        ck_assert_uint_eq(name.line, 0);
    }
    struct sample_frame none = {.where = STRINGS | 7};
    ck_assert(!name_of(&none, &name, text));
}

UNIT(names_end_at_a_nul_and_at_a_character)
{
    char text[4096], line[700];
    struct runtime_name name;
    begin();
    frame(function(2, STRING("run"), class(STRING("class@anonymous\0/srv/a.php:3$0")), STRING("/srv/a.php")),
          PHP_CALL_TOP);
    walk = (struct php_walk){0};
    ck_assert_str_eq(told(STEP_LAST), "class@anonymous::run /srv/a.php:15");
    begin();
    memset(line, 'x', sizeof line);
    memcpy(line + PHP_NAME_MAX - 1, "ß", 2);
    frame(function(2, string(line, sizeof line), 0, STRING("/srv/a.php")), PHP_CALL_TOP);
    walk = (struct php_walk){0};
    ck_assert_int_eq(step(LOOP), STEP_LAST);
    ck_assert(name_of(&walk.word, &name, text));
    ck_assert_uint_eq(name.name.n, PHP_NAME_MAX - 1);
    ck_assert(bytes_is_utf8(bytes_of(line, PHP_NAME_MAX - 1)));
}

UNIT(lies_cost_little)
{
    char text[4096];
    struct runtime_name name;
    begin();
    uint64_t lie = STRING("x");
    put(lie + PHP_STRING_LENGTH_AT, UINT64_MAX);
    frame(function(2, lie, class(lie), lie), PHP_CALL_TOP);
    walk = (struct php_walk){0};
    ck_assert_int_eq(step(LOOP), STEP_LAST);
    reads = 0;
    (void)name_of(&walk.word, &name, text);
    ck_assert_uint_lt(reads, 20);
    walk.word.where = sizeof memory - 8; /* the end of what can be read */
    ck_assert(!name_of(&walk.word, &name, text));
    walk.word.where = UINT64_MAX - 7;
    ck_assert(!name_of(&walk.word, &name, text));
}
