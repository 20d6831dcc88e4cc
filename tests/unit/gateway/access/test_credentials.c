/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "gateway/access/credentials.h"
#include "proto/base/buffer.h"
#include "tests/lib/unit.h"

#define BCRYPT "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"
#define SHA512 \
    "$6$rounds=1000$saltsalt$LAV5VE5Y7w1d73x1mFNspYWUpazfmwv2SoepNXNKJ/otop/Zok96Hr8Q13LEv0DRY/x8v0/crpIjl8NJSAqXV/"

static const uint8_t secret[DIGEST_BYTES] = "not very";
static struct digester *digester;
static struct error e;

static struct credentials *start(void)
{
    digester = digester_new(secret);
    struct credentials *c = unit_made(credentials_new());
    ck_assert(digester && c);
    e.text[0] = 0;
    return c;
}

static void stop(struct credentials *c)
{
    credentials_drop(c);
    digester_free(digester);
}

static const struct credential_token *find(const struct credentials *c, const char *token)
{
    struct digest d;
    struct bytes b = bytes_str(token);
    ck_assert_int_eq(digest_of(digester, &b, 1, &d), 0);
    return credentials_find_token(c, &d);
}

UNIT(tokens_have_names_or_get_one)
{
    struct credentials *c = start();
    const char *text = "# who\r\n\r\nabc  alice \nxyz==\tbob\r\n  nameless\nlast eve";
    ck_assert_int_eq(credentials_add_tokens(c, digester, bytes_str(text), &e), 0);
    ck_assert_uint_eq(c->tokens.n, 4);
    ck_assert(bytes_is(find(c, "abc")->name, "alice"));
    ck_assert(bytes_is(find(c, "xyz==")->name, "bob"));
    ck_assert(bytes_is(find(c, "last")->name, "eve"));
    ck_assert(bytes_starts(find(c, "nameless")->name, "token-"));
    ck_assert_uint_eq(find(c, "nameless")->name.n, 18);
    ck_assert_ptr_null(find(c, "ab"));
    ck_assert_ptr_null(find(c, ""));
    ck_assert_ptr_null(find(c, "# who"));
    stop(c);
}

static void bad_tokens(const char *text, const char *what)
{
    struct credentials *c = start();
    ck_assert_int_eq(credentials_add_tokens(c, digester, bytes_str(text), &e), -EINVAL);
    ck_assert_msg(strstr(e.text, what) != NULL, "%s", e.text);
    ck_assert_ptr_null(strstr(e.text, "s3cret"));
    stop(c);
}

UNIT(a_bad_token_file_is_refused_by_line_without_saying_the_token)
{
    bad_tokens("ok\n\ns3cret,\n", "line 3: not a bearer token");
    bad_tokens("s3cret two words\n", "line 1: the name");
    bad_tokens("s3cret \xff\n", "line 1: the name");
    bad_tokens("s3cret a\nother\ns3cret b\n", "line 3: this token stands there twice");
}

UNIT(a_token_file_has_a_greatest_number)
{
    struct credentials *c = start();
    struct buffer text = {0};
    for (uint32_t i = 0; i < CREDENTIALS_MAX; i++)
        ck_assert_int_eq(buffer_printf(&text, "token%u name%u\n", i, i), 0);
    ck_assert_int_eq(credentials_add_tokens(c, digester, buffer_bytes(&text), &e), 0);
    ck_assert(bytes_is(find(c, "token4095")->name, "name4095"));
    ck_assert(bytes_is(find(c, "token0")->name, "name0"));
    ck_assert_int_eq(credentials_add_tokens(c, digester, BYTES_LIT("more"), &e), -EINVAL);
    buffer_release(&text);
    stop(c);
}

UNIT(users_are_found_by_name)
{
    struct credentials *c = start();
    const char *text =
        "# htpasswd\nzoe:" BCRYPT "\nadam:" SHA512 ":ignored\nmid:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n";
    ck_assert_int_eq(credentials_add_users(c, bytes_str(text), &e), 0);
    ck_assert_uint_eq(c->users.n, 3);
    ck_assert(bytes_is(credentials_find_user(c, BYTES_LIT("zoe"))->hash, BCRYPT));
    ck_assert(bytes_is(credentials_find_user(c, BYTES_LIT("adam"))->hash, SHA512));
    ck_assert_ptr_null(credentials_find_user(c, BYTES_LIT("Zoe")));
    ck_assert_ptr_null(credentials_find_user(c, BYTES_LIT("")));
    stop(c);
}

static void bad_users(const char *text, const char *what)
{
    struct credentials *c = start();
    ck_assert_int_eq(credentials_add_users(c, bytes_str(text), &e), -EINVAL);
    ck_assert_msg(strstr(e.text, what) != NULL, "%s", e.text);
    stop(c);
}

UNIT(weak_and_unknown_hashes_are_refused_by_name)
{
    bad_users("a:" BCRYPT "\nb:$1$saltsalt$9xy1btjgzLYfb7hivXtC//\n", "line 2: this kind of hash (MD5)");
    bad_users("a:$apr1$saltsalt$9xy1btjgzLYfb7hivXtC//\n", "Apache's MD5");
    bad_users("a:abNANd1rDfiNc\n", "DES");
    bad_users("a:{SSHA}abcd\n", "salted SHA-1");
    bad_users("a:plain\n", "unknown");
    bad_users("a:\n", "unknown");
    bad_users("a:{SHA}tooshort\n", "unknown");
    bad_users("a:$2y$04$short\n", "unknown");
    bad_users("a:!\n", "unknown");
    bad_users("nothing\n", "line 1: not NAME:HASH");
    bad_users(":" BCRYPT "\n", "line 1: the name");
    bad_users("a:" BCRYPT "\na:" SHA512 "\n", "a stands there twice");
}

UNIT(hashes_that_take_minutes_are_refused)
{
    static const char *const slow[] = {
        "a:$2b$17$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui\n",
        "a:$2y$31$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui\n",
        "a:$5$rounds=5000001$saltsalt$xlx/1lN1A1c8MNWDyMbkLqHkQzYQ2Q4lXpWmWmLQmd1\n",
        ("a:$6$rounds=999999999$saltsalt$"
         "qFmFH.bQmmtXzyBY0s9v7Oicd2z4XSIecDzlB5KiA2/jctKu9YterLp8wwnSq.qc.eoxqOmSuNp2xS0ktL3nh/\n"),
        "a:$y$jHT$abcdefgh$A5gVXmN1l1gC9kDyYbXQ3vW1nZmQe0m2l9c9mXo4xV7\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(slow); i++)
        bad_users(slow[i], "line 1: this hash takes minutes to verify");
}

UNIT(no_two_snapshots_have_one_generation)
{
    struct credentials *a = credentials_new(), *b = unit_made(credentials_new());
    ck_assert(a && b);
    ck_assert_uint_ne(a->generation, 0);
    ck_assert_uint_ne(a->generation, b->generation);
    credentials_drop(credentials_hold(a));
    credentials_drop(a);
    credentials_drop(b);
}
