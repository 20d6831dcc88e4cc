/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operator wants: one table of keys (rows.c) that is the source of the YAML parser, the errors,
 * `--set`, the reference page (`profgate serve --help-config`) and `--print-config`.
 *
 * Key names are the Collector's wherever the thing is the same. Loading validates all of it first: a bad file
 * changes nothing. Stages do not see this struct; main hands each of them its own options.
 */
#ifndef GATEWAY_CONFIG_CONFIG_H
#define GATEWAY_CONFIG_CONFIG_H

#include "gateway/config/values.h"
#include "proto/base/buffer.h"
#include "proto/base/error.h"

/* The defaults; every other function starts from these. `kinds` are those that exporters may be of
 * (gateway/export/kinds.h), ending with NULL; NULL: there are none. NULL: memory is out. */
struct config *config_new(const struct config_kind *const *kinds);
struct config *config_free(struct config *c);

/* Adds the file's bytes to `ret`. 0, or -EINVAL with *e, or -ENOMEM. No bytes at all are an error, too: a
 * reload while an editor has just truncated the file, or from <(…) for a second time, would take the defaults
 * for what was asked for. */
int config_read(const char *path, struct buffer *ret, struct error *e);

/* Reads a YAML file over the defaults. 0, or -EINVAL with *e naming file:line:column, the key and what it may
 * be, or -ENOMEM, or the errno of reading the file. */
int config_load(struct config *c, const char *path, struct error *e);

/* The same from memory; `name` is what errors call it. */
int config_parse(struct config *c, const char *name, struct bytes yaml, struct error *e);

/* Puts FILE:LINE:COLUMN before what *e says of a key ("rules.enable[1]"), in the file that was loaded: of the
 * key, or of what it would be in. Without a file, or of what config_set and config_add_listen have changed
 * since, *e stays. */
void config_place(const struct config *c, const char *key, struct error *e);

/* Whoever wants to hear of every error rather than of the first. */
struct config_listener {
    void (*tell)(void *user, const char *text);
    void *user;
};

/* As config_parse, telling `to` (NULL: nobody) every error of the file; then *e has the last one. */
int config_parse_all(struct config *c, const char *name, struct bytes yaml, const struct config_listener *to,
                     struct error *e);

/* Sets one key of the fixed sections, config_set(c, "metrics.flush_interval", "5s", &e), or one of all
 * receivers there are: "receivers.otlp.tls.cert_file". */
int config_set(struct config *c, const char *key, const char *value, struct error *e);

/* Replaces the receivers by one more endpoint each call; the first call drops the default ones. */
int config_add_listen(struct config *c, const char *endpoint, bool first, struct error *e);

/* The same with all its keys; texts but the endpoint are not copied. */
int config_add_receiver(struct config *c, const struct config_receiver *receiver, bool first,
                        struct error *e);

/* What only all keys together can tell: exporters that are named exist, and so on. 0, or -EINVAL or -ENOMEM
 * with the first complaint in *e. */
int config_check(const struct config *c, struct error *e);

/* Tells every complaint, with the path of the key that it is about (settings_seek). 0, -EINVAL or
 * -ENOMEM. */
int config_check_all(const struct config *c, void (*tell)(void *user, const char *key, const char *text),
                     void *user);

/* The exporter of that name, or NULL. */
const struct config_exporter *config_exporter(const struct config *c, const char *name);

/* Tells each key that differs and that a reload cannot change: it needs a restart. Receivers of OTLP
 * and exporters are told as one key each. 0 or -ENOMEM. */
int config_restart_keys(const struct config *running, const struct config *wanted,
                        void (*tell)(void *user, const char *key), void *user);

/* Whether receivers.pprof_scrape is another one: 1 or 0, or -ENOMEM. */
int config_scrapes_differ(const struct config *a, const struct config *b);

/* The whole configuration as YAML for a person's eyes: it reads back to the same but for the secrets, which
 * are masked. 0 or -ENOMEM. */
int config_show(const struct config *c, struct buffer *out);

/* The reference of all keys: type, default, range, meaning. 0 or -ENOMEM. */
int config_reference(const struct config *c, struct buffer *out);

#endif
