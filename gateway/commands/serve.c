/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/commands/command.h"
#include "gateway/config/config.h"
#include "gateway/export/kinds.h"
#include "gateway/run/cgroup.h"
#include "gateway/run/gateway.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"

struct serve_arguments {
    const char *config_path;
    const char *listen[16], *set[64];
    unsigned n_listen, n_set;
    bool print, reference;
};

static int set_listen(void *target, const char *value, struct arena *unused, struct error *e)
{
    struct serve_arguments *a = target;
    if (a->n_listen == ARRAY_LEN(a->listen))
        return error_set(e, -EINVAL, "at most %zu addresses", ARRAY_LEN(a->listen));
    a->listen[a->n_listen++] = value;
    return 0;
}

static int set_key(void *target, const char *value, struct arena *unused, struct error *e)
{
    struct serve_arguments *a = target;
    if (!strchr(value, '='))
        return error_set(e, -EINVAL, "\"%s\" is not KEY=VALUE", value);
    if (a->n_set == ARRAY_LEN(a->set))
        return error_set(e, -EINVAL, "at most %zu keys; use a file", ARRAY_LEN(a->set));
    a->set[a->n_set++] = value;
    return 0;
}

#define AT(field) offsetof(struct serve_arguments, field)

/* clang-format off */
static const struct settings_row rows[] = {
    {"config", SETTINGS_TEXT, AT(config_path), .metavar = "FILE", .doc = "YAML; without it the embedded defaults"},
    {"listen", SETTINGS_OWN, .set = set_listen, .metavar = "ADDR",
     .doc = "host:port to take OTLP on, instead of the configured ones; may be repeated"},
    {"set", SETTINGS_OWN, .set = set_key, .metavar = "KEY=VALUE",
     .doc = "one key of the configuration, after the file: --set metrics.flush_interval=5s"},
    {"print-config", SETTINGS_BOOL, AT(print), .doc = "print the configuration in force as YAML, secrets masked, and end"},
    {"help-config", SETTINGS_BOOL, AT(reference), .doc = "print every key with its default and meaning, and end"},
};
/* clang-format on */

static const struct settings_section flags = {.rows = rows, .n_rows = ARRAY_LEN(rows)};

/* What the process takes beside limits.memory: under attack 12 MB, of two workers and the libraries. */
#define MEMORY_BESIDE (16u << 20)
#define MEMORY_LEAST  (16u << 20)

/* The default is half of what the cgroup allows, if that is less: what is said in the file or by a flag
 * stays, and a request as large as one says has room. */
static void fit_memory(struct config *c, uint64_t allowed)
{
    c->memory = min_of(c->memory, max_of((uint64_t)MEMORY_LEAST, allowed / 2));
    c->request_bytes = min_of(c->request_bytes, c->memory / 2);
}

static void say_memory(const struct config *c, uint64_t allowed)
{
    const unsigned long long own = c->memory, all = allowed;
    if (allowed < c->memory + MEMORY_BESIDE)
        log_warn(
            "limits.memory=%llu, and the cgroup allows the whole process %llu bytes: the kernel may end it; "
            "lower limits.memory or allow more",
            own, all);
    else if (allowed < UINT64_MAX)
        log_info("memory limit=%llu request_bytes=%llu cgroup=%llu", own,
                 (unsigned long long)c->request_bytes, all);
}

static int configure(struct config *c, const struct serve_arguments *a, struct error *e)
{
    const uint64_t unfit = c->memory;
    fit_memory(c, cgroup_memory(""));
    const uint64_t fit = c->memory;
    int r = a->config_path ? config_load(c, a->config_path, e) : 0;
    for (unsigned i = 0; i < a->n_listen && r == 0; i++)
        r = config_add_listen(c, a->listen[i], i == 0, e);
    for (unsigned i = 0; i < a->n_set && r == 0; i++) {
        char key[128];
        const char *equals = strchr(a->set[i], '=');
        snprintf(key, sizeof key, "%.*s", (int)(equals - a->set[i]), a->set[i]);
        r = config_set(c, key, equals + 1, e);
    }
    if (c->memory == fit)
        c->memory = min_of(unfit, max_of(fit, 2 * c->request_bytes));
    return r < 0 ? r : config_check(c, e);
}

/* As at the start: the file as it is now, and the flags over it. A pipe has been read, and who waits for what
 * comes out of it next serves nobody meanwhile. */
static struct config *reload(void *context, struct error *e)
{
    const struct serve_arguments *a = context;
    struct stat st;
    if (a->config_path && stat(a->config_path, &st) == 0 && S_ISFIFO(st.st_mode)) {
        error_set(e, -EINVAL, "%s: a pipe, which can be read once", a->config_path);
        return NULL;
    }
    struct config *c = config_new(export_kinds);
    if (!c) {
        error_set(e, -ENOMEM, "out of memory");
        return NULL;
    }
    return configure(c, context, e) < 0 ? config_free(c) : c;
}

static int print(int (*fill)(const struct config *, struct buffer *), const struct config *c)
{
    cleanup(buffer_release) struct buffer out = {0};
    int r = fill(c, &out);
    if (r == 0)
        fwrite(out.p, 1, out.n, stdout);
    return r == 0 ? EXIT_DONE : EXIT_ENVIRONMENT;
}

/* Here an errno ends. */
static int exit_code(int error)
{
    switch (error) {
    case 0: return EXIT_DONE;
    case EINVAL: return EXIT_USAGE;
    default: return EXIT_ENVIRONMENT;
    }
}

/* The last words, in the form that all others have; also where the configuration is what is wrong. */
static void say_why(const struct config *c, const struct error *e)
{
    if (!c || c->log_format != LOG_FORMAT_JSON) {
        fprintf(stderr, "profgate serve: %s\n", e->text);
        return;
    }
    log_set_format(LOG_FORMAT_JSON);
    log_error("cannot start error=\"%s\"", e->text);
}

static int serve(int argc, char **argv)
{
    struct serve_arguments arguments = {0};
    struct error e = {""};
    int rest = 0, code = EXIT_USAGE;
    gateway_hold_hangup();
    int r = settings_flags(&flags, argc, argv, &arguments, NULL, &rest, &e);
    if (r == 0 && rest < argc)
        r = error_set(&e, -EINVAL, "%s is no flag; serve takes flags only", argv[rest]);
    struct config *c = config_new(export_kinds);
    if (!c)
        r = error_set(&e, -ENOMEM, "out of memory");
    if (r == 0)
        r = configure(c, &arguments, &e);
    if (r == 0 && (arguments.print || arguments.reference)) {
        code = print(arguments.print ? config_show : config_reference, c);
    } else if (r == 0) {
        log_set_level(c->log_level);
        log_set_format(c->log_format);
        say_memory(c, cgroup_memory(""));
        struct gateway_options options = {c, reload, &arguments};
        r = gateway_run(&options, &e);
        code = exit_code(r < 0 ? -r : 0);
        if (r == GATEWAY_LEFT) {
            fflush(NULL);
            _exit(code);
        }
    }
    if (r < 0)
        say_why(c, &e);
    config_free(c);
    return code;
}

const struct settings_command serve_command = {
    .name = "profgate serve",
    .usage = "[--config FILE] [--listen ADDR]... [--set KEY=VALUE]...",
    .doc = "the gateway; with no configuration it starts on embedded defaults",
    .text =
        "Receives OTLP profiles over gRPC and HTTP, counts them by rules, serves and exports the counters.\n",
    .flags = &flags,
    .run = serve,
};
