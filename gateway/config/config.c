/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/config/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/config/rows.h"
#include "proto/base/nearest.h"
#include "proto/base/settings/file.h"

static const char *const default_endpoints[] = {"localhost:4317", "localhost:4318"};

struct config *config_new(const struct config_kind *const *kinds)
{
    static const struct config_kind *const none[] = {NULL};
    struct config *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->kinds = kinds ? kinds : none;
    for (const struct settings_section *s = config_fixed; s->name; s++)
        if (settings_defaults(s, c, &c->arena) < 0)
            return config_free(c);
    if (settings_defaults(&config_kafka_section, &c->kafka, &c->arena) < 0)
        return config_free(c);
    for (uint32_t i = 0; i < 2; i++)
        if (config_add_listen(c, default_endpoints[i], i == 0, NULL) < 0)
            return config_free(c);
    return c;
}

struct config *config_free(struct config *c)
{
    if (c)
        arena_release(&c->arena);
    free(c);
    return NULL;
}

static int note_flag(struct config *c, const char *key, struct error *e)
{
    struct config_flag *f = arena_calloc(&c->arena, 1, sizeof *f);
    struct bytes copy = arena_copy(&c->arena, bytes_str(key));
    if (!f || !copy.p)
        return error_set(e, -ENOMEM, "out of memory");
    *f = (struct config_flag){(const char *)copy.p, c->flags};
    c->flags = f;
    return 0;
}

int config_add_receiver(struct config *c, const struct config_receiver *receiver, bool first, struct error *e)
{
    uint32_t n = first ? 0 : c->n_receivers;
    struct config_receiver *all = arena_calloc(&c->arena, n + 1, sizeof *all);
    struct bytes copy = arena_copy(&c->arena, bytes_str(receiver->endpoint));
    if (!all || !copy.p)
        return error_set(e, -ENOMEM, "out of memory");
    if (copy.n == 0)
        return error_set(e, -EINVAL, "an address to listen on is host:port, not empty");
    if (n > 0)
        memcpy(all, c->receivers, n * sizeof *all);
    all[n] = *receiver;
    all[n].endpoint = (const char *)copy.p;
    c->receivers = all;
    c->n_receivers = n + 1;
    return 0;
}

int config_add_listen(struct config *c, const char *endpoint, bool first, struct error *e)
{
    struct config_receiver receiver = {0};
    if (settings_defaults(&config_receiver_section, &receiver, &c->arena) < 0)
        return error_set(e, -ENOMEM, "out of memory");
    receiver.endpoint = endpoint;
    int r = note_flag(c, "receivers.otlp", e);
    return r < 0 ? r : config_add_receiver(c, &receiver, first, e);
}

/* "receivers.otlp.KEY" is said of all of them; each has an endpoint of its own, which --listen gives. */
static int set_receivers(struct config *c, const char *key, const char *value, struct error *e)
{
    const struct settings_row *row = settings_find(&config_receiver_section, bytes_str(key));
    if (!row || strcmp(key, "endpoint") == 0)
        return error_set(e, -EINVAL, "receivers.otlp.%s cannot be set for all addresses at once", key);
    for (uint32_t i = 0; i < c->n_receivers; i++) {
        int r = settings_set(row, &c->receivers[i], value, &c->arena, e);
        if (r < 0)
            return error_prefix(e, r, "receivers.otlp.%s: ", key);
    }
    return note_flag(c, "receivers.otlp", e);
}

static int set_kafka(struct config *c, const char *key, const char *value, struct error *e)
{
    const struct settings_row *row = settings_find(&config_kafka_section, bytes_str(key));
    if (!row)
        return error_set(e, -EINVAL, "there is no key receivers.kafka.%s", key);
    int r = settings_set(row, &c->kafka, value, &c->arena, e);
    c->has_kafka = true;
    return r < 0 ? error_prefix(e, r, "receivers.kafka.%s: ", key) : note_flag(c, "receivers.kafka", e);
}

