/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/intakes.h"

#include <stdio.h>
#include <string.h>

#include "gateway/serve/convert/convert.h"
#include "gateway/serve/otlp/otlp.h"
#include "gateway/serve/pprof/pprof.h"
#include "gateway/serve/pyroscope/pyroscope.h"

const struct intake *const intakes[] = {
    &otlp_grpc,
    &otlp_http_proto,
    &otlp_http_json,
    &pprof_http,
    &pyroscope_push_grpc,
    &pyroscope_push_proto,
    &pyroscope_push_json,
    &parca_write_raw,
    &parca_write_raw_json,
    &parca_write_arrow,
    &pyroscope_ingest,
    &pyroscope_ingest_below,
    &convert_http,
    NULL,
};

bool intake_has_media(const struct intake *intake, struct bytes type)
{
    if (type.n == 0) /* what may be assumed then; RFC 9110 §8.3 */
        type = BYTES_LIT("application/octet-stream");
    for (const char *const *media = intake->media; *media; media++)
        if (bytes_is_nocase(type, *media) || strcmp(*media, INTAKE_ANY_MEDIA) == 0)
            return true;
    return false;
}

const char *intakes_media(const struct intake *intake, const char *between, char *out, size_t max)
{
    size_t n = 0;
    out[0] = 0;
    for (const struct intake *const *i = intakes; *i; i++) {
        if ((*i)->protocol != intake->protocol || !bytes_eq((*i)->path, intake->path))
            continue;
        for (const char *const *media = (*i)->media; *media && n < max; media++)
            n += (size_t)snprintf(out + n, max - n, "%s%s", n ? between : "", *media);
    }
    return out;
}

const struct intake_words *intakes_default_words(void)
{
    return otlp_http_json.words;
}
