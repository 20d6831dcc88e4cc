/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/access/credentials.h"

#include <crypt.h>
#include <errno.h>
#include <stdlib.h>

#include "gateway/access/authorization.h"
#include "gateway/access/passwords.h"
#include "proto/base/library/library.h"

struct credentials *credentials_new(void)
{
    static atomic_uint_fast64_t generations;
    struct credentials *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    atomic_init(&c->refs, 1);
    c->generation = atomic_fetch_add(&generations, 1) + 1;
    return c;
}

struct credentials *credentials_hold(struct credentials *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

struct credentials *credentials_drop(struct credentials *c)
{
    if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1) {
        arena_release(&c->arena);
        vec_release(&c->tokens);
        vec_release(&c->users);
        free(c);
    }
    return NULL;
}

/* ---- lines ---- */

/* The next line without its end and outer blanks. False at the end of the text. */
static bool next_line(struct bytes *text, uint32_t *number, struct bytes *ret)
{
    if (text->n == 0)
        return false;
    const uint8_t *end = memchr(text->p, '\n', text->n);
    size_t n = end ? (size_t)(end - text->p) : text->n;
    *ret = bytes_of(text->p, n);
    if (ret->n > 0 && ret->p[ret->n - 1] == '\r')
        ret->n--;
    *ret = bytes_trim(*ret);
    text->p += n + (end != NULL);
    text->n -= n + (end != NULL);
    ++*number;
    return true;
}

static bool is_comment(struct bytes line)
{
    return line.n == 0 || line.p[0] == '#';
}

/* A name that a log line, a label or a header can carry. */
static bool name_is_valid(struct bytes name)
{
    if (name.n == 0 || name.n > CREDENTIALS_NAME_MAX || !bytes_is_utf8(name))
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] <= 0x20 || name.p[i] == 0x7f)
            return false;
    return true;
}

/* ---- tokens ---- */

#define NAMELESS_BYTES 6 /* of the digest: enough to tell CREDENTIALS_MAX tokens apart */

static struct bytes token_name(struct credentials *c, struct bytes name, const struct digest *digest)
{
    if (name.n > 0)
        return arena_copy(&c->arena, name);
    const uint8_t *b = digest->bytes;
    char *text = arena_printf(&c->arena, "token-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3], b[4],
                              b[NAMELESS_BYTES - 1]);
    return bytes_str(text);
}

static int add_token(struct credentials *c, struct digester *d, struct bytes line, uint32_t number,
                     struct error *e)
{
    size_t n = 0;
    while (n < line.n && line.p[n] != ' ' && line.p[n] != '\t')
        n++;
    struct bytes token = bytes_of(line.p, n), name = bytes_trim(bytes_of(line.p + n, line.n - n));
    if (!authorization_token_is_valid(token))
        return error_set(
            e, -EINVAL,
            "line %u: not a bearer token (RFC 6750: letters, digits and -._~+/, then =; at most %u)", number,
            AUTHORIZATION_TOKEN_MAX);
    if (name.n > 0 && !name_is_valid(name))
        return error_set(e, -EINVAL, "line %u: the name behind the token is not one word of at most %u bytes",
                         number, CREDENTIALS_NAME_MAX);
    if (c->tokens.n >= CREDENTIALS_MAX)
        return error_set(e, -EINVAL, "line %u: more than %u tokens", number, CREDENTIALS_MAX);
    struct credential_token t;
    if (digest_of(d, &token, 1, &t.digest) < 0)
        return error_set(e, -ENOMEM, "out of memory");
    if (credentials_find_token(c, &t.digest))
        return error_set(e, -EINVAL, "line %u: this token stands there twice", number);
    t.name = token_name(c, name, &t.digest);
    if (!t.name.p || vec_append(&c->tokens, t) < 0)
        return error_set(e, -ENOMEM, "out of memory");
    return 0;
}

int credentials_add_tokens(struct credentials *c, struct digester *d, struct bytes text, struct error *e)
{
    struct bytes line;
    uint32_t number = 0;
    int r = library_load(&library_openssl, e);
    while (r == 0 && next_line(&text, &number, &line))
        if (!is_comment(line))
            r = add_token(c, d, line, number, e);
    return r;
}