/* With the key that was meant: its section, too, may be misspelt or missing. */
static int no_key(const char *key, struct error *e)
{
    struct settings_key_name best = settings_key_meant(config_fixed, key);
    struct nearest near;
    nearest_start(&near, bytes_str(key));
    for (const struct settings_section *s = config_fixed; s->name; s++)
        for (uint32_t i = 0; i < s->n_rows; i++) {
            struct settings_key_name full;
            snprintf(full.s, sizeof full.s, "%s.%s", s->name, s->rows[i].key);
            if (nearest_offer(&near, bytes_str(full.s)))
                best = full;
        }
    return error_set(e, -EINVAL, "there is no key \"%s\"%s (profgate serve --help-config lists them)", key,
                     nearest_ask(bytes_str(best.s)).s);
}

int config_set(struct config *c, const char *key, const char *value, struct error *e)
{
    static const char receivers[] = "receivers.otlp.", kafka[] = "receivers.kafka.";
    if (strncmp(key, receivers, sizeof receivers - 1) == 0)
        return set_receivers(c, key + sizeof receivers - 1, value, e);
    if (strncmp(key, kafka, sizeof kafka - 1) == 0)
        return set_kafka(c, key + sizeof kafka - 1, value, e);
    for (const struct settings_section *s = config_fixed; s->name; s++) {
        size_t n = strlen(s->name);
        if (strncmp(key, s->name, n) != 0 || key[n] != '.')
            continue;
        const struct settings_row *row = settings_find(s, bytes_str(key + n + 1));
        if (row) {
            int r = settings_set(row, c, value, &c->arena, e);
            return r < 0 ? error_prefix(e, r, "%s: ", key) : note_flag(c, key, e);
        }
    }
    return no_key(key, e);
}

const struct config_exporter *config_exporter(const struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_exporters; i++)
        if (strcmp(c->exporters[i].name, name) == 0)
            return &c->exporters[i];
    return NULL;
}

struct check {
    void (*tell)(void *user, const char *key, const char *text);
    void *user;
    int r; /* of the first complaint */
};

static void __attribute__((format(printf, 3, 4)))
complain(struct check *k, const char *key, const char *format, ...)
{
    struct error e;
    va_list args;
    va_start(args, format);
    vsnprintf(e.text, sizeof e.text, format, args);
    va_end(args);
    k->tell(k->user, key, e.text);
    if (k->r == 0)
        k->r = -EINVAL;
}

/* "; did you mean NAME?", or nothing, of the exporters that take the signal. */
static struct nearest_text meant(const struct config *c, const char *name, enum config_takes signal)
{
    struct nearest near;
    nearest_start(&near, bytes_str(name));
    if (signal == CONFIG_TAKES_METRICS)
        nearest_offer(&near, BYTES_LIT("prometheus"));
    for (uint32_t i = 0; i < c->n_exporters; i++)
        if (c->exporters[i].kind->takes & signal)
            nearest_offer(&near, bytes_str(c->exporters[i].name));
    return nearest_ask(near.best);
}

static void check_names(struct check *k, const struct config *c, const struct settings_strings *names,
                        const char *key, enum config_takes signal)
{
    for (uint32_t i = 0; i < names->n; i++) {
        const char *name = names->items[i];
        const struct config_exporter *x = config_exporter(c, name);
        if (signal == CONFIG_TAKES_METRICS && strcmp(name, "prometheus") == 0)
            continue;
        if (!x && strcmp(name, "prometheus") == 0)
            complain(k, key, "%s names prometheus, which takes metrics only", key);
        else if (!x)
            complain(k, key, "%s names %s, which is not among exporters%s", key, name,
                     meant(c, name, signal).s);
        else if (!(x->kind->takes & signal))
            complain(k, key, "%s names %s, which takes %s only", key, name,
                     signal == CONFIG_TAKES_METRICS ? "profiles" : "metrics");
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(names->items[j], name) == 0)
                complain(k, key, "%s names %s twice", key, name);
    }
}

