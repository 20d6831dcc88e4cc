/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules rules/prove */
/* The bounds of the language (rules/LANGUAGE.md §9), each at its edge: what is allowed compiles, one more
 * does not. */
#include <stdarg.h>

#include "proto/base/buffer.h"
#include "rules/program/program.h"
#include "tests/unit/rules/rules_helper.h"

struct text {
    struct buffer b;
};

static struct text text_new(void)
{
    struct text t = {BUFFER_INIT(0)};
    buffer_add_str(&t.b, "rules 1\npack x\n");
    return t;
}

static void __attribute__((format(printf, 2, 3))) put(struct text *t, const char *format, ...)
{
    char line[4096];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    ck_assert(n >= 0 && n < (int)sizeof line);
    ck_assert_int_eq(buffer_add(&t->b, line, (size_t)n), 0);
}

/* Compiles it alone; the code of the first error, "" when there is none. Frees the text. */
static const char *verdict(struct text *t)
{
    static char code[8];
    struct rules_diagnostics found;
    struct rules_input input = {"x.rules", buffer_bytes(&t->b), false};
    struct rule_set *set = rules_compile(&input, 1, &found);
    ck_assert(!set == (found.n_errors > 0));
    code[0] = '\0';
    for (uint32_t i = 0; i < found.n && !code[0]; i++) {
        if (!found.items[i].warning)
            snprintf(code, sizeof code, "%s", found.items[i].code);
    }
    rules_diagnostics_release(&found);
    rules_set_free(set);
    buffer_release(&t->b);
    return code;
}

#define EDGE(most, ...) EDGE_AS("E127", most, __VA_ARGS__)
#define EDGE_AS(code, most, ...)                           \
    for (int over = 0; over < 2; over++) {                 \
        const int n = (int)(most) + over;                  \
        struct text t = text_new();                        \
        __VA_ARGS__;                                       \
        ck_assert_str_eq(verdict(&t), over ? (code) : ""); \
    }

UNIT(a_file_has_a_mebibyte)
{
    EDGE(RULES_FILE_MAX, while (t.b.n < (size_t)n) ck_assert_int_eq(buffer_add_str(&t.b, "\n"), 0))
}

UNIT(all_files_have_4096_statements)
{
    EDGE(RULES_STATEMENTS_MAX, for (int i = 0; i < n; i++) put(&t, "frame f%d = go\n", i))
}

UNIT(all_files_have_50000_globs_and_regexes)
{
    EDGE(
        RULES_ATOMS_MAX, for (int i = 0; i < n; i++) {
            if (i % 20 == 0)
                put(&t, "\npattern p%d = ", i);
            put(&t, "%s\"%d\"", i % 20 ? "|" : "", i);
        })
}

UNIT(a_regex_has_a_kibibyte)
{
    EDGE_AS("E118", RULES_REGEX_MAX, put(&t, "pattern p = /"); for (int i = 0; i < n; i++) put(&t, "a");
            put(&t, "/\n"))
}

UNIT(expressions_nest_32_deep)
{
    /* The outermost level is one itself. */
    EDGE(RULES_NESTING_MAX - 1, put(&t, "frame f = "); for (int i = 0; i < n; i++) put(&t, "(");
         put(&t, "go"); for (int i = 0; i < n; i++) put(&t, ")"))
}

UNIT(definitions_use_each_other_32_in_a_row)
{
    EDGE(RULES_NESTING_MAX, put(&t, "frame f1 = go\n");
         for (int i = 2; i <= n; i++) put(&t, "frame f%d = f%d or jvm\n", i, i - 1))
}

UNIT(a_table_has_1024_rows_and_8_columns)
{
    EDGE(RULES_ROWS_MAX, put(&t, "table t (a) over frames {\n");
         for (int i = 0; i < n; i++) put(&t, "\"f%d\" => \"x\"\n", i); put(&t, "}\n"))
    EDGE(RULES_COLUMNS_MAX, put(&t, "table t (c"); for (int i = 1; i < n; i++) put(&t, ", c%d", i);
         put(&t, ") over frames { go => \"x\""); for (int i = 1; i < n; i++) put(&t, ", -"); put(&t, " }\n"))
}

