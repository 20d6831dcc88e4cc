/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every file of tests/golden/rules/NAME.rules, compiled beside the shipped packs, against NAME.expected, byte
 * for byte. PG_UPDATE=1 writes the expected files anew: read the difference before it is committed.
 */
#include <dirent.h>

#include "proto/base/buffer.h"
#include "tests/unit/rules/rules_helper.h"

#define GOLDEN PG_SOURCE_DIR "/tests/golden/rules"

static char *read_whole(const char *path, size_t *ret_n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *text = calloc(1, (1 << 20) + 1);
    *ret_n = fread(text, 1, 1 << 20, f);
    fclose(f);
    return text;
}

/* What compiling the file says of it. */
static struct buffer diagnose(const char *name, const char *text, size_t n)
{
    struct rules_input inputs[64];
    uint32_t k = 0;
    for (const struct embedded_file *f = rules_builtin; f->name; f++)
        inputs[k++] = (struct rules_input){f->name, bytes_of(f->data, f->size), true};
    inputs[k++] = (struct rules_input){name, bytes_of(text, n), false};
    struct rules_diagnostics found;
    struct rule_set *set = rules_compile(inputs, k, &found);
    ck_assert_msg(!set == (found.n_errors > 0), "%s: a set or errors, not both", name);
    struct buffer out = BUFFER_INIT(0);
    for (uint32_t i = 0; i < found.n; i++) {
        ck_assert_str_eq(found.items[i].file, name);
        buffer_printf(&out, "%s%s", i > 0 ? "\n" : "", found.items[i].text);
    }
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    out.n--;
    rules_diagnostics_release(&found);
    rules_set_free(set);
    return out;
}

UNIT(diagnostics_are_as_the_golden_files_say)
{
    DIR *dir = unit_made(opendir(GOLDEN));
    uint32_t n_files = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[4096];
        size_t n = strlen(entry->d_name), text_n, expected_n = 0;
        if (n < 7 || strcmp(entry->d_name + n - 6, ".rules") != 0)
            continue;
        snprintf(path, sizeof path, GOLDEN "/%s", entry->d_name);
        char *text = unit_made(read_whole(path, &text_n));
        struct buffer out = diagnose(entry->d_name, text, text_n);
        snprintf(path, sizeof path, GOLDEN "/%.*s.expected", (int)(n - 6), entry->d_name);
        if (getenv("PG_UPDATE")) {
            FILE *f = fopen(path, "wb");
            fwrite(out.p, 1, out.n, f);
            fclose(f);
        }
        char *expected = read_whole(path, &expected_n);
        ck_assert_msg(expected != NULL, "%s: no .expected", entry->d_name);
        ck_assert_msg(out.n > 0, "%s: nothing was said", entry->d_name);
        ck_assert_str_eq((const char *)out.p, expected);
        buffer_release(&out);
        free(text);
        free(expected);
        n_files++;
    }
    closedir(dir);
    ck_assert_uint_gt(n_files, 40);
}

/* What a new user gets wrong, in one file: `=== TITLE`, a rule file, `---`, and all that is said of it, which
 * always has a proposal. */
UNIT(mistakes_have_a_proposal)
{
    static const char path[] = PG_SOURCE_DIR "/tests/golden/mistakes.txt";
    size_t n, n_mistakes = 0;
    autofree char *all = unit_made(read_whole(path, &n));
    cleanup(buffer_release) struct buffer now = BUFFER_INIT(0);
    for (char *at = strstr(all, "=== "), *next; at; at = next) {
        char *rules = strchr(at, '\n') + 1, *end = strstr(rules, "\n---\n");
        ck_assert_ptr_nonnull(end);
        next = strstr(end, "\n=== ");
        next = next ? next + 1 : NULL;
        struct buffer said = diagnose("t.rules", rules, (size_t)(end + 1 - rules));
        const char *found = said.p ? (const char *)said.p : "";
        ck_assert_msg(strstr(found, "     = ") || strstr(found, "did you mean"), "%.*s: no proposal: %s",
                      (int)(rules - at - 1), at, found);
        ck_assert_int_eq(buffer_printf(&now, "%.*s%s", (int)(end + 5 - at), at, found), 0);
        buffer_release(&said);
        n_mistakes++;
    }
    if (getenv("PG_UPDATE")) {
        FILE *f = fopen(path, "wb");
        fwrite(now.p, 1, now.n, f);
        fclose(f);
    } else {
        ck_assert_str_eq((const char *)now.p, all);
    }
    ck_assert_uint_gt(n_mistakes, 60);
}