static void check_door(struct check *k, const struct config_door *d, const char *key, const char *whose,
                       const char *endpoint)
{
    if ((d->tls_cert_file == NULL) != (d->tls_key_file == NULL))
        complain(k, key, "%s %s: tls.cert_file and tls.key_file go together", whose, endpoint);
    if (!d->tls_cert_file && (d->tls_client_ca_file || d->tls_allow_plaintext))
        complain(k, key, "%s %s: tls.* means nothing without tls.cert_file", whose, endpoint);
    if (d->auth_identities.n > 0 && !d->tls_client_ca_file)
        complain(k, key,
                 "%s %s: auth.identities are names in client certificates: "
                 "tls.client_ca_file must say who signs those",
                 whose, endpoint);
}

static void check_receiver(struct check *k, const struct config_receiver *r, uint32_t i)
{
    char key[64];
    snprintf(key, sizeof key, "receivers.otlp[%u]", i);
    check_door(k, &r->door, key, "receivers.otlp", r->endpoint);
    for (uint32_t p = 0; p < r->profiles_url_path.n; p++)
        if (r->profiles_url_path.items[p][0] != '/' || strpbrk(r->profiles_url_path.items[p], "?#"))
            complain(k, key, "receivers.otlp %s: profiles_url_path: %s is no path, as /v1/profiles is",
                     r->endpoint, r->profiles_url_path.items[p]);
}

/* By its number where every machine has the same. */
static struct bytes host_of(const char *address, const char *port)
{
    const struct bytes host = bytes_of(address, (size_t)(port - address));
    return bytes_is(host, "localhost") ? BYTES_LIT("127.0.0.1") : host;
}

static bool is_same_address(const char *a, const char *b)
{
    const char *port = strrchr(a, ':'), *other = strrchr(b, ':');
    if (!port || !other)
        return strcmp(a, b) == 0;
    return strcmp(port, other) == 0 && strcmp(port, ":0") != 0 &&
           bytes_eq(host_of(a, port), host_of(b, other));
}

/* The kernel would share out what comes between two that listen at one address, whoever each lets in. */
static void check_addresses(struct check *k, const struct config *c)
{
    char key[64];
    for (uint32_t i = 0; i < c->n_receivers; i++) {
        const char *address = c->receivers[i].endpoint;
        snprintf(key, sizeof key, "receivers.otlp[%u].endpoint", i);
        for (uint32_t n = 0; n < i; n++)
            if (is_same_address(address, c->receivers[n].endpoint))
                complain(k, key, "receivers.otlp: %s stands there twice", address);
        if (is_same_address(address, c->admin_endpoint))
            complain(k, "admin.endpoint", "admin.endpoint: %s is one of receivers.otlp", address);
    }
}

/* A text of an exporter's settings; NULL: its kind has no such key, or it says nothing. */
static const char *text_of(const struct config_exporter *x, const char *key)
{
    const struct settings_row *row = settings_find(&x->kind->section, bytes_str(key));
    const char *text = NULL;
    if (row && row->type == SETTINGS_TEXT)
        memcpy(&text, (const char *)x->settings + row->offset, sizeof text);
    return text && text[0] ? text : NULL;
}

static bool is_any_of_ours(const char *address)
{
    const char *port = strrchr(address, ':');
    const struct bytes host = port ? bytes_of(address, (size_t)(port - address)) : bytes_str("");
    return bytes_is(host, "0.0.0.0") || bytes_is(host, "[::]");
}

static bool is_here(const char *address)
{
    const char *port = strrchr(address, ':');
    const struct bytes host = port ? host_of(address, port) : bytes_str("");
    return bytes_is(host, "127.0.0.1") || bytes_is(host, "[::1]") || is_any_of_ours(address);
}

