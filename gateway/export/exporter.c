/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/exporter.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"

static const struct exporter_kind *whole(const struct config_kind *kind)
{
    return container_of(kind, const struct exporter_kind, config);
}

int exporter_open(struct exporter **ret, const struct config_kind *kind, const void *settings,
                  const struct export_context *c, struct error *e)
{
    struct exporter *x = calloc(1, whole(kind)->size);
    if (!x)
        return error_set(e, -ENOMEM, "%s: out of memory", c->name);
    x->kind = whole(kind);
    int r = x->kind->open(x, settings, c, e);
    if (r < 0) {
        exporter_free(x);
        return error_prefix(e, r, "%s: ", c->name);
    }
    *ret = x;
    return 0;
}

struct export_stream exporter_stream(const struct config_kind *kind, const void *settings)
{
    struct export_stream s = {0};
    if (whole(kind)->stream)
        whole(kind)->stream(settings, &s);
    return s;
}

bool exporter_is_ready(struct exporter *x)
{
    return !x->kind->is_ready || x->kind->is_ready(x);
}

void exporter_push_metrics(struct exporter *x, const struct metric_batch *batch)
{
    if (metric_batch_points(batch) > 0)
        x->kind->push_metrics(x, batch);
}

bool exporter_has_room(struct exporter *x, size_t n)
{
    bool has_room = x->kind->reserve(x, n);
    if (has_room)
        x->kind->cancel(x, n);
    return has_room;
}

void exporter_drain(struct exporter *x, uint64_t deadline_ns, void (*done)(void *user), void *user)
{
    x->kind->drain(x, deadline_ns, done, user);
}

int64_t exporter_tls_expiry(const struct exporter *x)
{
    return x->kind->tls_expiry ? x->kind->tls_expiry(x) : INT64_MAX;
}

struct exporter *exporter_free(struct exporter *x)
{
    if (x)
        x->kind->release(x);
    free(x);
    return NULL;
}
