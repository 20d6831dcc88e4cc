/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/access/policy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/file.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"

/* ---- files ---- */

static void wipe(struct buffer *b)
{
    if (b->p)
        explicit_bzero(b->p, b->n);
    buffer_release(b);
}

static int load_file(const char *path, struct credentials *c, struct digester *d, struct error *e)
{
    struct buffer text = BUFFER_INIT(0);
    int r = buffer_reserve(&text, CREDENTIALS_FILE_MAX + 1); /* at once: growing would leave copies behind */
    r = r < 0 ? error_set(e, r, "%s: out of memory", path) : file_read(path, CREDENTIALS_FILE_MAX, &text, e);
    if (r > 0)
        r = -r;
    if (r == 0) {
        r = d ? credentials_add_tokens(c, d, buffer_bytes(&text), e)
              : credentials_add_users(c, buffer_bytes(&text), e);
        if (r < 0)
            error_prefix(e, r, "%s: ", path);
    }
    wipe(&text);
    return r;
}

int policy_load(const struct access_policy *p, struct digester *d, struct credentials **ret, struct error *e)
{
    struct credentials *c = credentials_new();
    if (!c)
        return error_set(e, -ENOMEM, "out of memory");
    int r = p->tokens_file ? load_file(p->tokens_file, c, d, e) : 0;
    if (r == 0 && p->users_file)
        r = load_file(p->users_file, c, NULL, e);
    if (r < 0) {
        credentials_drop(c);
        return r;
    }
    *ret = c;
    return 0;
}

/* ---- the snapshot ---- */

void policy_set(struct access_policy *p, struct credentials *c)
{
    pthread_mutex_lock(&p->lock);
    struct credentials *was = p->current;
    p->current = c;
    atomic_store_explicit(&p->generation, c->generation, memory_order_release);
    pthread_mutex_unlock(&p->lock);
    credentials_drop(was);
}

const struct credentials *policy_current(struct access_policy *p, struct credentials **held)
{
    if (*held && atomic_load_explicit(&p->generation, memory_order_acquire) == (*held)->generation)
        return *held;
    credentials_drop(*held);
    autolock(&p->lock);
    *held = credentials_hold(p->current);
    return *held;
}

/* ---- identities ---- */

/* One '*' stands for any text, also none; without it the whole name must be the same. */
static bool pattern_matches(const char *pattern, struct bytes name)
{
    const char *star = strchr(pattern, '*');
    if (!star)
        return bytes_is(name, pattern);
    size_t before = (size_t)(star - pattern), after = strlen(star + 1);
    return name.n >= before + after && memcmp(name.p, pattern, before) == 0 &&
           memcmp(name.p + name.n - after, star + 1, after) == 0;
}

bool policy_allows(const struct access_policy *p, const char *identity)
{
    for (uint32_t i = 0; i < p->n_identities && identity[0]; i++)
        if (pattern_matches(p->identities[i], bytes_str(identity)))
            return true;
    return false;
}

static int check_pattern(const char *pattern, struct error *e)
{
    const char *star = strchr(pattern, '*');
    if (pattern[0] == 0 || (star && strchr(star + 1, '*')))
        return error_set(e, -EINVAL, "identity \"%s\": a name with at most one *", pattern);
    return 0;
}

/* ---- life ---- */

struct access_policy *policy_free(struct access_policy *p)
{
    if (!p)
        return NULL;
    for (uint32_t i = 0; i < p->n_identities; i++)
        free(p->identities[i]);
    free(p->identities);
    free(p->tokens_file);
    free(p->users_file);
    credentials_drop(p->current);
    pthread_mutex_destroy(&p->lock);
    free(p);
    return NULL;
}

static int copy_text(char **to, const char *text)
{
    if (!text || !text[0])
        return 0;
    *to = strdup(text);
    return *to ? 0 : -ENOMEM;
}

static int copy_options(struct access_policy *p, const struct access_policy_options *o, struct error *e)
{
    p->identities = calloc(o->n_identities ? o->n_identities : 1, sizeof *p->identities);
    if (!p->identities || copy_text(&p->tokens_file, o->bearer_tokens_file) < 0 ||
        copy_text(&p->users_file, o->htpasswd_file) < 0)
        return error_set(e, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < o->n_identities; i++) {
        int r = check_pattern(o->identities[i], e);
        if (r < 0)
            return r;
        p->identities[i] = strdup(o->identities[i]);
        if (!p->identities[i])
            return error_set(e, -ENOMEM, "out of memory");
        p->n_identities++;
    }
    return 0;
}

int policy_new(struct access_policy **ret, const struct access_policy_options *options, struct digester *d,
               struct error *e)
{
    struct access_policy *p = calloc(1, sizeof *p);
    if (!p)
        return error_set(e, -ENOMEM, "out of memory");
    pthread_mutex_init(&p->lock, NULL);
    struct credentials *c = NULL;
    int r = copy_options(p, options, e);
    if (r == 0)
        r = policy_load(p, d, &c, e);
    if (r < 0) {
        policy_free(p);
        return r;
    }
    policy_set(p, c);
    *ret = p;
    return 0;
}
