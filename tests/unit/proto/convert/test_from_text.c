/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/coding proto/otlp/view */
#include <errno.h>

#include "proto/base/room.h"
#include "proto/convert/from_text.h"
#include "proto/convert/to_folded.h"
#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"

static const struct from_text_options options = {.origin = {.scope = {(const uint8_t *)"test", 4}}};

struct made {
    struct buffer request;
    struct profiles view;
    struct error e;
    int r;
};

static void make(struct made *m, enum from_text_format format, const char *text)
{
    struct from_text *c = unit_made(from_text_new(NULL));
    *m = (struct made){.e = {""}};
    ck_assert_int_eq(profiles_init(&m->view, NULL), 0);
    m->r = from_text(c, format, bytes_str(text), &options, &m->request, &m->e);
    from_text_free(c);
    if (m->r == 0) {
        int r = profiles_decode_as(&m->view, buffer_bytes(&m->request), PROFILES_LAYOUT_1_10,
                                   &profiles_limits_default, &m->e);
        ck_assert_msg(r == 0, "%s", m->e.text);
        ck_assert_uint_eq(m->view.rejected.samples, 0);
    }
}

static void release(struct made *m)
{
    profiles_release(&m->view);
    buffer_release(&m->request);
}

static void expect_folded(enum from_text_format format, const char *text, const char *expected)
{
    cleanup(release) struct made m;
    cleanup(buffer_release) struct buffer folded = BUFFER_INIT(0);
    make(&m, format, text);
    ck_assert_msg(m.r == 0, "%s", m.e.text);
    ck_assert_int_eq(to_folded(&m.view, &folded), 0);
    ck_assert_msg(bytes_is(buffer_bytes(&folded), expected), "%.*s", BYTES_FMT(buffer_bytes(&folded)));
}

static void expect_refused(enum from_text_format format, const char *text, const char *says)
{
    cleanup(release) struct made m;
    make(&m, format, text);
    ck_assert_int_eq(m.r, FROM_TEXT_MALFORMED);
    ck_assert_msg(strstr(m.e.text, says), "%s", m.e.text);
    ck_assert_uint_eq(m.request.n, 0);
}

/* The text of a sample's attribute, or of the frame type of its leaf. */
static struct bytes text_of(const struct profiles *v, const uint32_t *at, uint32_t i, const char *key,
                            int64_t *ret)
{
    for (uint32_t k = at[i]; k < at[i + 1]; k++) {
        uint32_t a = v->attr_index.attribute[k];
        if (!bytes_is(profiles_string(v, v->attribute.key[a]), key))
            continue;
        if (ret)
            *ret = v->attribute.value[a].integer;
        return v->attribute.value[a].text;
    }
    return (struct bytes){0};
}

static struct bytes type_at(const struct profiles *v, uint32_t stack, uint32_t depth)
{
    uint32_t location = v->stack_location.location[v->stack.locations_at[stack] + depth];
    return text_of(v, v->location.attrs_at, location, "profile.frame.type", NULL);
}

static struct bytes name_at(const struct profiles *v, uint32_t stack, uint32_t depth)
{
    uint32_t location = v->stack_location.location[v->stack.locations_at[stack] + depth];
    return profiles_string(v, v->function.name[v->line.function[v->location.lines_at[location]]]);
}

UNIT(folded_stacks_come_back_as_they_were)
{
    static const char text[] = "main;foo bar(int, char const*);std::vector<int> >::push_back 12\n"
                               "main;do_syscall_64_[k];read_[k] 3\n"
                               "java;java/lang/String:::hashCode_[j] 4\n"
                               "a;b_[i];c_[i];d 9223372036854775807\n"
                               "a;b_[i];e -5\n"
                               "alone 0x1 1\n";
    expect_folded(FROM_TEXT_FOLDED, text, text);
}

