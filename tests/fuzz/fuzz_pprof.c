/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/convert proto/otlp/view proto/pprof */
/*
 * pprof on its way in and out: any bytes are refused with words or become a request that the view takes
 * whole, within its bounds; and what goes back to pprof and in again is the same to the last byte.
 */
#include <string.h>

#include "proto/convert/from_pprof.h"
#include "proto/convert/to_folded.h"
#include "proto/convert/to_pprof.h"
#include "tests/fuzz/fuzz.h"

#define OUT_MAX (16u << 20)

static const struct from_pprof_origin origin = {.scope = {(const uint8_t *)"fuzz", 4}};

/* The same through pprof once more. */
static void go_around(struct from_pprof *c, struct budget *budget, const struct profiles *view,
                      struct bytes request)
{
    struct buffer pprof = BUFFER_INIT(OUT_MAX), again = BUFFER_INIT(OUT_MAX), folded = BUFFER_INIT(OUT_MAX);
    struct to_pprof_lost lost;
    struct error e = {""};
    if (to_pprof(view, NULL, &pprof, &lost) == 0) {
        require(lost.moments == 0 && lost.attributes == 0 && lost.lines == 0);
        int r = from_pprof(c, buffer_bytes(&pprof), &origin, &again, &e);
        require(r == 0 || r == FROM_PPROF_TOO_LARGE);
        /* What is escaped for a string that nothing refers to is not escaped the next time. */
        bool is_escaped = memmem(request.p, request.n, "escaped_strings", 15);
        if (r == 0 && view->rejected.samples == 0 && view->profile.n > 0 && !is_escaped)
            require(bytes_eq(request, buffer_bytes(&again)));
    }
    (void)to_folded(view, &folded);
    buffer_release(&pprof);
    budget_refund(budget, again.cap);
    buffer_release(&again);
    buffer_release(&folded);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct profiles_limits limits = {.column_bytes = 256u << 20, .depth = 64};
    struct budget budget = BUDGET_INIT(64u << 20, NULL);
    struct buffer out = BUFFER_INIT(OUT_MAX);
    struct error e = {""};
    struct profiles view;
    struct from_pprof *c = from_pprof_new(&budget);
    require(c && profiles_init(&view, NULL) == 0);
    int r = from_pprof(c, bytes_of(data, len), &origin, &out, &e);
    require((r == PPROF_MALFORMED) == (e.text[0] != '\0') && (r == 0 || out.n == 0));
    if (r == 0 && profiles_decode_as(&view, buffer_bytes(&out), PROFILES_LAYOUT_1_10, &limits, &e) == 0)
        go_around(c, &budget, &view, buffer_bytes(&out));
    profiles_release(&view);
    budget_refund(&budget, out.cap);
    buffer_release(&out);
    from_pprof_free(c);
    require(budget.used == 0);
    return 0;
}
