/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules/prove */
/*
 * The examples of rules/LANGUAGE.md: every block marked `rules` is a file (with a header, if it has none)
 * that compiles without an error beside the shipped packs, and whose tests pass.
 */
#include "proto/base/buffer.h"
#include "tests/unit/rules/rules_helper.h"

static char *read_page(void)
{
    FILE *f = unit_made(fopen(PG_SOURCE_DIR "/rules/LANGUAGE.md", "rb"));
    char *text = calloc(1, (1 << 20) + 1);
    ck_assert_uint_gt(fread(text, 1, 1 << 20, f), 0);
    fclose(f);
    return text;
}

/* Compiles one block and runs its tests; how many there were. */
static uint32_t run_block(const char *block, size_t n, unsigned line)
{
    autofree char *whole = NULL;
    bool header = n > 6 && memcmp(block, "rules ", 6) == 0;
    ck_assert_int_ge(asprintf(&whole, "%s%.*s", header ? "" : "rules 1\npack page\n", (int)n, block), 0);
    cleanup(compiled_free) struct compiled c = compile_texts((const char *const[]){whole}, 1);
    for (uint32_t i = 0; i < c.found.n && !c.set; i++)
        fputs(c.found.items[i].text, stderr);
    ck_assert_msg(c.set != NULL, "the block in line %u of rules/LANGUAGE.md does not compile", line);
    struct rule_test tests[32];
    struct rule_set meant = *c.set;
    meant.tests = tests;
    meant.n_tests = 0;
    for (uint32_t i = 0; i < c.set->n_tests; i++) {
        if (!c.set->files[c.set->tests[i].place.file].builtin)
            tests[meant.n_tests++] = c.set->tests[i];
    }
    return pass_tests(&meant);
}

UNIT(every_example_compiles_and_its_tests_pass)
{
    autofree char *page = read_page();
    uint32_t n_blocks = 0, n_tests = 0;
    unsigned line = 1;
    for (char *at = page; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL, line++) {
        if (strncmp(at, "```rules\n", 9) != 0)
            continue;
        char *end = strstr(at + 9, "\n```");
        ck_assert_ptr_nonnull(end);
        uint32_t tests = run_block(at + 9, (size_t)(end + 1 - (at + 9)), line);
        ck_assert_msg(tests > 0, "the block in line %u of rules/LANGUAGE.md has no test", line);
        n_tests += tests;
        n_blocks++;
    }
    ck_assert_uint_ge(n_blocks, 7);
    ck_assert_uint_ge(n_tests, 10);
}