UNIT(a_frame_s_mark_says_what_it_is_and_is_no_part_of_its_name)
{
    cleanup(release) struct made m;
    make(&m, FROM_TEXT_FOLDED, "main;a;b_[i];c_[i];read_[k] 1\njava;java/lang/String:::hashCode_[j] 1\n");
    const struct profiles *v = &m.view;
    ck_assert_uint_eq(v->sample.n, 2);
    uint32_t stack = v->sample.stack[0];
    ck_assert_uint_eq(v->stack.locations_at[stack + 1] - v->stack.locations_at[stack], 3);
    ck_assert(bytes_is(name_at(v, stack, 0), "read"));
    ck_assert(bytes_is(type_at(v, stack, 0), "kernel"));
    ck_assert(bytes_is(name_at(v, stack, 1), "c")); /* innermost first */
    ck_assert(bytes_is(type_at(v, v->sample.stack[1], 0), "jvm"));
    ck_assert_uint_eq(type_at(v, v->sample.stack[1], 1).n, 0);
}

UNIT(equal_stacks_are_one_sample)
{
    expect_folded(FROM_TEXT_FOLDED, "a;b 1\na 2\r\n\na;b 3\n# said by nobody 7\n", "a;b 4\na 2\n");
    expect_folded(FROM_TEXT_LINES, "a;b 1\nc\na;b 1\n", "a;b 1 2\nc 1\n");
    expect_folded(FROM_TEXT_FOLDED, "a;;b;\t 1\n", "a;b 1\n");
}

UNIT(two_counts_in_each_line_are_before_and_after)
{
    struct made m;
    make(&m, FROM_TEXT_FOLDED, "a;b 1 0\na 2 7\n");
    const struct profiles *v = &m.view;
    ck_assert_uint_eq(v->profile.n, 2);
    ck_assert(bytes_is(profiles_string(v, v->profile.type[0]), "before"));
    ck_assert(bytes_is(profiles_string(v, v->profile.type[1]), "after"));
    ck_assert_int_eq(profiles_sample_value(v, 1), 2);
    ck_assert_int_eq(profiles_sample_value(v, 3), 7);
    release(&m);
    expect_folded(FROM_TEXT_FOLDED, "a;b 1 3\na 2\n", "a;b 1 3\na 2\n"); /* else it is a name */
}

UNIT(what_is_no_folded_stack_is_refused_by_its_line)
{
    expect_refused(FROM_TEXT_FOLDED, "a;b 1\n\na;b\n", "line 3: no count");
    expect_refused(FROM_TEXT_FOLDED, "a 1.5\n", "line 1: its count is no whole number");
    expect_refused(FROM_TEXT_FOLDED, "a 9223372036854775808\n", "line 1: its count");
    expect_refused(FROM_TEXT_FOLDED, "a 9223372036854775807\na 1\n", "line 2: the counts of its stack");
    expect_refused(FROM_TEXT_FOLDED, "12\n", "line 1: no count");
    expect_refused(FROM_TEXT_FOLDED, "\n\n", "no stack");
    expect_refused(FROM_TEXT_FOLDED, "", "no stack");
}

UNIT(bytes_that_are_no_utf8_come_through)
{
    cleanup(release) struct made m;
    make(&m, FROM_TEXT_FOLDED, "a\xff;b 1\n");
    ck_assert_msg(m.r == 0, "%s", m.e.text);
    ck_assert(bytes_is(name_at(&m.view, 1, 1), "a" BYTES_REPLACEMENT "ff"));
}

