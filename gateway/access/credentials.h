/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a token file and an htpasswd file say: a snapshot that never changes, shared by all threads and freed
 * with its last reference.
 */
#ifndef GATEWAY_ACCESS_CREDENTIALS_H
#define GATEWAY_ACCESS_CREDENTIALS_H

#include <stdatomic.h>
#include <stdint.h>

#include "gateway/access/digest.h"
#include "proto/base/arena.h"
#include "proto/base/error.h"
#include "proto/base/vec.h"

/* A file of secrets is small; these bounds catch a wrong file. Every token is compared with all of them. */
#define CREDENTIALS_FILE_MAX (1u << 20)
#define CREDENTIALS_MAX      4096u /* tokens, and users */
#define CREDENTIALS_NAME_MAX 128u

struct credential_token {
    struct digest digest;
    struct bytes name;
};

struct credential_user {
    struct bytes name;
    struct bytes hash; /* crypt(3)'s, or "{SHA}…"; NUL-terminated */
};

struct credentials {
    atomic_uint refs;
    uint64_t generation; /* unique in the process, never 0 */
    struct arena arena;
    VEC(struct credential_token) tokens;
    VEC(struct credential_user) users; /* by name */
};

/* With one reference, empty. NULL: memory is out. */
struct credentials *credentials_new(void);
struct credentials *credentials_hold(struct credentials *c);
/* Returns NULL; NULL is fine. Any thread. */
struct credentials *credentials_drop(struct credentials *c);

/* Adds the tokens of a file's text: `TOKEN` or `TOKEN NAME` a line, blank lines and those that begin with '#'
 * are skipped. A token without a name is called by the beginning of its digest. 0, -ENOMEM, or -EINVAL with
 * *e naming the line (never the token). */
int credentials_add_tokens(struct credentials *c, struct digester *d, struct bytes text, struct error *e);

/* Adds the users of an htpasswd file's text, `NAME:HASH` a line: bcrypt, SHA-crypt, yescrypt, gost-yescrypt
 * and scrypt of crypt(3), and Apache's "{SHA}". 0, -ENOMEM, or -EINVAL with *e naming the line and what is
 * not taken. */
int credentials_add_users(struct credentials *c, struct bytes text, struct error *e);

/* The token's client, or NULL; takes the same time whichever it is. */
const struct credential_token *credentials_find_token(const struct credentials *c,
                                                      const struct digest *digest);

/* NULL: nobody has that name. */
const struct credential_user *credentials_find_user(const struct credentials *c, struct bytes name);

#endif
