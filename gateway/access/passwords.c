/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/access/passwords.h"

#include <crypt.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/base64.h"
#include "proto/base/buffer.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/io/loop.h"

_Static_assert(PASSWORD_HASH_MAX == CRYPT_OUTPUT_SIZE, "a hash of crypt(3) fits");
_Static_assert(AUTHORIZATION_PASSWORD_MAX + 1 == CRYPT_MAX_PASSPHRASE_SIZE, "a password of crypt(3) fits");

/* ---- one hash ---- */

#define SHA1_PREFIX "{SHA}" /* Apache httpd, "Password Formats": base64 of SHA-1, without salt */
#define SHA1_BYTES  20u

static bool sha1_decode(struct bytes hash, uint8_t ret[32])
{
    struct buffer out = {.p = ret, .cap = 32, .max = 32};
    struct bytes text = bytes_of(hash.p + sizeof SHA1_PREFIX - 1, hash.n - (sizeof SHA1_PREFIX - 1));
    return text.n == 28 && base64_decode(text, false, &out) == 0 && out.n == SHA1_BYTES;
}

bool password_hash_is_taken(struct bytes hash)
{
    /* The methods of crypt(5) that are not too weak, each with the length of what follows the last '$': a
     * hash that was cut would be no error to crypt(3), and match nobody. */
    static const struct {
        const char *prefix;
        size_t tail;
    } methods[] = {
        {"$2a$", 53}, {"$2b$", 53}, {"$2y$", 53}, {"$5$", 43},
        {"$6$", 86},  {"$7$", 43},  {"$y$", 43},  {"$gy$", 43},
    };
    char setting[PASSWORD_HASH_MAX];
    uint8_t sha1[32];
    if (hash.n == 0 || hash.n >= sizeof setting || memchr(hash.p, 0, hash.n))
        return false;
    if (bytes_starts(hash, SHA1_PREFIX))
        return sha1_decode(hash, sha1);
    memcpy(setting, hash.p, hash.n);
    setting[hash.n] = 0;
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (bytes_starts(hash, methods[i].prefix)) {
            int r = crypt_checksalt(setting); /* "legacy" is what it calls all but the newest */
            return (r == CRYPT_SALT_OK || r == CRYPT_SALT_METHOD_LEGACY) &&
                   bytes_after_last(hash, '$').n == methods[i].tail;
        }
    return false;
}

/* Of crypt(5)'s digits, least first. */
static uint32_t crypt_digit(char c)
{
    static const char digits[] = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (uint32_t)(at - digits) : UINT32_MAX;
}

bool password_hash_is_slow(const char *hash)
{
    const char *cost = hash[0] == '$' ? strchr(hash + 1, '$') : NULL;
    if (!cost)
        return false; /* {SHA} */
    cost++;
    switch (hash[1]) {
    case '2': return strtoul(cost, NULL, 10) > PASSWORD_BCRYPT_MAX;
    case '5':
    case '6':
        return bytes_starts(bytes_str(cost), "rounds=") && strtoul(cost + 7, NULL, 10) > PASSWORD_ROUNDS_MAX;
    case '7': return crypt_digit(cost[0]) > PASSWORD_SCRYPT_MAX;
    default: return crypt_digit(cost[0] ? cost[1] : 0) + 1 > PASSWORD_SCRYPT_MAX; /* behind its flags */
    }
}