/* An endpoint without its scheme and path: host:port, or unix:/path. */
static bool is_of_receiver(const char *endpoint, const char *receiver)
{
    char address[300];
    const char *scheme = strstr(endpoint, "://"), *from = scheme ? scheme + 3 : endpoint;
    const bool is_unix = strncmp(from, "unix:", 5) == 0;
    snprintf(address, sizeof address, "%.*s", (int)(is_unix ? strlen(from) : strcspn(from, "/")), from);
    if (is_same_address(address, receiver))
        return true;
    const char *port = strrchr(address, ':'), *other = strrchr(receiver, ':');
    return port && other && strcmp(port, other) == 0 && strcmp(port, ":0") != 0 && is_any_of_ours(receiver) &&
           is_here(address);
}

/* What comes back to where it left counts again, leaves again, and so on for ever. */
static void check_ways(struct check *k, const struct config *c)
{
    char key[300];
    for (uint32_t i = 0; i < c->profiles_exporters.n; i++) {
        const struct config_exporter *x = config_exporter(c, c->profiles_exporters.items[i]);
        const char *endpoint = x ? text_of(x, "endpoint") : NULL;
        if (!endpoint || text_of(x, "proxy_url"))
            continue;
        snprintf(key, sizeof key, "exporters.%s.endpoint", x->name);
        for (uint32_t n = 0; n < c->n_receivers; n++)
            if (is_of_receiver(endpoint, c->receivers[n].endpoint))
                complain(k, key,
                         "exporters.%s: endpoint %s is receivers.otlp %s: profiles would come back for ever",
                         x->name, endpoint, c->receivers[n].endpoint);
    }
}

/* As a browser says in Host; a port behind it is passed over. */
static void check_hosts(struct check *k, const struct config *c)
{
    char key[64];
    for (uint32_t i = 0; i < c->admin_hosts.n; i++) {
        const char *written = c->admin_hosts.items[i], *scheme = strstr(written, "://");
        const char *name = scheme ? scheme + 3 : written;
        snprintf(key, sizeof key, "admin.hosts[%u]", i);
        if (strchr(written, '/'))
            complain(k, key, "admin.hosts: \"%s\" is not the name of a host; write %.*s", written,
                     (int)strcspn(name, "/"), name);
    }
}

/* As Prometheus has them: what else is in a URL has keys of its own, and would be passed over here. */
static void check_targets(struct check *k, const struct config_scrape *s, uint32_t i)
{
    char key[80];
    for (uint32_t n = 0; n < s->targets.n; n++) {
        const char *target = s->targets.items[n], *scheme = strstr(target, "://");
        snprintf(key, sizeof key, "receivers.pprof_scrape[%u].targets[%u]", i, n);
        if (scheme && strncmp(target, "unix:", 5) != 0)
            complain(
                k, key,
                "receivers.pprof_scrape %s: the target \"%s\" is host:port, not a URL: write %.*s (and scheme, "
                "path_prefix)",
                s->job_name, target, (int)strcspn(scheme + 3, "/"), scheme + 3);
    }
}

