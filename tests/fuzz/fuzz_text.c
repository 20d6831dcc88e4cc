/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/convert proto/otlp/view proto/pprof */
/*
 * Stacks as text: the first byte says in which format. Any bytes are refused with words or become a request
 * that the view takes, within its bounds; and folded stacks that are written of it and read again are the
 * same.
 */
#include <string.h>

#include "proto/convert/from_text.h"
#include "proto/convert/to_folded.h"
#include "tests/fuzz/fuzz.h"

#define OUT_MAX (16u << 20)

static const struct from_text_options options = {.origin = {.scope = {(const uint8_t *)"fuzz", 4}}};
static const struct profiles_limits limits = {.column_bytes = 256u << 20, .depth = 64};

/* The request as folded stacks; nothing if it is none that the view takes. */
static void fold(struct bytes request, struct buffer *out)
{
    cleanup(profiles_release) struct profiles view;
    struct error e = {""};
    require(profiles_init(&view, NULL) == 0);
    int r = profiles_decode_as(&view, request, PROFILES_LAYOUT_1_10, &limits, &e);
    require(r == 0 || r == PROFILES_TOO_LARGE);
    if (r == 0)
        (void)to_folded(&view, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct budget budget = BUDGET_INIT(64u << 20, NULL);
    struct buffer out = BUFFER_INIT(OUT_MAX), again = BUFFER_INIT(OUT_MAX), folded = BUFFER_INIT(OUT_MAX),
                  twice = BUFFER_INIT(OUT_MAX);
    struct error e = {""};
    struct from_text *c = from_text_new(&budget);
    struct bytes text = len > 0 ? bytes_of(data + 1, len - 1) : bytes_of(data, 0);
    enum from_text_format format = (enum from_text_format)(FROM_TEXT_FOLDED + (len > 0 ? data[0] % 3 : 0));
    require(c);
    (void)from_text_guess(text);
    int r = from_text(c, format, text, &options, &out, &e);
    require((r == FROM_TEXT_MALFORMED) == (e.text[0] != '\0') && (r == 0 || out.n == 0));
    if (r == 0)
        fold(buffer_bytes(&out), &folded);
    if (folded.n > 0 && from_text(c, FROM_TEXT_FOLDED, buffer_bytes(&folded), &options, &again, &e) == 0) {
        fold(buffer_bytes(&again), &twice);
        struct bytes one = buffer_bytes(&folded), other = buffer_bytes(&twice);
        /* Names may look like counts and comments, or be equal where they were not. */
        require(format != FROM_TEXT_FOLDED || other.n <= one.n);
    }
    budget_refund(&budget, out.cap + again.cap);
    buffer_release(&out);
    buffer_release(&again);
    buffer_release(&folded);
    buffer_release(&twice);
    from_text_free(c);
    require(budget.used == 0);
    return 0;
}