static int sha1_matches(const char *password, const char *hash)
{
    uint8_t want[32], got[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    if (!sha1_decode(bytes_str(hash), want))
        return 0;
    if (!EVP_Digest(password, strlen(password), got, &n, EVP_sha1(), NULL) || n != SHA1_BYTES)
        return -ENOMEM;
    return CRYPTO_memcmp(want, got, SHA1_BYTES) == 0;
}

int password_matches(const char *password, const char *hash)
{
    if (bytes_starts(bytes_str(hash), SHA1_PREFIX))
        return sha1_matches(password, hash);
    struct crypt_data *data = calloc(1, sizeof *data); /* 32 KiB */
    if (!data)
        return -ENOMEM;
    const char *got = crypt_r(password, hash, data);
    size_t n = strlen(hash);
    int matches = -ENOMEM; /* of a hash that was found good when it was read, nothing else can be wrong */
    if (got && got[0] != '*')
        matches = strlen(got) == n && CRYPTO_memcmp(got, hash, n) == 0;
    explicit_bzero(data, sizeof *data);
    free(data);
    return matches;
}

void password_job_free(struct password_job *job)
{
    if (job)
        explicit_bzero(job, sizeof *job);
    free(job);
}

/* ---- what came out ---- */

/* Good ones are only forgotten for being unused: a changed password or file has another key. */
#define GOOD_NS (3600ull * NSEC_PER_SEC)
/* Bad ones spare us a misconfigured sender's every attempt. */
#define BAD_NS (60ull * NSEC_PER_SEC)

#define CACHE_WAYS 4u
#define CACHE_SETS 256u /* 1,024 credentials of each kind, 96 KiB in all */

struct cache {
    struct {
        struct digest key;
        uint64_t until; /* monotonic; 0: free */
    } entry[CACHE_SETS][CACHE_WAYS];
};

static uint32_t cache_set(const struct digest *key)
{
    return (key->bytes[0] | (uint32_t)key->bytes[1] << 8) % CACHE_SETS;
}

static bool cache_has(struct cache *c, const struct digest *key, uint64_t now, uint64_t renew_ns)
{
    uint32_t set = cache_set(key);
    for (uint32_t i = 0; i < CACHE_WAYS; i++)
        if (c->entry[set][i].until > now && digest_eq(&c->entry[set][i].key, key)) {
            if (renew_ns)
                c->entry[set][i].until = now + renew_ns;
            return true;
        }
    return false;
}

static void cache_add(struct cache *c, const struct digest *key, uint64_t until)
{
    uint32_t set = cache_set(key), oldest = 0;
    for (uint32_t i = 1; i < CACHE_WAYS; i++)
        if (c->entry[set][i].until < c->entry[set][oldest].until)
            oldest = i;
    c->entry[set][oldest].key = *key;
    c->entry[set][oldest].until = until;
}

/* ---- the thread ---- */

struct job_list {
    STAILQ_HEAD(, password_job) jobs;
    uint32_t n;
};

struct passwords {
    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread, stopping;
    struct job_list queue;
    struct password_job *running;
    /* Apart: what anybody can fill with guesses must not push out what is good. */
    struct cache good, bad;
};

struct password_inbox {
    struct passwords *passwords;
    struct io_loop *loop;
    struct io_post post;
    bool is_closed;
    struct job_list done; /* under the lock of passwords */
    void (*deliver)(void *user, struct password_job *job);
    void *user;
};

struct passwords *passwords_new(void)
{
    struct passwords *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    STAILQ_INIT(&p->queue.jobs);
    return p;
}

struct passwords *passwords_free(struct passwords *p)
{
    if (!p)
        return NULL;
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    if (p->has_thread)
        pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    explicit_bzero(p, sizeof *p);
    free(p);
    return NULL;
}

static enum password_memory recall(struct passwords *p, const struct digest *key, uint64_t now)
{
    if (cache_has(&p->good, key, now, GOOD_NS))
        return PASSWORD_GOOD;
    return cache_has(&p->bad, key, now, 0) ? PASSWORD_BAD : PASSWORD_UNKNOWN;
}

enum password_memory passwords_recall(struct passwords *p, const struct digest *key, uint64_t now_ns)
{
    autolock(&p->lock);
    return recall(p, key, now_ns);
}

/* ---- lists of jobs, under the lock ---- */

static void list_add(struct job_list *l, struct password_job *job)
{
    STAILQ_INSERT_TAIL(&l->jobs, job, queue_next);
    l->n++;
}

static struct password_job *list_take(struct job_list *l)
{
    struct password_job *job = STAILQ_FIRST(&l->jobs);
    if (job) {
        STAILQ_REMOVE_HEAD(&l->jobs, queue_next);
        l->n--;
    }
    return job;
}

/* Frees those that came from an inbox. */
static void list_purge(struct job_list *l, const struct password_inbox *inbox)
{
    for (uint32_t left = l->n; left > 0; left--) {
        struct password_job *job = list_take(l);
        if (job->inbox == inbox)
            password_job_free(job);
        else
            list_add(l, job);
    }
}

/* With the lock held, but for the slow part. */
static void run_job(struct passwords *p, struct password_job *job)
{
    /* Another worker's connection may have asked the same meanwhile. */
    if (recall(p, &job->key, clock_monotonic()) == PASSWORD_UNKNOWN) {
        pthread_mutex_unlock(&p->lock);
        int matches = password_matches(job->password, job->hash);
        bool good = matches > 0 && !job->is_decoy;
        pthread_mutex_lock(&p->lock);
        uint64_t now = clock_monotonic();
        if (matches >= 0)
            cache_add(good ? &p->good : &p->bad, &job->key, now + (good ? GOOD_NS : BAD_NS));
    }
    list_add(&job->inbox->done, job);
    io_loop_post_in(job->inbox->loop, &job->inbox->post);
}

static void *run(void *arg)
{
    struct passwords *p = arg;
    autolock(&p->lock);
    while (!p->stopping) {
        p->running = list_take(&p->queue);
        if (!p->running) {
            pthread_cond_wait(&p->changed, &p->lock);
            continue;
        }
        run_job(p, p->running);
        p->running = NULL;
        pthread_cond_broadcast(&p->changed);
    }
    return NULL;
}

static int start_thread(struct passwords *p)
{
    if (p->has_thread)
        return 0;
    int r = thread_begin(&p->thread, NULL, "passwords", run, p);
    p->has_thread = r == 0;
    return r;
}

static uint32_t count_address(const struct passwords *p, uint64_t address)
{
    uint32_t n = 0;
    const struct password_job *job;
    STAILQ_FOREACH (job, &p->queue.jobs, queue_next)
        n += job->address == address;
    return n;
}

int passwords_submit(struct password_inbox *b, struct password_job *job)
{
    struct passwords *p = b->passwords;
    autolock(&p->lock);
    bool full =
        p->queue.n >= PASSWORDS_QUEUE_MAX || count_address(p, job->address) >= PASSWORDS_PER_ADDRESS_MAX;
    int r = full ? PASSWORDS_FULL : start_thread(p);
    if (r == 0) {
        job->inbox = b;
        list_add(&p->queue, job);
        pthread_cond_broadcast(&p->changed);
    }
    return r;
}

/* ---- the way back ---- */

static void on_post(void *arg)
{
    struct password_inbox *b = arg;
    if (b->is_closed) {
        free(b);
        return;
    }
    for (;;) {
        pthread_mutex_lock(&b->passwords->lock);
        struct password_job *job = list_take(&b->done);
        pthread_mutex_unlock(&b->passwords->lock);
        if (!job)
            return;
        b->deliver(b->user, job);
    }
}

struct password_inbox *password_inbox_new(struct passwords *p, struct io_loop *loop,
                                          void (*deliver)(void *user, struct password_job *job), void *user)
{
    struct password_inbox *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    *b = (struct password_inbox){
        .passwords = p, .loop = loop, .post = {.fn = on_post, .arg = b}, .deliver = deliver, .user = user};
    STAILQ_INIT(&b->done.jobs);
    return b;
}

struct password_inbox *password_inbox_free(struct password_inbox *b)
{
    if (!b)
        return NULL;
    struct passwords *p = b->passwords;
    pthread_mutex_lock(&p->lock);
    list_purge(&p->queue, b);
    while (p->running && p->running->inbox == b)
        pthread_cond_wait(&p->changed, &p->lock);
    list_purge(&b->done, b);
    pthread_mutex_unlock(&p->lock);
    b->is_closed = true; /* a post of it may be under way: the last one frees it */
    io_loop_post_in(b->loop, &b->post);
    return NULL;
}
