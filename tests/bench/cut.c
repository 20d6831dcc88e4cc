/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/write */
/*
 * Cuts small requests out of captured ones, as small producers send them: five neighbouring samples with the
 * part of the dictionary that they reach.
 *
 *   cut FOLDER FILE…     writes FOLDER/small-0000.pb …
 */
#include <stdio.h>
#include <stdlib.h>

#include "proto/otlp/view/profiles.h"
#include "proto/otlp/write/subset.h"
#include "tests/bench/whole_file.h"

#define SAMPLES 5u
#define PIECES  8u /* from each file, spread over it */

static int write_piece(const struct profiles *view, uint32_t from, const char *folder, unsigned number)
{
    struct arena scratch = {0};
    struct buffer out = {0};
    uint64_t *keep = calloc(SUBSET_WORDS(view->sample.n) + 1, sizeof *keep);
    if (!keep)
        return -1;
    for (uint32_t i = from; i < from + SAMPLES && i < view->sample.n; i++)
        subset_add(keep, i);
    int r = profiles_subset(view, keep, NULL, &scratch, &out);
    char path[4096];
    snprintf(path, sizeof path, "%s/small-%04u.pb", folder, number);
    FILE *f = r == 0 ? fopen(path, "wb") : NULL;
    r = f && fwrite(out.p, 1, out.n, f) == out.n ? 0 : -1;
    if (f)
        fclose(f);
    free(keep);
    arena_release(&scratch);
    buffer_release(&out);
    return r;
}

int main(int argc, char **argv)
{
    struct profiles view;
    struct error e = {""};
    unsigned number = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: cut FOLDER FILE...\n");
        return 2;
    }
    if (profiles_init(&view, NULL) < 0)
        return 1;
    for (int i = 2; i < argc; i++) {
        size_t n;
        uint8_t *body = whole_file(argv[i], PROFILES_PADDING, &n);
        if (!body || profiles_decode(&view, bytes_of(body, n), &profiles_limits_default, &e) != 0) {
            fprintf(stderr, "cut: %s: %s\n", argv[i], e.text[0] ? e.text : "cannot be read");
            return 1;
        }
        for (unsigned piece = 0; piece < PIECES; piece++)
            if (write_piece(&view, view.sample.n / PIECES * piece, argv[1], number++) < 0)
                return 1;
        free(body);
    }
    profiles_release(&view);
    printf("%u requests of %u samples in %s\n", number, SAMPLES, argv[1]);
    return 0;
}
