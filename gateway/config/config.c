/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/config/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/config/rows.h"

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
    return config_add_receiver(c, &receiver, first, e);
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
    return 0;
}

int config_set(struct config *c, const char *key, const char *value, struct error *e)
{
    static const char receivers[] = "receivers.otlp.";
    if (strncmp(key, receivers, sizeof receivers - 1) == 0)
        return set_receivers(c, key + sizeof receivers - 1, value, e);
    for (const struct settings_section *s = config_fixed; s->name; s++) {
        size_t n = strlen(s->name);
        if (strncmp(key, s->name, n) != 0 || key[n] != '.')
            continue;
        const struct settings_row *row = settings_find(s, bytes_str(key + n + 1));
        if (row) {
            int r = settings_set(row, c, value, &c->arena, e);
            return r < 0 ? error_prefix(e, r, "%s: ", key) : 0;
        }
    }
    return error_set(e, -EINVAL, "there is no key %s (profgate serve --help-config lists them)", key);
}

const struct config_exporter *config_exporter(const struct config *c, const char *name)
{
    for (uint32_t i = 0; i < c->n_exporters; i++)
        if (strcmp(c->exporters[i].name, name) == 0)
            return &c->exporters[i];
    return NULL;
}

static int check_names(const struct config *c, const struct settings_strings *names, const char *key,
                       enum config_takes signal, struct error *e)
{
    for (uint32_t i = 0; i < names->n; i++) {
        const char *name = names->items[i];
        const struct config_exporter *x = config_exporter(c, name);
        if (signal == CONFIG_TAKES_METRICS && strcmp(name, "prometheus") == 0)
            continue;
        if (!x)
            return error_set(e, -EINVAL, "%s names %s, which is not among exporters", key, name);
        if (!(x->kind->takes & signal))
            return error_set(e, -EINVAL, "%s names %s, which takes %s only", key, name,
                             signal == CONFIG_TAKES_METRICS ? "profiles" : "metrics");
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(names->items[j], name) == 0)
                return error_set(e, -EINVAL, "%s names %s twice", key, name);
    }
    return 0;
}

static int check_receiver(const struct config_receiver *r, struct error *e)
{
    if ((r->tls_cert_file == NULL) != (r->tls_key_file == NULL))
        return error_set(e, -EINVAL, "receivers.otlp %s: tls.cert_file and tls.key_file go together",
                         r->endpoint);
    if (!r->tls_cert_file && (r->tls_client_ca_file || r->tls_allow_plaintext))
        return error_set(e, -EINVAL, "receivers.otlp %s: tls.* means nothing without tls.cert_file",
                         r->endpoint);
    if (r->auth_identities.n > 0 && !r->tls_client_ca_file)
        return error_set(e, -EINVAL,
                         "receivers.otlp %s: auth.identities are names in client certificates: "
                         "tls.client_ca_file must say who signs those",
                         r->endpoint);
    return 0;
}

static int check_tenants(const struct config *c, struct error *e)
{
    const struct config_share *t = &c->per_tenant;
    bool limited = t->bytes_per_second > 0 || t->requests > 0 || t->memory > 0;
    if (!c->tenant_header && (limited || c->tenant_required))
        return error_set(e, -EINVAL, "%s means nothing without tenants.header",
                         limited ? "limits.per_tenant" : "tenants.required");
    return 0;
}

int config_check(const struct config *c, struct error *e)
{
    for (uint32_t i = 0; i < c->n_receivers; i++) {
        int r = check_receiver(&c->receivers[i], e);
        if (r < 0)
            return r;
    }
    if (check_tenants(c, e) < 0)
        return -EINVAL;
    for (uint32_t i = 0; i < c->n_exporters; i++) {
        const struct config_exporter *x = &c->exporters[i];
        int r = x->kind->check ? x->kind->check(x->name, x->settings, e) : 0;
        if (r < 0)
            return r;
    }
    int r = check_names(c, &c->metrics_exporters, "metrics.exporters", CONFIG_TAKES_METRICS, e);
    if (r == 0)
        r = check_names(c, &c->profiles_exporters, "profiles.exporters", CONFIG_TAKES_PROFILES, e);
    if (r < 0)
        return r;
    if (c->request_bytes > c->memory / 2)
        return error_set(
            e, -EINVAL,
            "limits.request_bytes must be at most half of limits.memory, or one request could never be read");
    return 0;
}