UNIT(a_limit_is_between_one_and_a_million)
{
    EDGE(1000000, put(&t, "counter x.m { on cpu  limit %d }\n", n))
    struct text t = text_new();
    put(&t, "counter x.m { on cpu  limit 0 }\n");
    ck_assert_str_eq(verdict(&t), "E127");
}

UNIT(a_test_has_1024_stacks_of_1024_frames_and_a_million_events)
{
    EDGE(1024, put(&t, "test \"t\" {\n"); for (int i = 0; i < n; i++) put(&t, "stack go \"a\"\n");
         put(&t, "expect nothing }\n"))
    EDGE(1024, put(&t, "test \"t\" { stack go \"a\""); for (int i = 1; i < n; i++) put(&t, " < go \"b\"\n");
         put(&t, "expect nothing }\n"))
    EDGE(1000000, put(&t, "test \"t\" { stack go \"a\" events %d expect nothing }\n", n))
}

UNIT(a_pack_has_64_tests_with_a_set)
{
    EDGE(64, put(&t, "param text p = \"a\"\n"); for (int i = 0; i < n; i++)
             put(&t, "test \"t%d\" { set p = \"b\"  stack go \"a\"  expect nothing }\n", i))
}

/* 99 in one list, 1999 lists of those and one more: 199,999. */
UNIT(lists_of_lists_are_written_out_up_to_200000)
{
    EDGE(1, put(&t, "pattern p = \"0\""); for (int i = 1; i < 99; i++) put(&t, " | \"%d\"", i);
         for (int i = 0; i < 1999; i++) put(&t, "\npattern q%d = p | \"q%d\"", i, i);
         for (int i = 0; i < n; i++) put(&t, "\npattern r%d = \"r\"", i))
}

UNIT(shares_rates_and_frequencies_of_policies)
{
    EDGE(1000000, put(&t, "keep %d per minute\n", n))
    EDGE(100, put(&t, "keep %d%%\n", n))
    EDGE(1000, put(&t,
                   "counter x.m { on cpu }\ntrigger a { when rate of x.m over 1s above 1 do sample %dHz "
                   "lasting 1s cooldown 0s }\n",
                   n))
    EDGE(3600, put(&t,
                   "counter x.m { on cpu }\ntrigger a { when rate of x.m over %ds above 1 do keep all "
                   "lasting 24h cooldown 24h }\n",
                   n))
    EDGE(8, put(&t, "counter x.m { on cpu }\ntrigger a { when rate of x.m per resource[\"a\"]");
         for (int i = 1; i < n; i++) put(&t, ", resource[\"a%d\"]", i);
         put(&t, " over 1m above 1 do keep all lasting 1m cooldown 1m }\n"))
    EDGE(16,
         put(&t, "counter x.m { on cpu label l = type of leaf }\ntrigger a { when rate of x.m { l = \"a\"");
         for (int i = 1; i < n; i++) put(&t, ", l != \"%d\"", i);
         put(&t, " } over 1m above 1 do keep all lasting 1m cooldown 1m }\n"))
}