static void check_scrape(struct check *k, const struct config *c, uint32_t i)
{
    const struct config_scrape *s = &c->scrapes[i];
    char key[64];
    bool any_profile = false;
    snprintf(key, sizeof key, "receivers.pprof_scrape[%u]", i);
    check_targets(k, s, i);
    if (s->tenant && !c->tenant_header)
        complain(k, key, "receivers.pprof_scrape %s: tenant means nothing without tenants.header",
                 s->job_name);
    if (!s->tenant && c->tenant_required)
        complain(k, key, "receivers.pprof_scrape %s: tenant is missing, and tenants.required", s->job_name);
    for (uint32_t n = 0; n < s->profiles.n; n++)
        any_profile |= strcmp(s->profiles.items[n], "profile") == 0;
    if (s->profiles.n == 0)
        complain(k, key, "receivers.pprof_scrape %s: profiles are missing", s->job_name);
    if ((s->username == NULL) != (s->password_file == NULL) || (s->username && s->credentials_file))
        complain(k, key,
                 "receivers.pprof_scrape %s: basic_auth is username and password_file; authorization is "
                 "another way",
                 s->job_name);
    if ((s->tls_cert_file == NULL) != (s->tls_key_file == NULL))
        complain(k, key, "receivers.pprof_scrape %s: tls.cert_file and tls.key_file go together",
                 s->job_name);
    if (s->scheme == CONFIG_HTTP && (s->tls_ca_file || s->tls_cert_file || s->tls_server_name))
        complain(k, key, "receivers.pprof_scrape %s: tls.* means nothing without scheme: https", s->job_name);
    if (s->timeout_ns > s->interval_ns)
        complain(k, key, "receivers.pprof_scrape %s: scrape_timeout is longer than scrape_interval",
                 s->job_name);
    if (any_profile && s->seconds * 1000000000ull >= s->timeout_ns)
        complain(k, key,
                 "receivers.pprof_scrape %s: a profile of profile_seconds never comes within scrape_timeout",
                 s->job_name);
}

/* What is in both lists, or twice in the one; NULL: nothing. */
static const char *shared(const struct settings_strings *a, const struct settings_strings *b)
{
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t n = a == b ? i + 1 : 0; n < b->n; n++)
            if (strcmp(a->items[i], b->items[n]) == 0)
                return a->items[i];
    return NULL;
}

/* A profile of a target is asked for once in the jobs of one name: its samples would count twice, and so
 * would its series in /metrics. b may be a. */
static void check_once(struct check *k, const struct config_scrape *a, const struct config_scrape *b,
                       uint32_t i)
{
    char key[64];
    const char *name = a->job_name ? a->job_name : "", *other = b->job_name ? b->job_name : "";
    const char *target = shared(&a->targets, &b->targets), *profile = shared(&a->profiles, &b->profiles);
    if (a == b && a->profiles.n > 0 && (target || profile)) {
        target = target ? target : a->targets.items[0];
        profile = profile ? profile : a->profiles.items[0];
    }
    if (!target || !profile || strcmp(name, other) != 0)
        return;
    snprintf(key, sizeof key, "receivers.pprof_scrape[%u]", i);
    complain(k, key, "receivers.pprof_scrape %s: %s is asked for %s twice", name, target, profile);
}

static void check_topics(struct check *k, const struct settings_strings *topics)
{
    struct error e;
    char key[64];
    if (topics->n == 0)
        complain(k, "receivers.kafka.profiles.topics", "receivers.kafka: profiles.topics are missing");
    for (uint32_t i = 0; i < topics->n; i++) {
        snprintf(key, sizeof key, "receivers.kafka.profiles.topics[%u]", i);
        if (kafka_check_topic("profiles.topics", topics, i, &e) < 0)
            complain(k, key, "receivers.kafka: %s", e.text);
    }
}

static void check_kafka(struct check *k, const struct config_kafka *c)
{
    struct error e;
    if (kafka_check(&c->connection, &e) < 0)
        complain(k, "receivers.kafka", "receivers.kafka: %s", e.text);
    check_topics(k, &c->topics);
    if (!c->group_id)
        complain(k, "receivers.kafka", "receivers.kafka: group_id is missing");
    if (c->group_instance_id && kafka_check_name("group_instance_id", c->group_instance_id, &e) < 0)
        complain(k, "receivers.kafka.group_instance_id", "receivers.kafka: %s", e.text);
    if (c->heartbeat_ns >= c->session_timeout_ns)
        complain(k, "receivers.kafka",
                 "receivers.kafka: heartbeat_interval is not shorter than session_timeout");
}

