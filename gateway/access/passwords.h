/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification of passwords against crypt(3) hashes, which are slow on purpose: on one thread of its own for
 * the process, behind a bounded queue; what came out is remembered for a while.
 */
#ifndef GATEWAY_ACCESS_PASSWORDS_H
#define GATEWAY_ACCESS_PASSWORDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "gateway/access/authorization.h"
#include "gateway/access/digest.h"
#include "gateway/access/pass.h"

struct io_loop;
struct passwords;

#define PASSWORD_HASH_MAX 384u /* CRYPT_OUTPUT_SIZE */

/* Verifications that wait, of everybody: at a tenth of a second each, the last is served within seconds,
 * which a sender's deadline still allows. */
#define PASSWORDS_QUEUE_MAX 64u
/* … and of one address: guessing delays others by no more than this many. */
#define PASSWORDS_PER_ADDRESS_MAX 4u

struct password_inbox;

/* One verification. The caller makes it, and frees it (password_job_free) when it is delivered. */
struct password_job {
    struct digest key; /* of user, password and hash: what the result is remembered by */
    char hash[PASSWORD_HASH_MAX];
    char password[AUTHORIZATION_PASSWORD_MAX + 1];
    bool is_decoy;    /* nobody has that name: the work is done all the same, the answer is no */
    uint64_t address; /* whose queue slots it takes */

    struct access_wait *waits; /* the rest of the caller's, on its thread only */
    struct password_job *next, **at;

    STAILQ_ENTRY(password_job) queue_next; /* the verifier's */
    struct password_inbox *inbox;
};

void password_job_free(struct password_job *job);

/* Whether a hash is one of those that are taken: bcrypt, SHA-crypt, yescrypt, gost-yescrypt, scrypt, {SHA}.
 */
bool password_hash_is_taken(struct bytes hash);

/* Whether it was made to take minutes and more, or gigabytes: all that wait for the one thread would wait as
 * long, and so would a stop. A hash that is taken, NUL-terminated. */
#define PASSWORD_BCRYPT_MAX 16u      /* 2^16 rounds: some seconds */
#define PASSWORD_ROUNDS_MAX 5000000u /* of SHA-crypt, the same */
#define PASSWORD_SCRYPT_MAX 18u      /* log2 of N, of yescrypt, too: crypt_gensalt(3) makes no more */
bool password_hash_is_slow(const char *hash);

/* Whether the password has that hash; both NUL-terminated. Slow. 1, 0, or -ENOMEM: it could not be found out.
 */
int password_matches(const char *password, const char *hash);

/* NULL: memory is out. Starts no thread before the first job. */
struct passwords *passwords_new(void);
/* After its inboxes. Returns NULL; NULL is fine. */
struct passwords *passwords_free(struct passwords *p);

enum password_memory { PASSWORD_UNKNOWN, PASSWORD_GOOD, PASSWORD_BAD };

/* What came out of a verification with that key, if it is remembered. Any thread. */
enum password_memory passwords_recall(struct passwords *p, const struct digest *key, uint64_t now_ns);

/* Where the jobs of one worker come back: deliver(user, job) is called on the loop's thread when the result
 * can be recalled, and the job is its own again. NULL: memory is out. */
struct password_inbox *password_inbox_new(struct passwords *p, struct io_loop *loop,
                                          void (*deliver)(void *user, struct password_job *job), void *user);

/* Frees its jobs, after the one that runs, if it is one of them; before the loop, on its thread. Returns
 * NULL; NULL is fine. */
struct password_inbox *password_inbox_free(struct password_inbox *b);

/* Conditions of passwords_submit. */
enum {
    PASSWORDS_FULL = 1, /* the job stays the caller's */
};

/* Has a job done and delivered; it is the verifier's until then. 0, PASSWORDS_FULL, or -errno: no thread. The
 * inbox's thread. */
int passwords_submit(struct password_inbox *b, struct password_job *job);

#endif
