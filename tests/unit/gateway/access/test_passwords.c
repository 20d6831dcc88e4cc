/* SPDX-License-Identifier: Apache-2.0 */
#include <crypt.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/access/passwords.h"
#include "proto/base/clock.h"
#include "proto/io/loop.h"
#include "tests/lib/unit.h"

#define BCRYPT "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"
#define SHA512 \
    "$6$rounds=1000$saltsalt$LAV5VE5Y7w1d73x1mFNspYWUpazfmwv2SoepNXNKJ/otop/Zok96Hr8Q13LEv0DRY/x8v0/crpIjl8NJSAqXV/"
#define SHA256 "$5$rounds=1000$saltsalt$eKLZU9t9OoPWrqOQsoTIKG0aYkZ5rGOoOQhiIvoSWX2"
#define SHA1   "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="

UNIT(every_kind_of_hash_that_is_taken_verifies)
{
    char yescrypt[CRYPT_OUTPUT_SIZE];
    char setting[CRYPT_GENSALT_OUTPUT_SIZE];
    struct crypt_data data = {0};
    ck_assert_ptr_nonnull(crypt_gensalt_rn("$y$", 1, "0123456789abcdef", 16, setting, sizeof setting));
    snprintf(yescrypt, sizeof yescrypt, "%s", crypt_r("secret", setting, &data));
    const char *hashes[] = {BCRYPT, SHA512, SHA256, SHA1, yescrypt};
    for (size_t i = 0; i < sizeof hashes / sizeof *hashes; i++) {
        ck_assert_msg(password_hash_is_taken(bytes_str(hashes[i])), "%s", hashes[i]);
        ck_assert_msg(password_matches("secret", hashes[i]) == 1, "%s", hashes[i]);
        ck_assert_msg(password_matches("Secret", hashes[i]) == 0, "%s", hashes[i]);
        ck_assert_msg(password_matches("", hashes[i]) == 0, "%s", hashes[i]);
        ck_assert_msg(!password_hash_is_taken(bytes_of(hashes[i], strlen(hashes[i]) - 1)), "%s", hashes[i]);
    }
}

static struct io_loop *loop;
static unsigned n_delivered;

static struct passwords *p;
static struct password_inbox *inbox;

static void deliver(void *user, struct password_job *job)
{
    ck_assert_ptr_eq(user, &n_delivered);
    n_delivered++;
    password_job_free(job);
}

static void start(void)
{
    n_delivered = 0;
    loop = io_loop_new();
    p = unit_made(passwords_new());
    ck_assert(loop && p);
    inbox = unit_made(password_inbox_new(p, loop, deliver, &n_delivered));
}

static void stop(void)
{
    password_inbox_free(inbox);
    io_loop_free(loop);
    passwords_free(p);
}

static struct password_job *job_of(uint8_t key, const char *password, uint64_t address)
{
    struct password_job *job = unit_made(calloc(1, sizeof *job));
    memset(job->key.bytes, key, DIGEST_BYTES);
    snprintf(job->hash, sizeof job->hash, "%s", BCRYPT);
    snprintf(job->password, sizeof job->password, "%s", password);
    job->address = address;
    return job;
}

static void wait_for_delivered(unsigned n)
{
    while (n_delivered < n)
        io_loop_run_once(loop, NSEC_PER_SEC);
}

static enum password_memory recall(uint8_t key)
{
    struct digest d;
    memset(d.bytes, key, DIGEST_BYTES);
    return passwords_recall(p, &d, clock_monotonic());
}

UNIT(what_was_verified_is_remembered)
{
    start();
    struct password_job *decoy = job_of(3, "secret", 3);
    decoy->is_decoy = true;
    ck_assert_int_eq(recall(1), PASSWORD_UNKNOWN);
    ck_assert_int_eq(passwords_submit(inbox, job_of(1, "secret", 1)), 0);
    ck_assert_int_eq(passwords_submit(inbox, job_of(2, "wrong", 2)), 0);
    ck_assert_int_eq(passwords_submit(inbox, decoy), 0);
    wait_for_delivered(3);
    ck_assert_int_eq(recall(1), PASSWORD_GOOD);
    ck_assert_int_eq(recall(2), PASSWORD_BAD);
    ck_assert_int_eq(recall(3), PASSWORD_BAD);
    struct digest d = {{0}};
    memset(d.bytes, 2, DIGEST_BYTES); /* not for ever: somebody may have made the user meanwhile */
    ck_assert_int_eq(passwords_recall(p, &d, clock_monotonic() + 61ull * NSEC_PER_SEC), PASSWORD_UNKNOWN);
    stop();
}

UNIT(guesses_do_not_push_out_what_is_good)
{
    start();
    ck_assert_int_eq(passwords_submit(inbox, job_of(1, "secret", 1)), 0);
    wait_for_delivered(1);
    for (unsigned i = 0; i < 12; i++) { /* all of the same set of the cache */
        struct password_job *job = job_of(1, "guess", i);
        job->key.bytes[9] = (uint8_t)i;
        ck_assert_int_eq(passwords_submit(inbox, job), 0);
    }
    wait_for_delivered(13);
    ck_assert_int_eq(recall(1), PASSWORD_GOOD);
    stop();
}

/* The first job keeps the verifier busy: a bcrypt hash that takes a few hundred milliseconds. */
static void keep_busy(struct password_inbox *b)
{
    struct password_job *slow = job_of(200, "x", 200);
    memcpy(slow->hash, "$2y$12", 6);
    ck_assert_int_eq(passwords_submit(b, slow), 0);
}

UNIT(the_queue_is_bounded_for_each_address_and_for_all)
{
    start();
    unsigned taken = 0;
    keep_busy(inbox);
    for (unsigned i = 0; i < 50; i++) {
        struct password_job *job = job_of((uint8_t)i, "guess", 7);
        if (passwords_submit(inbox, job) == 0)
            taken++;
        else
            password_job_free(job);
    }
    ck_assert_uint_eq(taken, PASSWORDS_PER_ADDRESS_MAX);
    struct password_job *other = job_of(60, "secret", 8);
    ck_assert_int_eq(passwords_submit(inbox, other), 0); /* another address is unharmed */
    for (unsigned i = 0; i < 200; i++) {
        struct password_job *job = job_of((uint8_t)i, "guess", 1000 + i);
        if (passwords_submit(inbox, job) == 0)
            taken++;
        else
            password_job_free(job);
    }
    ck_assert_uint_le(taken + 1, PASSWORDS_QUEUE_MAX + 1);
    ck_assert_uint_ge(taken + 1, PASSWORDS_QUEUE_MAX - 1);
    stop();
}

UNIT(an_inbox_that_goes_takes_its_jobs_along_and_leaves_others)
{
    start();
    struct password_inbox *other = unit_made(password_inbox_new(p, loop, deliver, &n_delivered));
    keep_busy(inbox);
    ck_assert_int_eq(passwords_submit(other, job_of(1, "secret", 1)), 0);
    ck_assert_int_eq(passwords_submit(inbox, job_of(2, "secret", 2)), 0);
    ck_assert_int_eq(passwords_submit(other, job_of(3, "secret", 3)), 0);
    password_inbox_free(other);
    ck_assert_int_eq(passwords_submit(inbox, job_of(4, "secret", 4)), 0);
    wait_for_delivered(3);
    ck_assert_int_eq(recall(1), PASSWORD_UNKNOWN);
    ck_assert_int_eq(recall(2), PASSWORD_GOOD);
    ck_assert_int_eq(recall(4), PASSWORD_GOOD);
    stop();
}