/* The table of codes in rules/LANGUAGE.md and the golden files must name the same ones; E110 and W210 are
 * said by what runs tests, E137 by the gateway. */
UNIT(every_documented_code_has_a_golden_file)
{
    size_t n;
    autofree char *page = unit_made(read_whole(PG_SOURCE_DIR "/rules/LANGUAGE.md", &n));
    uint32_t n_codes = 0;
    for (char *row = page; (row = strstr(row, "\n| `")); row++) {
        char code[5] = "", path[512];
        size_t file_n;
        if ((row[4] != 'E' && row[4] != 'W') || row[8] != '`')
            continue;
        memcpy(code, row + 4, 4);
        n_codes++;
        if (strcmp(code, "E110") == 0 || strcmp(code, "W210") == 0 || strcmp(code, "E137") == 0)
            continue;
        snprintf(path, sizeof path, GOLDEN "/%c%s.expected", code[0] | 0x20, code + 1);
        autofree char *expected = read_whole(path, &file_n);
        ck_assert_msg(expected && strstr(expected, code), "%s is documented and has no golden file %s", code,
                      path);
    }
    ck_assert_uint_gt(n_codes, 35);
    /* And the other way round. */
    DIR *dir = opendir(GOLDEN);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char row[16];
        if (strlen(entry->d_name) < 10 || !strchr("ew", entry->d_name[0]) || entry->d_name[1] < '0' ||
            entry->d_name[1] > '9')
            continue;
        snprintf(row, sizeof row, "| `%c%.3s`", entry->d_name[0] & ~0x20, entry->d_name + 1);
        ck_assert_msg(strstr(page, row) != NULL, "%s is not in the table of rules/LANGUAGE.md", row);
    }
    closedir(dir);
}

UNIT(a_file_too_long_is_refused)
{
    autofree char *text = malloc(RULES_FILE_MAX + 1);
    memset(text, '\n', RULES_FILE_MAX + 1);
    cleanup(buffer_release) struct buffer out = diagnose("long.rules", text, RULES_FILE_MAX + 1);
    ck_assert_ptr_nonnull(
        strstr((char *)out.p, "E127 long.rules:1:1: a rule file has at most 1048576 bytes"));
}

UNIT(twenty_errors_of_a_file_are_shown_and_the_others_counted)
{
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    buffer_add_str(&text, "rules 1\npack many\n");
    for (int i = 0; i < 25; i++)
        buffer_printf(&text, "frame f%d = missing_%d\n", i, i);
    ck_assert_int_eq(buffer_add(&text, "", 1), 0);
    cleanup(compiled_free) struct compiled c = compile_texts((const char *const[]){(char *)text.p}, 1);
    ck_assert_ptr_null(c.set);
    ck_assert_uint_eq(c.found.n, RULES_ERRORS_MAX);
    ck_assert_uint_eq(c.found.n_errors, 25);
}

UNIT(no_input_gives_an_empty_set)
{
    cleanup(rules_diagnostics_release) struct rules_diagnostics found;
    struct rule_set *set = unit_made(rules_compile(NULL, 0, &found));
    ck_assert_uint_eq(set->n_metrics + set->n_tests + found.n, 0);
    rules_set_free(set);
}