UNIT(perf_script_has_a_head_and_frames)
{
    cleanup(release) struct made m;
    int64_t number = -1;
    make(&m, FROM_TEXT_PERF_SCRIPT,
         "# cmdline : perf record\n"
         "V8 Worker 7 24636/25607 [002] 6544038.708352:     250000 cpu-clock:pppH: \n"
         "\tffffffff8104f45a native_write_msr+0x8 ([kernel.kallsyms])\n"
         "\t          401166 inner (inlined)\n"
         "\t          401166 outer(int)+0x1f (/tmp/a b (deleted))\n"
         "\t          7f0001 LazyCompile:*run /app.js:1+0x3 (/tmp/perf-24636.map)\n"
         "\t          7f0002 [unknown] ([unknown])\n"
         "\n"
         "V8 Worker 7 24636/25607 [002] 6544039.708352:     250000 cpu-clock:pppH: \n"
         "\t          401166 inner (inlined)\n"
         "\t          401166 outer(int)+0x1f (/tmp/a b (deleted))\n"
         "\n");
    const struct profiles *v = &m.view;
    ck_assert_msg(m.r == 0, "%s", m.e.text);
    ck_assert_uint_eq(v->sample.n, 2);
    ck_assert(bytes_is(profiles_string(v, v->profile.type[0]), "cpu"));
    ck_assert(bytes_is(profiles_string(v, v->profile.unit[0]), "nanoseconds"));
    ck_assert_uint_eq(v->profile.duration_nano[0], 1000000000);
    ck_assert_int_eq(profiles_sample_value(v, 0), 250000);
    ck_assert(bytes_is(text_of(v, v->sample.attrs_at, 0, "thread.name", NULL), "V8 Worker 7"));
    text_of(v, v->sample.attrs_at, 0, "process.pid", &number);
    ck_assert_int_eq(number, 24636);
    text_of(v, v->sample.attrs_at, 0, "thread.id", &number);
    ck_assert_int_eq(number, 25607);
    text_of(v, v->sample.attrs_at, 0, "cpu.logical_number", &number);
    ck_assert_int_eq(number, 2);
    uint32_t stack = v->sample.stack[0];
    ck_assert_uint_eq(v->stack.locations_at[stack + 1] - v->stack.locations_at[stack], 4);
    static const char *const names[] = {"native_write_msr", "inner", "LazyCompile:*run /app.js:1"},
                             *const types[] = {"kernel", "native", "v8js"};
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert(bytes_is(name_at(v, stack, i), names[i]));
        ck_assert(bytes_is(type_at(v, stack, i), types[i]));
    }
    uint32_t outer = v->stack_location.location[v->stack.locations_at[stack] + 1];
    ck_assert_uint_eq(v->location.lines_at[outer + 1] - v->location.lines_at[outer], 2);
    ck_assert_uint_eq(v->location.address[outer], 0x401166);
    ck_assert(
        bytes_is(profiles_string(v, v->mapping.filename[v->location.mapping[outer]]), "/tmp/a b (deleted)"));
}

/* -F +srcline: the source stands on a line of its own, and "(inlined)" behind that. */
UNIT(perf_script_with_sources)
{
    cleanup(release) struct made m;
    make(&m, FROM_TEXT_PERF_SCRIPT,
         "ls 12 1.5:     250000 cpu-clock: \n"
         "\tffffffff8104f45a native_write_msr+0x8 ([kernel.kallsyms])\n"
         "  [kernel.kallsyms][ffffffff8104f45a]\n"
         "\t          401166 innermost+0xa\n"
         "  ??:0 (inlined)\n"
         "\t          401166 inner+0xa\n"
         "  w.c:5 (inlined)\n"
         "\t          401166 outer+0xa (/bin/ls)\n"
         "  w.c:6\n"
         "\t          401080 _start+0x20 (/bin/ls)\n"
         "  ??:0\n"
         "\n");
    const struct profiles *v = &m.view;
    ck_assert_msg(m.r == 0, "%s", m.e.text);
    ck_assert_uint_eq(v->sample.n, 1);
    const uint32_t stack = v->sample.stack[0], at = v->stack.locations_at[stack];
    ck_assert_uint_eq(v->stack.locations_at[stack + 1] - at, 3);
    static const struct {
        const char *type, *file;
        uint64_t address;
        uint32_t n_lines;
        struct {
            const char *name, *source;
            int64_t line;
        } lines[3];
    } locations[] = {
        {"kernel", "[kernel.kallsyms]", 0xffffffff8104f45a, 1, {{"native_write_msr", "", 0}}},
        {"native", "/bin/ls", 0x401166, 3, {{"innermost", "", 0}, {"inner", "w.c", 5}, {"outer", "w.c", 6}}},
        {"native", "/bin/ls", 0x401080, 1, {{"_start", "", 0}}},
    };
    for (uint32_t i = 0; i < ARRAY_LEN(locations); i++) {
        const uint32_t location = v->stack_location.location[at + i], first = v->location.lines_at[location];
        ck_assert_msg(bytes_is(type_at(v, stack, i), locations[i].type), "%u", i);
        ck_assert(bytes_is(profiles_string(v, v->mapping.filename[v->location.mapping[location]]),
                           locations[i].file));
        ck_assert_uint_eq(v->location.address[location], locations[i].address);
        ck_assert_uint_eq(v->location.lines_at[location + 1] - first, locations[i].n_lines);
        for (uint32_t k = 0; k < locations[i].n_lines; k++) {
            const uint32_t function = v->line.function[first + k];
            ck_assert(bytes_is(profiles_string(v, v->function.name[function]), locations[i].lines[k].name));
            ck_assert(
                bytes_is(profiles_string(v, v->function.filename[function]), locations[i].lines[k].source));
            ck_assert_int_eq(v->line.line[first + k], locations[i].lines[k].line);
        }
    }
}

