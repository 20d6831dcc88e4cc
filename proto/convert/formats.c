/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/convert/formats.h"

#include "proto/convert/to_folded.h"
#include "proto/convert/to_speedscope.h"
#include "proto/otlp/json/write.h"
#include "proto/otlp/write/subset.h"

/* What is kept of the scratch for the next request. */
#define KEEP_BYTES ((size_t)1 << 30)

/* In today's layout, with what no sample needs where it was in another. */
static int write_otlp(const struct profiles *view, struct arena *scratch, struct buffer *out)
{
    arena_reset(scratch, KEEP_BYTES);
    return profiles_subset(view, NULL, NULL, scratch, out);
}

static int write_json(const struct profiles *view, struct bytes otlp, struct arena *scratch,
                      struct buffer *out)
{
    struct buffer translated = BUFFER_INIT(out->max);
    const bool is_old = view->layout != PROFILES_LAYOUT_1_10;
    int r = is_old ? write_otlp(view, scratch, &translated) : 0;
    r = r != 0 ? r : profiles_json_write(is_old ? buffer_bytes(&translated) : otlp, out);
    buffer_release(&translated);
    return r;
}

int convert_write(const struct profiles *view, struct bytes otlp, enum convert_format format,
                  struct arena *scratch, struct budget *budget, struct buffer *out,
                  struct to_pprof_lost *ret_lost)
{
    switch (format) {
    case CONVERT_PPROF: return to_pprof(view, budget, out, ret_lost);
    case CONVERT_JSON: return write_json(view, otlp, scratch, out);
    case CONVERT_FOLDED: return to_folded(view, out);
    case CONVERT_SPEEDSCOPE: return to_speedscope(view, budget, out);
    case CONVERT_OTLP:
    case CONVERT_UNSAID: break;
    }
    return view->layout == PROFILES_LAYOUT_1_10 ? buffer_add_bytes(out, otlp)
                                                : write_otlp(view, scratch, out);
}