/* Each step uses the one before twice: 512, and what fills them up to the edge. */
UNIT(texts_and_conditions_are_written_out_up_to_1024)
{
    EDGE(RULES_WRITTEN_MAX, put(&t, "text a0 = \"\" + \"\"\n");
         for (int i = 1; i < 9; i++) put(&t, "text a%d = a%d + a%d\n", i, i - 1, i - 1);
         put(&t, "text b = a8"); for (int i = 512; i < n; i++) put(&t, " ?? \"x\""); put(&t, "\n"))
    EDGE(RULES_WRITTEN_MAX, put(&t, "sample a0 = linked\n");
         for (int i = 1; i < 9; i++) put(&t, "sample a%d = a%d and a%d\n", i, i - 1, i - 1);
         put(&t, "sample b = a8"); for (int i = 512; i < n; i++) put(&t, " or linked"); put(&t, "\n"))
    EDGE(RULES_WRITTEN_MAX, put(&t, "text a0 = \"\" + \"\"\n");
         for (int i = 1; i < 9; i++) put(&t, "text a%d = a%d + a%d\n", i, i - 1, i - 1);
         put(&t, "table t (a) over frames { else => a8 }\ntext b = t.a");
         for (int i = 513; i < n; i++) put(&t, " ?? \"x\""); put(&t, "\n"))
}

/* 4096 predicates about frames: a matter of all rules together, said when they are lowered. */
UNIT(a_level_has_4096_predicates)
{
    for (int over = 0; over < 2; over++) {
        struct text t = text_new();
        /* Each row is one predicate "function is one of these"; one more is "any frame at all". */
        for (int k = 0; k < 4; k++) {
            put(&t, "table t%d (a) over frames {\n", k);
            for (int i = 0; i < 1023 + (over && k == 0); i++)
                put(&t, "\"f%d_%d\" => \"x\"\n", k, i);
            put(&t, "}\ncounter x.m%d { on cpu  label a = t%d.a }\n", k, k);
        }
        for (int i = 0; i < 3; i++)
            put(&t, "counter x.n%d { on cpu  where any frame is \"g%d\" }\n", i, i);
        struct rule_set *set = compile_text(buffer_bytes(&t.b));
        struct error e = {""};
        struct rules_program *p = rules_program_new(set, &e);
        ck_assert_msg((p == NULL) == (over == 1), "%s", e.text);
        if (over)
            ck_assert_ptr_nonnull(strstr(e.text, "4096"));
        rules_program_free(p);
        rules_set_free(set);
        buffer_release(&t.b);
    }
}

UNIT(a_compilation_has_1024_files)
{
    static struct rules_input inputs[1025];
    static char texts[1025][40];
    for (int i = 0; i < 1025; i++) {
        snprintf(texts[i], sizeof texts[i], "rules 1 pack p%d", i);
        inputs[i] = (struct rules_input){"f", bytes_str(texts[i]), false};
    }
    struct rules_diagnostics found;
    struct rule_set *set = unit_made(rules_compile(inputs, 1024, &found));
    rules_diagnostics_release(&found);
    rules_set_free(set);
    ck_assert_ptr_null(rules_compile(inputs, 1025, &found));
    ck_assert_uint_eq(found.n, 0);
}

/* A label is cut to 256 bytes at a character, a regex sees the first 4096 bytes. */
UNIT(labels_are_cut_and_regexes_see_four_kibibytes)
{
    struct text t = text_new();
    put(&t, "counter x.m { on cpu  limit 9  label l = function of leaf }\n"
            "counter x.n { on cpu  where leaf is /needle/ }\n"
            "test \"cut\" { stack go \"");
    for (int i = 0; i < 127; i++)
        put(&t, "ab");
    put(&t, "cé\" expect x.m { l = \""); /* bytes 256 and 257 are one character */
    for (int i = 0; i < 127; i++)
        put(&t, "ab");
    put(&t, "c\" } }\n");
    for (int far = 0; far < 2; far++) {
        put(&t, "test \"needle %d\" { stack go \"", far);
        for (int i = 0; i < 4096 - 6 + far; i++)
            put(&t, "a");
        put(&t, "needle\" %s expect x.m { l = \"", far ? "" : "expect x.n");
        for (int i = 0; i < 256; i++)
            put(&t, "a");
        put(&t, "\" } }\n");
    }
    struct rule_set *set = compile_text(buffer_bytes(&t.b));
    ck_assert_uint_eq(pass_tests(set), 3);
    rules_set_free(set);
    buffer_release(&t.b);
}
