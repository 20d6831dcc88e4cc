/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/view */
/*
 * Writes captured requests in variants (vary.h), as a fleet of many different programs sends them.
 *
 *   vary FOLDER FIRST VARIANTS FILE…     writes FOLDER/00000-NAME …, all files of a variant after one
 * another; variants are numbered, and those of other numbers have other names
 */
#include "tests/bench/vary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/whole_file.h"

static int write_variants(const char *folder, uint32_t first, uint32_t variants, const char *from)
{
    const char *slash = strrchr(from, '/'), *name = slash ? slash + 1 : from;
    struct profiles view;
    struct varied varied;
    struct error e = {""};
    size_t n;
    uint8_t *body = whole_file(from, PROFILES_PADDING, &n);
    if (!body || profiles_init(&view, NULL) < 0 ||
        profiles_decode(&view, bytes_of(body, n), &profiles_limits_default, &e) != 0 ||
        varied_find(&varied, &view) < 0) {
        fprintf(stderr, "vary: %s: %s\n", from, e.text[0] ? e.text : "cannot be read");
        return -1;
    }
    for (uint32_t i = first; i < first + variants; i++) {
        char path[4096];
        varied_set(&varied, i);
        snprintf(path, sizeof path, "%s/%05u-%s", folder, i, name);
        FILE *f = fopen(path, "wb");
        bool written = f && fwrite(body, 1, n, f) == n;
        if (!f || fclose(f) != 0 || !written) {
            perror(path);
            return -1;
        }
    }
    free(varied.end);
    free(body);
    profiles_release(&view);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long first = argc > 4 ? strtoul(argv[2], NULL, 10) : 0;
    unsigned long variants = argc > 4 ? strtoul(argv[3], NULL, 10) : 0;
    if (variants == 0 || variants > VARIED_MAX || first > VARIED_MAX - variants) {
        fprintf(stderr, "usage: vary FOLDER FIRST VARIANTS FILE...   (%u variants there are)\n", VARIED_MAX);
        return 2;
    }
    for (int i = 4; i < argc; i++)
        if (write_variants(argv[1], (uint32_t)first, (uint32_t)variants, argv[i]) < 0)
            return 1;
    return 0;
}
