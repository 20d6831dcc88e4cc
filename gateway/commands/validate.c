/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that a start would stumble over, and what it would not but a person should know, of
 * configurations that need not be in force: what the files say, then what they name (rules, certificates,
 * credentials, folders), then, when asked, whether destinations answer. Nothing is written but a file without
 * bytes that comes and goes in folders that a start would write to, and nothing listens.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "gateway/commands/command.h"
#include "gateway/commands/reach.h"
#include "gateway/config/config.h"
#include "gateway/export/kinds.h"
#include "gateway/run/door.h"
#include "gateway/run/looking.h"
#include "gateway/run/receivers.h"
#include "gateway/run/rule_files.h"
#include "proto/base/macros.h"
#include "proto/base/settings/file.h"
#include "proto/client/authorization.h"
#include "proto/client/endpoint.h"
#include "proto/io/listener.h"
#include "proto/io/tls.h"

/* A certificate that ends sooner is worth a warning: renewals come with a month to go. */
#define EXPIRES_SOON (14 * 86400)

struct validate_arguments {
    bool reach;
};

/* clang-format off */
static const struct settings_row rows[] = {
    {"reach", SETTINGS_BOOL, offsetof(struct validate_arguments, reach),
     .doc = "try whether the endpoints of all exporters in use take connections, too"},
};
/* clang-format on */

static const struct settings_section flags = {.rows = rows, .n_rows = ARRAY_LEN(rows)};

/* One configuration being looked at. */
struct looking {
    const char *path;
    struct config *config;
    struct settings_file *file; /* for places */
    struct arena arena;
    uint32_t errors, warnings;
};

/* ---- telling --------------------------------------------------------------------------------- */

/* An error that has its place in it. */
static void told(void *user, const char *text)
{
    struct looking *l = user;
    l->errors++;
    printf("%s\n", text);
}

static void say(struct looking *l, const char *key, const char *kind, const char *text)
{
    const struct settings_node *at = l->file ? settings_seek(l->file, key) : NULL;
    struct settings_place place = at ? settings_place(at) : (struct settings_place){1, 1};
    printf("%s:%zu:%zu: %s%s\n", l->path, place.line, place.column, kind, text);
}

static void complain(void *user, const char *key, const char *text)
{
    struct looking *l = user;
    l->errors++;
    say(l, key, "", text);
}

static void __attribute__((format(printf, 3, 4)))
warn(struct looking *l, const char *key, const char *format, ...)
{
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    l->warnings++;
    say(l, key, "warning: ", text);
}

/* ---- files that it names --------------------------------------------------------------------- */

static void look_at_certificate(struct looking *l, const char *key, const struct tls_options *options)
{
    struct tls_context *context;
    struct error e = {""};
    char text[ERROR_TEXT_MAX], day[32];
    if (tls_context_new(&context, options, &e) < 0) {
        complain(l, key, e.text);
        return;
    }
    int64_t ends = tls_context_expiry(context), now = (int64_t)time(NULL);
    time_t at = (time_t)ends;
    struct tm utc;
    tls_context_free(context);
    if (ends == INT64_MAX || ends - now > EXPIRES_SOON)
        return;
    strftime(day, sizeof day, "%Y-%m-%d", gmtime_r(&at, &utc));
    snprintf(text, sizeof text, "%s: the certificate %s on %s; renew it", options->cert_file,
             ends < now ? "ended" : "ends", day);
    if (ends < now)
        complain(l, key, text);
    else
        warn(l, key, "%s", text);
}

static void look_at_address(struct looking *l, const char *key, const char *address)
{
    struct error e = {""};
    char host[NI_MAXHOST];
    uint16_t port;
    if (io_address_parse(address, host, sizeof host, &port, &e) < 0)
        complain(l, key, e.text);
}

static void look_at_door(struct looking *l, const char *key, const struct config_door *d)
{
    const struct tls_options tls = {.server = true,
                                    .cert_file = d->tls_cert_file,
                                    .key_file = d->tls_key_file,
                                    .ca_file = d->tls_client_ca_file};
    if (d->tls_cert_file && d->tls_key_file)
        look_at_certificate(l, key, &tls);
}

static void look_at_credentials(struct looking *l, const char *key, const struct access *access)
{
    uint32_t at = 0;
    for (const char *file; access && (file = access_vacant_file(access, &at));)
        warn(l, key, "%s: nobody is in it, and nobody is let in by it", file);
}