static int print_receivers(const struct config *c, struct buffer *out)
{
    int r = buffer_add_str(out, "receivers:\n  otlp:\n");
    for (uint32_t i = 0; i < c->n_receivers && r == 0; i++)
        r = settings_print(&config_receiver_section, &c->receivers[i], 6, true, out);
    return r;
}

static int print_exporters(const struct config *c, struct buffer *out)
{
    int r = c->n_exporters > 0 ? buffer_add_str(out, "exporters:\n") : 0;
    for (uint32_t i = 0; i < c->n_exporters && r == 0; i++) {
        const struct config_exporter *x = &c->exporters[i];
        r = buffer_printf(out, "  %s:\n", x->name);
        if (r == 0)
            r = settings_print(&x->kind->section, x->settings, 4, false, out);
    }
    return r;
}

int config_print(const struct config *c, struct buffer *out)
{
    int r = print_receivers(c, out);
    for (const struct settings_section *s = config_fixed; s->name && r == 0; s++) {
        r = buffer_printf(out, "%s:\n", s->name);
        if (r == 0)
            r = settings_print(s, c, 2, false, out);
    }
    return r < 0 ? r : print_exporters(c, out);
}

/* ---- what a reload cannot change ---- */

static int print_row(const struct config *c, const struct settings_row *row, struct buffer *out)
{
    return settings_print_value(row, c, out);
}

static int print_all_receivers(const struct config *c, const struct settings_row *unused, struct buffer *out)
{
    return print_receivers(c, out);
}

static int print_all_exporters(const struct config *c, const struct settings_row *unused, struct buffer *out)
{
    return print_exporters(c, out);
}

/* Whether `print` says something else of b than of a: 1 or 0, or -ENOMEM. */
static int differs(int (*print)(const struct config *, const struct settings_row *, struct buffer *),
                   const struct settings_row *row, const struct config *a, const struct config *b)
{
    struct buffer first = BUFFER_INIT(0), second = BUFFER_INIT(0);
    int r = print(a, row, &first);
    if (r == 0)
        r = print(b, row, &second);
    if (r == 0)
        r = !bytes_eq(buffer_bytes(&first), buffer_bytes(&second));
    buffer_release(&first);
    buffer_release(&second);
    return r;
}

int config_restart_keys(const struct config *running, const struct config *wanted,
                        void (*tell)(void *user, const char *key), void *user)
{
    int r = differs(print_all_receivers, NULL, running, wanted);
    if (r > 0)
        tell(user, "receivers");
    for (const struct settings_section *s = config_fixed; s->name && r >= 0; s++)
        for (uint32_t i = 0; i < s->n_rows && r >= 0; i++) {
            char key[128];
            r = s->rows[i].live ? 0 : differs(print_row, &s->rows[i], running, wanted);
            snprintf(key, sizeof key, "%s.%s", s->name, s->rows[i].key);
            if (r > 0)
                tell(user, key);
        }
    if (r >= 0 && (r = differs(print_all_exporters, NULL, running, wanted)) > 0)
        tell(user, "exporters");
    return r < 0 ? r : 0;
}

int config_reference(const struct config *c, struct buffer *out)
{
    int r = buffer_add_str(
        out,
        "Configuration keys, in YAML. ${env:NAME} and ${env:NAME:-default} are replaced everywhere.\n"
        "SIGHUP reads the configuration anew: keys marked live change at once, others need a restart.\n");
    if (r == 0)
        r = settings_reference(&config_receiver_section, out);
    for (const struct settings_section *s = config_fixed; s->name && r == 0; s++)
        r = settings_reference(s, out);
    for (const struct config_kind *const *k = c->kinds; *k && r == 0; k++)
        r = settings_reference(&(*k)->section, out);
    return r;
}
