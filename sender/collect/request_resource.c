/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <time.h>

#include "proto/base/clock.h"
#include "sender/collect/parts.h"
#include "sender/collect/resource.h"
#include "sender/collect/text.h"

#define SCHEMA_URL BYTES_LIT("https://opentelemetry.io/schemas/1.37.0")
#define SCOPE_NAME BYTES_LIT("profsend")

static void text_attr(struct attr *attrs, uint32_t *n, const char *key, struct bytes value)
{
    if (value.n)
        attrs[(*n)++] = (struct attr){bytes_str(key), {.kind = ATTR_STRING, .text = value}};
}

/* Kernel threads are the kernel's work: they have no executable to be named after. */
static struct bytes service_name(const struct window_process *p)
{
    if (p->service_name.n)
        return p->service_name;
    return p->process->is_kernel ? BYTES_LIT("kernel") : p->process->name;
}

static void int_attr(struct attr *attrs, uint32_t *n, const char *key, uint32_t value)
{
    if (value != UINT32_MAX)
        attrs[(*n)++] = (struct attr){bytes_str(key), {.kind = ATTR_INT, .integer = value}};
}

/* process.creation.time: ISO 8601, UTC (semantic conventions, "Process"). */
static struct bytes creation_time(const struct request_facts *f, const struct process *p, char to[32])
{
    uint64_t unix_ns = p->start + (uint64_t)f->boot_offset;
    time_t seconds = (time_t)(unix_ns / NSEC_PER_SEC);
    struct tm utc;
    size_t n = p->start && gmtime_r(&seconds, &utc) ? strftime(to, 32, "%Y-%m-%dT%H:%M:%S", &utc) : 0;
    if (n)
        n += (size_t)snprintf(to + n, 32 - n, ".%03uZ", (unsigned)(unix_ns % NSEC_PER_SEC / NSEC_PER_MSEC));
    return bytes_of(to, n);
}

static bool says(const struct identity *identity, const char *key)
{
    for (uint32_t i = 0; identity && i < identity->n; i++)
        if (bytes_is(identity->attr[i].key, key))
            return true;
    return false;
}

/* Of which runtime a process has frames, or had in a window before: it is not another resource in one
 * without. What it says of that itself goes before. */
static void runtime_attrs(struct attr *attrs, uint32_t *n, const struct window_process *of)
{
    struct process *p = of->process;
    if (!p->runtime_name && of->word && word_call(of->word)) {
        p->runtime_name = word_runtime(of->word)->name;
        snprintf(p->runtime_version, sizeof p->runtime_version, "%s", word_version(of->word));
    }
    if (!p->runtime_name)
        return;
    if (!says(of->identity, "process.runtime.name"))
        text_attr(attrs, n, "process.runtime.name", bytes_str(p->runtime_name));
    if (!says(of->identity, "process.runtime.version"))
        text_attr(attrs, n, "process.runtime.version", bytes_str(p->runtime_version));
}

/* What a process may say of its pod unless somebody knows better. */
static bool is_pod_s(struct bytes key)
{
    return bytes_is(key, "k8s.pod.name") || bytes_is(key, "k8s.namespace.name") ||
           bytes_is(key, "k8s.container.name");
}

double resource_read(struct resource *ret, const struct request_facts *f, const struct window_process *of)
{
    const struct process *p = of->process;
    const struct identity *identity = of->identity;
    struct attr *attrs = ret->attr;
    uint32_t n = 0;
    attrs[n++] = (struct attr){BYTES_LIT("process.pid"), {.kind = ATTR_INT, .integer = p->pid}};
    if (!p->is_kernel) {
        text_attr(attrs, &n, "process.executable.name", text_clean(p->name, ret->scratch[0]));
        if (bytes_starts(p->path, "/"))
            text_attr(attrs, &n, "process.executable.path", text_clean(p->path, ret->scratch[1]));
        int_attr(attrs, &n, "process.parent_pid", p->parent);
        int_attr(attrs, &n, "process.real_user.id", p->user);
        text_attr(attrs, &n, "process.creation.time", creation_time(f, p, ret->created));
    }
    runtime_attrs(attrs, &n, of);
    text_attr(attrs, &n, "container.id", p->container_id);
    bool has_pod = f->pods && pods_find(f->pods, p->container_id, &ret->pod);
    if (has_pod) {
        text_attr(attrs, &n, "k8s.pod.name", bytes_str(ret->pod.pod));
        text_attr(attrs, &n, "k8s.namespace.name", bytes_str(ret->pod.space));
        text_attr(attrs, &n, "k8s.container.name", bytes_str(ret->pod.container));
    }
    text_attr(attrs, &n, "service.name", text_clean(service_name(of), ret->scratch[2]));
    text_attr(attrs, &n, "host.name", text_clean(f->host_name, ret->scratch[3]));
    text_attr(attrs, &n, "host.id", f->host_id);
    text_attr(attrs, &n, "host.arch", f->host_arch);
    text_attr(attrs, &n, "os.type", BYTES_LIT("linux"));
    text_attr(attrs, &n, "os.version", f->os_version);
    text_attr(attrs, &n, "os.description", f->os_description);
    /* What it says of itself: names that only we may give are not among them, but for the service's. Text
     * that is no UTF-8 is left out. */
    for (uint32_t i = 0; identity && i < identity->n; i++) {
        const struct attr *said = &identity->attr[i];
        bool is_text = said->value.kind == ATTR_STRING;
        if (!bytes_is(said->key, "service.name") && !(has_pod && is_pod_s(said->key)) &&
            bytes_is_utf8(said->key) && (!is_text || bytes_is_utf8(said->value.text)))
            attrs[n++] = *said;
    }
    struct relabel_labels labels = {attrs, n, RESOURCE_MAX, &ret->text};
    arena_reset(&ret->text, RESOURCE_TEXT_KEPT);
    double share = f->relabel ? relabel_apply(f->relabel, &labels) : 1;
    ret->n = labels.n;
    return share;
}

void request_resource(struct writer *w, const struct window_process *of)
{
    (void)resource_read(w->resource, w->facts, of);
    build_resource(w->b, w->resource->attr, w->resource->n, SCHEMA_URL);
    build_scope(w->b, SCOPE_NAME, BYTES_LIT(PROFGATE_VERSION), NULL, 0, SCHEMA_URL);
}