const struct credential_token *credentials_find_token(const struct credentials *c,
                                                      const struct digest *digest)
{
    const struct credential_token *found = NULL;
    for (uint32_t i = 0; i < c->tokens.n; i++)
        found = digest_eq(&c->tokens.p[i].digest, digest) ? &c->tokens.p[i] : found;
    return found;
}

/* ---- users ---- */

static int refuse_hash(struct bytes hash, uint32_t number, struct error *e)
{
    static const struct {
        const char *prefix, *name;
    } known[] = {
        {"$apr1$", "Apache's MD5"}, {"$1$", "MD5"},    {"$md5", "Sun MD5"},        {"$sha1$", "SHA-1"},
        {"$3$", "NTHASH"},          {"_", "BSDi DES"}, {"{SSHA}", "salted SHA-1"}, {"$2x$", "broken bcrypt"},
        {"*", "a locked account"},
    };
    bool is_des = hash.n == 13 && !memchr(hash.p, '{', hash.n) && !memchr(hash.p, '$', hash.n);
    const char *name = is_des ? "DES" : "unknown";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (bytes_starts(hash, known[i].prefix))
            name = known[i].name;
    return error_set(
        e, -EINVAL,
        "line %u: this kind of hash (%s) is not taken; bcrypt (htpasswd -B), SHA-512-crypt, yescrypt "
        "and {SHA} are",
        number, name);
}

static int add_user(struct credentials *c, struct bytes line, uint32_t number, struct error *e)
{
    const uint8_t *colon = memchr(line.p, ':', line.n);
    if (!colon)
        return error_set(e, -EINVAL, "line %u: not NAME:HASH", number);
    struct bytes name = bytes_of(line.p, (size_t)(colon - line.p));
    struct bytes hash = bytes_of(colon + 1, line.n - name.n - 1);
    const uint8_t *more = hash.n ? memchr(hash.p, ':', hash.n) : NULL; /* Apache ignores what follows, too */
    if (more)
        hash.n = (size_t)(more - hash.p);
    if (!name_is_valid(name))
        return error_set(e, -EINVAL, "line %u: the name is not one word of at most %u bytes", number,
                         CREDENTIALS_NAME_MAX);
    if (c->users.n >= CREDENTIALS_MAX)
        return error_set(e, -EINVAL, "line %u: more than %u users", number, CREDENTIALS_MAX);
    struct credential_user u = {arena_copy(&c->arena, name), arena_copy(&c->arena, hash)};
    if (!u.name.p || !u.hash.p)
        return error_set(e, -ENOMEM, "out of memory");
    if (!password_hash_is_taken(u.hash))
        return refuse_hash(hash, number, e);
    if (password_hash_is_slow((const char *)u.hash.p))
        return error_set(
            e, -EINVAL,
            "line %u: this hash takes minutes to verify; bcrypt up to cost %u, SHA-crypt up to %u "
            "rounds, and scrypt and yescrypt up to N = 2^%u are taken",
            number, PASSWORD_BCRYPT_MAX, PASSWORD_ROUNDS_MAX, PASSWORD_SCRYPT_MAX);
    return vec_append(&c->users, u) < 0 ? error_set(e, -ENOMEM, "out of memory") : 0;
}

static int by_name(const void *a, const void *b)
{
    const struct credential_user *x = a, *y = b;
    return bytes_compare(x->name, y->name);
}

int credentials_add_users(struct credentials *c, struct bytes text, struct error *e)
{
    struct bytes line;
    uint32_t number = 0;
    int r = library_load(&library_openssl, e);
    r = r < 0 ? r : library_load(&library_crypt, e);
    while (r == 0 && next_line(&text, &number, &line))
        if (!is_comment(line))
            r = add_user(c, line, number, e);
    if (r < 0 || c->users.n == 0)
        return r;
    qsort(c->users.p, c->users.n, sizeof *c->users.p, by_name);
    for (uint32_t i = 1; i < c->users.n; i++)
        if (bytes_eq(c->users.p[i - 1].name, c->users.p[i].name))
            return error_set(e, -EINVAL, "the user %.*s stands there twice", BYTES_FMT(c->users.p[i].name));
    return 0;
}

const struct credential_user *credentials_find_user(const struct credentials *c, struct bytes name)
{
    struct credential_user key = {.name = name};
    return c->users.n ? bsearch(&key, c->users.p, c->users.n, sizeof *c->users.p, by_name) : NULL;
}
