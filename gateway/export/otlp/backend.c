/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/otlp/backend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"

/* Each of these would be a series of a process. */
static const char *const of_processes[] = {"process.pid", "process.parent_pid", "process.creation.time",
                                           NULL};

struct preset {
    size_t request_max;
    bool grpc_only;
    struct subset_form form;
};

static const struct preset presets[] = {
    [OTLP_ANY] = {SIZE_MAX, false, {0}},
    [OTLP_COLLECTOR] = {SIZE_MAX, false, {0}},
    [OTLP_PARCA] = {64u << 20,
                    true,
                    {.functions_twice = true,
                     .sums = true,
                     .clamps = true,
                     .plain_types = true,
                     .scope_name = "profgate"}},
    [OTLP_PYROSCOPE] = {4u << 20,
                        false,
                        {.untimed = true,
                         .plain_types = true,
                         .names_service = true,
                         .no_blank_frames = true,
                         .frames_max = 1000,
                         .samples_max = 16000,
                         .without = of_processes}},
};

/* ---- settings ---- */

int backend_check(const struct otlp_settings *s, struct error *e)
{
    const struct preset *preset = &presets[s->backend];
    const char *name = otlp_backends[s->backend].word;
    if (s->backend == OTLP_ANY || s->backend == OTLP_COLLECTOR)
        return 0;
    if (preset->grpc_only && s->protocol != OTLP_GRPC)
        return error_set(e, -EINVAL, "backend: %s takes profiles by gRPC alone (protocol: grpc)", name);
    if (s->compression == CLIENT_COMPRESS_ZSTD)
        return error_set(e, -EINVAL, "backend: %s takes no zstd (compression: gzip or none)", name);
    if (s->wire_version != OTLP_LAYOUT_1_10)
        return error_set(e, -EINVAL, "backend: %s reads wire_version 1.10 alone", name);
    if (s->sending.request_bytes > preset->request_max)
        return error_set(e, -EINVAL, "backend: %s takes no more than %zuMiB (max_request_bytes)", name,
                         preset->request_max >> 20);
    return 0;
}

size_t backend_request_max(const struct otlp_settings *s)
{
    return min_of((size_t)s->sending.request_bytes, presets[s->backend].request_max);
}

bool backend_rewrites(const struct otlp_settings *s)
{
    return s->backend == OTLP_PARCA || s->backend == OTLP_PYROSCOPE || s->text_attributes.n > 0;
}

struct pieces *backend_pieces(const struct otlp_settings *s, struct budget *budget, const char ***ret_texts)
{
    const uint32_t n = s->text_attributes.n;
    struct pieces_options options = {
        .form = presets[s->backend].form, .request_max = backend_request_max(s), .budget = budget};
    const char **texts = calloc((size_t)n + 1, sizeof *texts); /* ends with NULL */
    if (!texts)
        return NULL;
    if (n > 0) {
        memcpy(texts, s->text_attributes.items, n * sizeof *texts);
        options.form.texts = texts;
    }
    *ret_texts = texts;
    return pieces_new(&options);
}