static void look_at_receiver(struct looking *l, uint32_t i)
{
    const struct config_receiver *r = &l->config->receivers[i];
    struct budget budget = BUDGET_INIT(l->config->memory, NULL);
    struct config alone = *l->config;
    struct receivers receivers;
    struct error e = {""};
    char key[64];
    alone.receivers = &l->config->receivers[i];
    alone.n_receivers = 1;
    snprintf(key, sizeof key, "receivers.otlp[%u].endpoint", i);
    look_at_address(l, key, r->endpoint);
    snprintf(key, sizeof key, "receivers.otlp[%u].auth", i);
    if (receivers_init(&receivers, &alone, &budget, &e) < 0)
        complain(l, key, e.text);
    else {
        look_at_credentials(l, key, receivers.access);
        receivers_release(&receivers);
    }
    snprintf(key, sizeof key, "receivers.otlp[%u].tls", i);
    look_at_door(l, key, &r->door);
}

/* Its credentials are read as those of a receiver. */
static void look_at_admin(struct looking *l)
{
    struct access *access;
    const struct access_policy *policy;
    struct error e = {""};
    if (l->config->admin_endpoint)
        look_at_address(l, "admin.endpoint", l->config->admin_endpoint);
    look_at_door(l, "admin.tls", &l->config->admin_door);
    int r = access_new(&access, &(struct access_options){0}, NULL, &e);
    if (r < 0 || door_policy(&l->config->admin_door, access, &policy, &e) < 0)
        complain(l, "admin.auth", e.text);
    else
        look_at_credentials(l, "admin.auth", access);
    if (r == 0)
        access_free(access);
}

/* What a row of an exporter says, or NULL. Kinds differ, their rows have the same names for the same things.
 */
static const char *exporter_text(const struct config_exporter *x, const char *key)
{
    const struct settings_row *row = settings_find(&x->kind->section, bytes_str(key));
    return row ? *(const char *const *)((const char *)x->settings + row->offset) : NULL;
}

/* A client needs one of them. */
static void reach_one_of(struct looking *l, const char *key, const struct settings_strings *addresses)
{
    struct error e = {""}, why = {""};
    uint32_t n_missed = 0;
    for (uint32_t i = 0; i < addresses->n; i++)
        if (reach_endpoint(addresses->items[i], &e) < 0) {
            why = e;
            n_missed++;
        }
    if (n_missed > 0 && n_missed == addresses->n)
        complain(l, key, why.text);
    else if (n_missed > 0)
        warn(l, key, "%s", why.text);
}

static void look_at_kafka(struct looking *l, bool reach)
{
    const struct kafka_connection *c = &l->config->kafka.connection;
    const struct tls_options tls = {
        .ca_file = c->tls_ca_file, .cert_file = c->tls_cert_file, .key_file = c->tls_key_file};
    if (!l->config->has_kafka)
        return;
    if (tls.ca_file || tls.cert_file)
        look_at_certificate(l, "receivers.kafka.tls", &tls);
    if (reach)
        reach_one_of(l, "receivers.kafka.brokers", &c->brokers);
}

static void look_at_scrape(struct looking *l, uint32_t i)
{
    const struct config_scrape *s = &l->config->scrapes[i];
    const struct tls_options tls = {
        .ca_file = s->tls_ca_file, .cert_file = s->tls_cert_file, .key_file = s->tls_key_file};
    const char *secret = s->username ? s->password_file : s->credentials_file;
    struct buffer authorization = BUFFER_INIT(0);
    struct error e = {""};
    char key[80];
    for (uint32_t n = 0; n < s->targets.n; n++) {
        cleanup(endpoint_release) struct endpoint endpoint = {0};
        snprintf(key, sizeof key, "receivers.pprof_scrape[%u].targets[%u]", i, n);
        if (endpoint_parse(&endpoint, s->targets.items[n], 80, &e) < 0)
            complain(l, key, e.text);
    }
    snprintf(key, sizeof key, "receivers.pprof_scrape[%u].%s", i,
             s->username ? "basic_auth.password_file" : "authorization.credentials_file");
    if (secret && authorization_from_file(s->username, secret, &authorization, &e) < 0)
        complain(l, key, e.text);
    buffer_release(&authorization);
    snprintf(key, sizeof key, "receivers.pprof_scrape[%u].tls", i);
    if (s->scheme == CONFIG_HTTPS && (tls.ca_file || (tls.cert_file && tls.key_file)))
        look_at_certificate(l, key, &tls);
}

