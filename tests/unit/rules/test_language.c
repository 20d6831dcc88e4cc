/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules/prove */
/* Every file of tests/golden/language compiles, and its tests pass: the specification, sentence by
 * sentence. */
#include <dirent.h>

#include "tests/unit/rules/rules_helper.h"

#define FOLDER PG_SOURCE_DIR "/tests/golden/language"

/* How many tests the file has, all of which pass. */
static uint32_t pass(const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, FOLDER "/%s", name);
    FILE *f = unit_made(fopen(path, "rb"));
    autofree char *text = unit_made(calloc(1, 1 << 16));
    size_t n = fread(text, 1, (1 << 16) - 1, f);
    fclose(f);
    struct rules_input input = {name, bytes_of(text, n), false};
    struct rule_set *set = compile_set(&input, 1);
    const uint32_t run = pass_tests(set);
    rules_set_free(set);
    return run;
}

UNIT(sentence_by_sentence)
{
    DIR *dir = opendir(FOLDER);
    uint32_t files = 0, tests = 0;
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        size_t n = strlen(entry->d_name);
        if (n < 7 || strcmp(entry->d_name + n - 6, ".rules") != 0)
            continue;
        tests += pass(entry->d_name);
        files++;
    }
    closedir(dir);
    ck_assert_uint_ge(files, 6);
    ck_assert_uint_ge(tests, 40);
}
