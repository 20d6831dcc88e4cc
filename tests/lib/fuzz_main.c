/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a LLVMFuzzerTestOneInput without libFuzzer: every file of the corpus folder (argv[1]) as it is, then a
 * fixed number of its mutations from a fixed seed, so that the everyday suite always runs the same inputs.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define ROUNDS     4000      /* mutated inputs in all, spread over the corpus */
#define INPUT_MAX  (1 << 18) /* longer corpus files are cut: a unit of fuzzing should be quick */
#define INPUTS_MAX 4096

static uint64_t seed = 0x9e3779b97f4a7c15u;

static uint32_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32);
}

/* An exact-size heap copy, so that a sanitizer sees a read past the end. */
static void run_one(const uint8_t *data, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    if (!copy)
        abort();
    memcpy(copy, data, len);
    LLVMFuzzerTestOneInput(copy, len);
    free(copy);
}

static size_t mutate(uint8_t *data, size_t len)
{
    for (uint32_t n = 1 + next_random() % 4; n > 0 && len > 0; n--) {
        size_t at = next_random() % len;
        switch (next_random() % 5) {
        case 0: data[at] ^= (uint8_t)(1u << next_random() % 8); break;
        case 1: data[at] = (uint8_t)next_random(); break;
        case 2: data[at] = next_random() % 2 ? 0xff : 0x00; break;
        case 3: len = at; break;
        case 4: {
            size_t from = next_random() % len, n_bytes = 1 + next_random() % 16;
            if (from + n_bytes <= len && at + n_bytes <= len)
                memmove(data + at, data + from, n_bytes);
            break;
        }
        }
    }
    return len;
}

int main(int argc, char **argv)
{
    static uint8_t *input[INPUTS_MAX];
    static size_t input_len[INPUTS_MAX];
    size_t n_inputs = 0;

    DIR *dir = argc > 1 ? opendir(argv[1]) : NULL;
    for (struct dirent *entry; dir && (entry = readdir(dir)) && n_inputs < INPUTS_MAX;) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        FILE *f = fopen(path, "rb");
        if (!f)
            continue;
        input[n_inputs] = malloc(INPUT_MAX);
        if (!input[n_inputs])
            abort();
        input_len[n_inputs] = fread(input[n_inputs], 1, INPUT_MAX, f);
        n_inputs++;
        fclose(f);
    }
    if (dir)
        closedir(dir);
    if (n_inputs == 0) {
        fprintf(stderr, "%s: no corpus in %s\n", argv[0], argc > 1 ? argv[1] : "(no folder named)");
        return 1;
    }

    for (size_t i = 0; i < n_inputs; i++)
        run_one(input[i], input_len[i]);
    run_one((const uint8_t *)"", 0);

    uint8_t *scratch = malloc(INPUT_MAX);
    if (!scratch)
        abort();
    for (int round = 0; round < ROUNDS; round++) {
        size_t i = next_random() % n_inputs;
        memcpy(scratch, input[i], input_len[i]);
        run_one(scratch, mutate(scratch, input_len[i]));
    }
    free(scratch);
    for (size_t i = 0; i < n_inputs; i++)
        free(input[i]);

    const char *results_path = getenv("PG_RESULTS");
    FILE *results = results_path ? fopen(results_path, "a") : NULL;
    const char *name = strrchr(argv[0], '/');
    name = name ? name + 1 : argv[0];
    if (results) {
        fprintf(results, "pass %s\n", name);
        fclose(results);
    }
    printf("%s: %zu corpus files and %d mutations\n", name, n_inputs, ROUNDS);
    return 0;
}