static bool is_named(const struct settings_strings *names, const char *name)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (strcmp(names->items[i], name) == 0)
            return true;
    return false;
}

/* Files can be made there. Tried, since what may be written need not take any: /proc, and for root every
 * folder, is writable. */
static void look_at_files_in(struct looking *l, const char *key, const char *folder)
{
    struct error e;
    char *path = arena_printf(&l->arena, "%s/.profgate-XXXXXX", folder);
    autoclose int fd = path ? mkostemp(path, O_CLOEXEC) : -1;
    if (fd >= 0) {
        unlink(path);
        return;
    }
    error_set(&e, 0, "the folder %s takes no files: %s", folder, strerror(errno));
    complain(l, key, e.text);
}

/* Made by a start where it is missing, in a folder that there is. */
static void look_at_folder(struct looking *l, const char *key, const char *folder)
{
    char *copy = arena_printf(&l->arena, "%s", folder);
    const bool is_missing = access(folder, F_OK) < 0 && errno == ENOENT;
    look_at_files_in(l, key, !is_missing ? folder : copy ? dirname(copy) : ".");
}

/* Appended to; made by a start where it is missing. */
static void look_at_file(struct looking *l, const char *key, const char *path)
{
    struct error e;
    struct stat at;
    char *copy = arena_printf(&l->arena, "%s", path);
    if (stat(path, &at) < 0) {
        look_at_files_in(l, key, copy ? dirname(copy) : ".");
        return;
    }
    errno = S_ISDIR(at.st_mode) ? EISDIR : 0;
    if (errno == 0 && access(path, W_OK) == 0)
        return;
    error_set(&e, 0, "%s: %s", path, strerror(errno));
    complain(l, key, e.text);
}

/* Of one that is given without, http://prometheus:9090: its server has pages there, and no receiver. */
static bool lacks_path(const char *endpoint)
{
    const char *scheme = strstr(endpoint, "://"), *path = scheme ? strchr(scheme + 3, '/') : NULL;
    return scheme && (!path || !path[1]);
}

static void look_at_exporter(struct looking *l, const struct config_exporter *x, bool reach)
{
    const struct config *c = l->config;
    static const char *const lists[] = {"endpoints", "brokers"};
    struct tls_options tls = {.ca_file = exporter_text(x, "tls.ca_file"),
                              .cert_file = exporter_text(x, "tls.cert_file"),
                              .key_file = exporter_text(x, "tls.key_file")};
    const char *path = exporter_text(x, "path"), *endpoint = exporter_text(x, "endpoint");
    const char *storage = exporter_text(x, "sending_queue.storage");
    struct error e = {""};
    char key[300];
    snprintf(key, sizeof key, "exporters.%s", x->name);
    if (!is_named(&c->metrics_exporters, x->name) && !is_named(&c->profiles_exporters, x->name)) {
        warn(l, key, "nothing goes there: neither metrics.exporters nor profiles.exporters names it");
        reach = false;
    }
    if (tls.ca_file || tls.cert_file) {
        snprintf(key, sizeof key, "exporters.%s.tls", x->name);
        look_at_certificate(l, key, &tls);
    }
    if (path) {
        snprintf(key, sizeof key, "exporters.%s.path", x->name);
        look_at_file(l, key, path);
    }
    snprintf(key, sizeof key, "exporters.%s.sending_queue.storage", x->name);
    if (storage && storage[0])
        look_at_folder(l, key, storage);
    snprintf(key, sizeof key, "exporters.%s.endpoint", x->name);
    if (endpoint && strcmp(x->kind->type, "prometheusremotewrite") == 0 && lacks_path(endpoint))
        warn(l, key, "%s: no path; Prometheus takes remote write at /api/v1/write", key);
    if (reach && endpoint && reach_endpoint(endpoint, &e) < 0)
        complain(l, key, e.text);
    for (size_t i = 0; reach && i < ARRAY_LEN(lists); i++) {
        const struct settings_row *row = settings_find(&x->kind->section, bytes_str(lists[i]));
        snprintf(key, sizeof key, "exporters.%s.%s", x->name, lists[i]);
        if (row)
            reach_one_of(l, key, (const void *)((const char *)x->settings + row->offset));
    }
}