/* One stack of one function, whatever -F left out. */
UNIT(perf_script_with_other_fields)
{
    static const struct {
        const char *text, *type, *unit, *comm;
        int64_t tid, value;
    } cases[] = {
        {"ls 12 1.5: cycles:P: \n\t401 main+0x1 (/bin/ls)\n", "cycles:P", "samples", "ls", 12, 1},
        {"ls 12 cycles:\n401 main+0x1 (/bin/ls)\n\n", "cycles", "samples", "ls", 12, 1},
        {"ls 12 1.5: 77 cycles:P: \n\t401 main+0x1 (/bin/ls)\n", "cycles:P", "count", "ls", 12, 77},
        {"              ls    12 [000]     1.500000:         77 cycles:            401234 main+0x1 (/bin/ls)\n",
         "cycles", "count", "ls", 12, 77},
        {"ls 11/12 cycles: \n\t401 main\n", "cycles", "samples", "ls", 12, 1},
        {"ls 11/12 \n\t401 main\n", "samples", "count", "ls", 12, 1},
        {"cycles: \n\t401 main (/bin/ls)\n", "cycles", "samples", "", -1, 1},
        {"ls 12 \n\t401 main (/bin/ls)\n", "samples", "count", "ls", 12, 1},
        {"\t401 main (/bin/ls)\n\n", "samples", "count", "", -1, 1},
        {"ls 12 [001] 1.5: sched:sched_switch: prev_comm=ls prev_pid=1 ==> x\n\t401 main (/bin/ls)\n",
         "sched:sched_switch", "samples", "ls", 12, 1},
        {"ls 12 [001] d..3. 1.5: cycles: \n        401 main (/bin/ls)\n", "cycles", "samples", "ls", 12, 1},
        {"a 1 b 12 [001] 1.5: cpu/cycles,p=1/: \n\t401 main (/bin/ls+0x12)\n  main.c:12\n", "cpu/cycles,p=1/",
         "samples", "a 1 b", 12, 1},
        {"ls 12 0.000000: PERF_RECORD_MMAP2 11/12: [0x1(0x2) @ 0]: r-xp /bin/ls\nls 12 1.5: cycles:\n\t401 main\n",
         "cycles", "samples", "ls", 12, 1},
        {"ls 0 0.000000: PERF_RECORD_COMM: ls:12/12\nls 12 1.5: cycles:\n\t401 main\n", "cycles", "samples",
         "ls", 12, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup(release) struct made m;
        int64_t tid = -1;
        make(&m, FROM_TEXT_PERF_SCRIPT, cases[i].text);
        const struct profiles *v = &m.view;
        ck_assert_msg(m.r == 0, "%zu: %s", i, m.e.text);
        ck_assert_uint_eq(v->sample.n, 1);
        ck_assert_msg(bytes_is(profiles_string(v, v->profile.type[0]), cases[i].type), "%zu: %.*s", i,
                      BYTES_FMT(profiles_string(v, v->profile.type[0])));
        ck_assert_msg(bytes_is(profiles_string(v, v->profile.unit[0]), cases[i].unit), "%zu", i);
        struct bytes comm = text_of(v, v->sample.attrs_at, 0, "thread.name", NULL);
        ck_assert_msg(bytes_is(comm, cases[i].comm), "%zu: %.*s", i, BYTES_FMT(comm));
        text_of(v, v->sample.attrs_at, 0, "thread.id", &tid);
        ck_assert_int_eq(tid, cases[i].tid);
        ck_assert_int_eq(profiles_sample_value(v, 0), cases[i].value);
        ck_assert_uint_eq(v->stack.locations_at[2] - v->stack.locations_at[1], 1);
        ck_assert_msg(bytes_is(name_at(v, 1, 0), "main"), "%zu: %.*s", i, BYTES_FMT(name_at(v, 1, 0)));
        ck_assert_msg(from_text_guess(bytes_str(cases[i].text)) == FROM_TEXT_PERF_SCRIPT, "%zu", i);
    }
}

UNIT(what_is_no_perf_script_is_refused_by_its_line)
{
    expect_refused(FROM_TEXT_PERF_SCRIPT, "ls 12 1.5: cycles:\n\t401 main\nwhat is this\n",
                   "line 3: neither");
    expect_refused(FROM_TEXT_PERF_SCRIPT, "# nothing\n", "no stack");
    expect_refused(FROM_TEXT_PERF_SCRIPT, "ls 12 1.5: cycles:\n\t1fffffffffffffff0 main (/bin/ls)\n",
                   "line 2: an address of more than 16 digits");
}

/* Samples that have no frame at all may be wanted for their counts; of branches somebody expects stacks. */
UNIT(perf_script_with_branches_alone_is_refused_with_the_reason)
{
    static const char head[] = "ls 12 1.5:          9 cycles: ";
    static const char *const branches[] = {" 0x401136/0x401150/P/-/-/0  0x401120/0x401130/M/-/-/0 \n",
                                           " main+0x4/work/-/-/-/2/COND/- \n",
                                           "\n 0x401136/0x401150/P/X/A/0/CALL \n\n"};
    char text[256];
    for (uint32_t i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%s%s", head, branches[i]);
        expect_refused(FROM_TEXT_PERF_SCRIPT, text, "brstack");
    }
    expect_refused(FROM_TEXT_PERF_SCRIPT, " 0x401136/0x401150/P/-/-/0  0x401120/0x401130/M/-/-/0 \n",
                   "brstack");
    struct made m;
    make(&m, FROM_TEXT_PERF_SCRIPT,
         "ls 12 1.5: 9 cycles: \n\t401136 main (/bin/ls)\n\t0x401136/0x401150/P/-/-/0\n\n");
    ck_assert_int_eq(m.r, 0);
    release(&m);
    make(&m, FROM_TEXT_PERF_SCRIPT, "ls 12 1.5: 9 cycles: /a/b/c/d\n"); /* a tracepoint's text, say */
    ck_assert_int_eq(m.r, 0);
    release(&m);
}

/* `n` times a piece between a beginning and an end. The caller's. */
static char *repeated(const char *begin, const char *piece, uint32_t n, const char *end)
{
    struct buffer b = BUFFER_INIT(0);
    int r = buffer_add_bytes(&b, bytes_str(begin));
    for (uint32_t i = 0; i < n; i++)
        r |= buffer_add_bytes(&b, bytes_str(piece));
    r |= buffer_add_bytes(&b, bytes_of(end, strlen(end) + 1));
    ck_assert_int_eq(r, 0);
    return (char *)b.p;
}

/* As long as what is made of it is read: `make` looks. */
UNIT(a_stack_of_too_many_frames_is_refused_by_its_line)
{
    static const struct {
        enum from_text_format format;
        const char *begin, *piece, *end, *says;
    } texts[] = {
        {FROM_TEXT_FOLDED, "a 1\n", "b;", " 1\n", "line 2: more than 65536 frames"},
        {FROM_TEXT_FOLDED, "a 1\n", "b;c_[i];;", " 1\n", "line 2: more than 65536 frames"},
        {FROM_TEXT_PERF_SCRIPT, "x 1 1.5: cycles:\n", "\t40 b (/x)\n", "\n",
         "line 65538: more than 65536 frames of one stack"},
        {FROM_TEXT_PERF_SCRIPT, "x 1 1.5: cycles:\n", "\t40 b (inlined)\n\t40 c (/x)\n", "\n",
         "line 65539: more than 65536 frames of one stack"},
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const uint32_t n = PROFILES_STACK_FRAMES_MAX >> i % 2;
        struct made m;
        char *most = repeated(texts[i].begin, texts[i].piece, n, texts[i].end);
        char *more = repeated(texts[i].begin, texts[i].piece, n + 1, texts[i].end);
        make(&m, texts[i].format, most);
        ck_assert_msg(m.r == 0, "%s", m.e.text);
        release(&m);
        expect_refused(texts[i].format, more, texts[i].says);
        free(most);
        free(more);
    }
}

UNIT(texts_are_told_from_protobuf)
{
    static const char *const folded[] = {" a b c 4\n", " a b c 4\n a b c 5\n",    "\ta b c 4\n a;b 5\n",
                                         "\n b 4\n",   "add b 4\n dead beef 5\n", " ab;cd 4\n"};
    for (size_t i = 0; i < ARRAY_LEN(folded); i++)
        ck_assert_msg(from_text_guess(bytes_str(folded[i])) == FROM_TEXT_FOLDED, "%zu", i);
    ck_assert_int_eq(from_text_guess(BYTES_LIT("\t 401\n\t 402\n")), FROM_TEXT_PERF_SCRIPT);
    ck_assert_int_eq(from_text_guess(BYTES_LIT("a;b 1\n")), FROM_TEXT_FOLDED);
    ck_assert_int_eq(from_text_guess(BYTES_LIT("# x\n\nls 12 1.5: cycles:\n")), FROM_TEXT_PERF_SCRIPT);
    ck_assert_int_eq(from_text_guess(BYTES_LIT("\xef\xbb\xbfls 12 1.5: cycles:\n")), FROM_TEXT_PERF_SCRIPT);
    ck_assert_int_eq(from_text_guess(BYTES_LIT("\xef\xbb\xbf")), FROM_TEXT_NONE);
    ck_assert_int_eq(from_text_guess(BYTES_LIT("\n\x02\x0a\x00")), FROM_TEXT_NONE);
    ck_assert_int_eq(from_text_guess(BYTES_LIT("\n\x7f")), FROM_TEXT_NONE);
    ck_assert_int_eq(from_text_guess(BYTES_LIT("")), FROM_TEXT_NONE);
}

/* Half of one memory refused, and a request that is longer than allowed: nothing is left behind. */
UNIT(what_is_too_large_is_refused)
{
    struct budget budget = BUDGET_INIT(1u << 20, NULL);
    struct buffer out = BUFFER_INIT(100);
    struct error e = {""};
    struct from_text *c = unit_made(from_text_new(&budget));
    struct bytes text =
        BYTES_LIT("a;long name of a function that is longer than a hundred bytes, as such names "
                  "may be, being in C++, or in Java;c 1\n");
    ck_assert_int_eq(from_text(c, FROM_TEXT_FOLDED, text, &options, &out, &e), FROM_TEXT_TOO_LARGE);
    ck_assert_uint_eq(out.n, 0);
    out.max = 0;
    ck_assert_int_eq(from_text(c, FROM_TEXT_FOLDED, text, &options, &out, &e), 0);
    room_release(&out, &budget);
    from_text_free(c);
    ck_assert_uint_eq(budget.used, 0);
}

OOM_SWEEP(no_memory_for_a_text)
{
    struct buffer out = BUFFER_INIT(0);
    struct error e = {""};
    struct from_text *c = from_text_new(NULL);
    int r = c ? 0 : -ENOMEM;
    r = r < 0 ? r
              : from_text(c, FROM_TEXT_PERF_SCRIPT,
                          BYTES_LIT("ls 1/2 1.5: cycles:\n\t401 ma\xffin (/bin/x)\n"), &options, &out, &e);
    ck_assert(r == 0 || (r == -ENOMEM && out.n == 0));
    buffer_release(&out);
    from_text_free(c);
}
