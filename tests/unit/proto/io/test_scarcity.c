/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_openssl */
/* TLS while memory fails: a connection may be lost, the words that come through are whole and in order, and
 * the next connection of the same context is as good as ever. */
#include <errno.h>

#include "proto/io/tls.h"
#include "tests/lib/sweep.h"
#include "tests/unit/proto/io/identity.h"

/* OpenSSL's allocations: each hundredth or so may fail, too; all of them would take minutes. */
#define OPENSSL_EACH 97u

static bool openssl_fails;

static bool is_turn(void)
{
    static unsigned n;
    return openssl_fails && ++n % OPENSSL_EACH == 0;
}

static void *openssl_malloc(size_t n, const char *file, int line)
{
    return is_turn() ? sweep_malloc(n) : malloc(n);
}

static void *openssl_realloc(void *p, size_t n, const char *file, int line)
{
    return is_turn() ? sweep_realloc(p, n) : realloc(p, n);
}

static void openssl_free(void *p, const char *file, int line)
{
    free(p);
}

/* OpenSSL takes them before its first allocation only. */
__attribute__((constructor)) static void hook_openssl(void)
{
    CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free);
}

#define CONNECTIONS 2
#define WORDS       40000u /* more than two records */

struct side {
    struct tls *tls;
    struct buffer in; /* plaintext */
    int r;
};

/* Ciphertext from one to the other. */
static bool move(struct side *from, struct side *to)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    if (from->r == 0 && tls_drain(from->tls, &b, 2000) == -ENOMEM)
        from->r = -ENOMEM;
    if (to->r == 0 && b.n > 0)
        to->r = tls_feed(to->tls, buffer_bytes(&b), &to->in);
    return b.n > 0 && from->r == 0 && to->r == 0;
}

/* Whether all words came across. */
static bool talk(struct tls_context *server, struct tls_context *client)
{
    static uint8_t words[WORDS];
    struct side s = {.tls = tls_new(server, NULL)}, c = {.tls = tls_new(client, "gate.example")};
    for (size_t i = 0; i < sizeof words; i++)
        words[i] = (uint8_t)(i * 13 + i / 251);
    if (s.tls && c.tls) {
        c.r = tls_write(c.tls, bytes_of(words, sizeof words));
        for (bool moved = true; moved;) {
            moved = move(&c, &s);
            moved = move(&s, &c) || moved;
        }
        ck_assert_uint_le(s.in.n, sizeof words);
        ck_assert(bytes_eq(buffer_bytes(&s.in), bytes_of(words, s.in.n)));
        ck_assert(c.r != -EPROTO && s.r != -EPROTO);
    }
    bool all = s.tls && c.tls && s.in.n == sizeof words;
    tls_free(s.tls);
    tls_free(c.tls);
    buffer_release(&s.in);
    buffer_release(&c.in);
    return all;
}

static void talk_twice(const struct identity *id)
{
    static const char *const alpn[] = {"h2", "http/1.1", NULL};
    struct tls_options so = {.server = true, .cert_file = id->cert, .key_file = id->key, .alpn = alpn};
    struct tls_options co = {.ca_file = id->cert, .alpn = alpn};
    struct tls_context *server = NULL, *client = NULL;
    struct error e = {""};
    int r = tls_context_new(&server, &so, &e);
    if (r == 0)
        r = tls_context_new(&client, &co, &e);
    ck_assert_msg(r == 0 || (r == -ENOMEM && sweep_failures() > 0), "%d: %s", r, e.text);
    for (int i = 0; i < CONNECTIONS && r == 0; i++) {
        uint32_t before = sweep_failures();
        bool all = talk(server, client);
        ck_assert_msg(all || sweep_failures() > before, "connection %d lost words without a reason", i);
    }
    tls_context_free(server);
    tls_context_free(client);
}

static struct identity identity;

static void scenario(void)
{
    talk_twice(&identity);
}

UNIT_CASE(words_are_whole_and_the_next_connection_is_good, true)
{
    identity_make(&identity, "DNS:gate.example", 1);
    unit_sweep("tls", scenario, SWEEP_ONCE | SWEEP_BURST | SWEEP_FOR_GOOD);
    identity_remove(&identity);
}

/* One connection whose OpenSSL finds no memory; the contexts are made before. */
static struct tls_context *calm_server, *calm_client;

static void openssl_scenario(void)
{
    uint32_t before = sweep_failures();
    openssl_fails = true;
    bool all = talk(calm_server, calm_client);
    openssl_fails = false;
    ck_assert(all || sweep_failures() > before);
    sweep_over();
    ck_assert(talk(calm_server, calm_client));
}

UNIT_CASE(openssl_without_memory_costs_one_connection, true)
{
    struct error e = {""};
    identity_make(&identity, "DNS:gate.example", 1);
    struct tls_options so = {.server = true, .cert_file = identity.cert, .key_file = identity.key};
    struct tls_options co = {.ca_file = identity.cert};
    ck_assert_msg(tls_context_new(&calm_server, &so, &e) == 0, "%s", e.text);
    ck_assert_msg(tls_context_new(&calm_client, &co, &e) == 0, "%s", e.text);
    ck_assert(talk(calm_server, calm_client)); /* what OpenSSL makes once is made */
    unit_sweep("openssl", openssl_scenario, SWEEP_ONCE);
    tls_context_free(calm_server);
    tls_context_free(calm_client);
    identity_remove(&identity);
}