static void check_tenants(struct check *k, const struct config *c)
{
    const struct config_share *t = &c->per_tenant;
    if (c->tenant_header)
        return;
    if (t->bytes_per_second > 0 || t->requests > 0 || t->memory > 0)
        complain(k, "limits.per_tenant", "limits.per_tenant means nothing without tenants.header");
    if (c->tenant_required)
        complain(k, "tenants.required", "tenants.required means nothing without tenants.header");
}

static void check_exporter(struct check *k, const struct config_exporter *x)
{
    struct error e = {""};
    char key[300];
    snprintf(key, sizeof key, "exporters.%s", x->name);
    int r = x->kind->check ? x->kind->check(x->name, x->settings, &e) : 0;
    if (r == 0)
        return;
    if (k->r == 0)
        k->r = r; /* it may be for want of memory, of which the configuration is innocent */
    complain(k, key, "%s", e.text);
}

int config_check_all(const struct config *c, void (*tell)(void *user, const char *key, const char *text),
                     void *user)
{
    struct check k = {tell, user, 0};
    if (!c->admin_endpoint) {
        complain(&k, "admin.endpoint", "admin.endpoint: host:port is missing");
        return k.r; /* what follows compares with it */
    }
    for (uint32_t i = 0; i < c->n_receivers; i++)
        check_receiver(&k, &c->receivers[i], i);
    for (uint32_t i = 0; i < c->n_scrapes; i++) {
        check_scrape(&k, c, i);
        for (uint32_t n = 0; n <= i; n++)
            check_once(&k, &c->scrapes[i], &c->scrapes[n], i);
    }
    check_addresses(&k, c);
    check_ways(&k, c);
    check_door(&k, &c->admin_door, "admin", "admin", c->admin_endpoint);
    check_hosts(&k, c);
    if (c->has_kafka)
        check_kafka(&k, &c->kafka);
    check_tenants(&k, c);
    for (uint32_t i = 0; i < c->n_exporters; i++)
        check_exporter(&k, &c->exporters[i]);
    check_names(&k, c, &c->metrics_exporters, "metrics.exporters", CONFIG_TAKES_METRICS);
    check_names(&k, c, &c->profiles_exporters, "profiles.exporters", CONFIG_TAKES_PROFILES);
    if (c->request_bytes > c->memory / 2)
        complain(&k, "limits.request_bytes",
                 "limits.request_bytes must be at most half of limits.memory, or one request could never be "
                 "read: write %" PRIu64 "MiB",
                 c->memory >> 21);
    return k.r;
}

struct first {
    const struct config *config;
    struct error *e;
};

static void keep_first(void *user, const char *key, const char *text)
{
    const struct first *f = user;
    if (f->e->text[0])
        return;
    error_set(f->e, -EINVAL, "%s", text);
    config_place(f->config, key, f->e);
}

int config_check(const struct config *c, struct error *e)
{
    struct error unheard;
    struct first first = {c, e ?: &unheard};
    first.e->text[0] = 0;
    return config_check_all(c, keep_first, &first);
}

static int print_receivers(const struct config *c, bool masked, struct buffer *out)
{
    int r = buffer_add_str(out, "receivers:\n  otlp:\n");
    for (uint32_t i = 0; i < c->n_receivers && r == 0; i++)
        r = settings_print(&config_receiver_section, &c->receivers[i], 6, true, masked, out);
    return r;
}

static int print_scrapes(const struct config *c, bool masked, struct buffer *out)
{
    int r = c->n_scrapes > 0 ? buffer_add_str(out, "  pprof_scrape:\n") : 0;
    for (uint32_t i = 0; i < c->n_scrapes && r == 0; i++)
        r = settings_print(&config_scrape_section, &c->scrapes[i], 6, true, masked, out);
    return r;
}

static int print_kafka(const struct config *c, bool masked, struct buffer *out)
{
    int r = c->has_kafka ? buffer_add_str(out, "  kafka:\n") : 0;
    return r < 0 || !c->has_kafka ? r
                                  : settings_print(&config_kafka_section, &c->kafka, 4, false, masked, out);
}