/* What it keeps stacks in. */
static void look_at_look(struct looking *l)
{
    const struct config *c = l->config;
    const uint64_t most = c->memory / LOOKING_MEMORY_SHARE;
    if (c->look_memory > most)
        warn(l, "look.memory", "look.memory: it will be %" PRIu64 "MiB, an eighth of limits.memory",
             most >> 20);
    if (c->look_memory > 0 && c->look_storage && c->look_storage[0])
        look_at_folder(l, "look.storage", c->look_storage);
    if (c->look_memory == 0 && c->look_storage && c->look_storage[0])
        warn(l, "look.storage", "look.storage: nothing is kept while look.memory is 0");
}

/* ---- rules ----------------------------------------------------------------------------------- */

static void warn_unmatched(void *user, uint32_t i, const char *pattern)
{
    char key[64];
    snprintf(key, sizeof key, "rules.files[%u]", i);
    warn(user, key, "rules.files: nothing matches %s", pattern);
}

static void look_at_rules(struct looking *l)
{
    const struct rule_files_listener to = {complain, l};
    struct rule_files rules;
    struct error e = {""};
    rule_files_unmatched(l->config, warn_unmatched, l);
    fflush(stdout); /* what the rules say goes to standard error */
    if (rule_files_load(&rules, l->config, &to, &e) == 0)
        rule_files_release(&rules);
    else if (e.text[0])
        complain(l, "rules.files", e.text);
    l->warnings += rules.n_warnings;
}

/* ---- one configuration ----------------------------------------------------------------------- */

static int read_text(struct looking *l, struct buffer *text)
{
    struct error e = {""};
    if (config_read(l->path, text, &e) == 0)
        return 0;
    fprintf(stderr, "profgate validate: %s\n", e.text);
    return -EINVAL;
}

static void look(struct looking *l, struct bytes yaml, bool reach)
{
    const struct config_listener to = {told, l};
    const struct settings_file_options options = {.arena = &l->arena};
    struct error e = {""};
    if (config_parse_all(l->config, l->path, yaml, &to, &e) < 0) {
        if (l->errors == 0)
            told(l, e.text);
        return; /* what could not be read would only lead to errors that are none */
    }
    if (settings_file_open(&l->file, l->path, yaml, &options, &e) < 0)
        return; /* memory; it was read before */
    config_check_all(l->config, complain, l);
    for (uint32_t i = 0; i < l->config->n_receivers; i++)
        look_at_receiver(l, i);
    look_at_admin(l);
    for (uint32_t i = 0; i < l->config->n_scrapes; i++)
        look_at_scrape(l, i);
    look_at_kafka(l, reach);
    look_at_look(l);
    for (uint32_t i = 0; i < l->config->n_exporters; i++)
        look_at_exporter(l, &l->config->exporters[i], reach);
    look_at_rules(l);
    l->file = settings_file_close(l->file);
}

static int validate(const char *path, bool reach)
{
    struct looking l = {.path = path, .arena = ARENA_INIT(NULL), .config = config_new(export_kinds)};
    struct buffer text = BUFFER_INIT(0);
    int code = EXIT_ENVIRONMENT;
    if (!l.config) {
        fprintf(stderr, "profgate validate: out of memory\n");
    } else if (read_text(&l, &text) < 0) {
        code = EXIT_USAGE;
    } else {
        look(&l, buffer_bytes(&text), reach);
        printf("%s: %u error%s, %u warning%s\n", path, l.errors, l.errors == 1 ? "" : "s", l.warnings,
               l.warnings == 1 ? "" : "s");
        code = l.errors > 0 ? EXIT_NO : EXIT_DONE;
    }
    buffer_release(&text);
    arena_release(&l.arena);
    config_free(l.config);
    return code;
}

static int run(int argc, char **argv)
{
    struct validate_arguments arguments = {0};
    struct error e = {""};
    int rest = 0, worst = EXIT_DONE;
    int r = settings_flags(&flags, argc, argv, &arguments, NULL, &rest, &e);
    if (r == 0 && rest == argc)
        r = error_set(&e, -EINVAL, "no configuration is named");
    if (r < 0) {
        fprintf(stderr, "profgate validate: %s\n", e.text);
        return EXIT_USAGE;
    }
    for (int i = rest; i < argc; i++)
        worst = max_of(worst, validate(argv[i], arguments.reach));
    return worst;
}

const struct settings_command validate_command = {
    .name = "profgate validate",
    .usage = "[--reach] CONFIG...",
    .doc = "say everything that is wrong with configurations, and with the files that they name",
    .text = "Says everything that is wrong with configurations, each with its place: what they say, the\n"
            "rules, certificates, credentials and folders that they name. 1: something is.\n",
    .flags = &flags,
    .run = run,
};