static int print_exporters(const struct config *c, bool masked, struct buffer *out)
{
    int r = c->n_exporters > 0 ? buffer_add_str(out, "exporters:\n") : 0;
    for (uint32_t i = 0; i < c->n_exporters && r == 0; i++) {
        const struct config_exporter *x = &c->exporters[i];
        r = buffer_printf(out, "  %s:\n", x->name);
        if (r == 0)
            r = settings_print(&x->kind->section, x->settings, 4, false, masked, out);
    }
    return r;
}

int config_show(const struct config *c, struct buffer *out)
{
    int r = print_receivers(c, true, out);
    r = r < 0 ? r : print_scrapes(c, true, out);
    r = r < 0 ? r : print_kafka(c, true, out);
    for (const struct settings_section *s = config_fixed; s->name && r == 0; s++) {
        r = buffer_printf(out, "%s:\n", s->name);
        if (r == 0)
            r = settings_print(s, c, 2, false, true, out);
    }
    return r < 0 ? r : print_exporters(c, true, out);
}

/* ---- what a reload cannot change ---- */

typedef int print_fn(const struct config *c, bool masked, struct buffer *out);

/* Whether `print`, or without it the row, says something else of b than of a: 1 or 0, or -ENOMEM. */
static int differs(print_fn *print, const struct settings_row *row, const struct config *a,
                   const struct config *b)
{
    cleanup(buffer_release) struct buffer first = BUFFER_INIT(0), second = BUFFER_INIT(0);
    int r = print ? print(a, false, &first) : settings_print_value(row, a, false, &first);
    if (r == 0)
        r = print ? print(b, false, &second) : settings_print_value(row, b, false, &second);
    return r < 0 ? r : !bytes_eq(buffer_bytes(&first), buffer_bytes(&second));
}

int config_scrapes_differ(const struct config *a, const struct config *b)
{
    return differs(print_scrapes, NULL, a, b);
}

int config_restart_keys(const struct config *running, const struct config *wanted,
                        void (*tell)(void *user, const char *key), void *user)
{
    int r = differs(print_receivers, NULL, running, wanted);
    if (r > 0)
        tell(user, "receivers");
    if (r >= 0 && (r = differs(print_kafka, NULL, running, wanted)) > 0)
        tell(user, "receivers.kafka");
    for (const struct settings_section *s = config_fixed; s->name && r >= 0; s++)
        for (uint32_t i = 0; i < s->n_rows && r >= 0; i++) {
            char key[128];
            r = s->rows[i].live ? 0 : differs(NULL, &s->rows[i], running, wanted);
            snprintf(key, sizeof key, "%s.%s", s->name, s->rows[i].key);
            if (r > 0)
                tell(user, key);
        }
    if (r >= 0 && (r = differs(print_exporters, NULL, running, wanted)) > 0)
        tell(user, "exporters");
    return r < 0 ? r : 0;
}

int config_reference(const struct config *c, struct buffer *out)
{
    int r = buffer_add_str(
        out,
        "Configuration keys, in YAML. ${env:NAME} and ${env:NAME:-default} are replaced everywhere;\n"
        "a variable that is empty is refused by the first, and is the default by the second.\n"
        "SIGHUP reads the configuration anew: keys marked live change at once, others need a restart.\n");
    if (r == 0)
        r = settings_reference(&config_receiver_section, out);
    if (r == 0)
        r = settings_reference(&config_scrape_section, out);
    if (r == 0)
        r = settings_reference(&config_kafka_section, out);
    for (const struct settings_section *s = config_fixed; s->name && r == 0; s++)
        r = settings_reference(s, out);
    for (const struct config_kind *const *k = c->kinds; *k && r == 0; k++)
        r = settings_reference(&(*k)->section, out);
    return r;
}
