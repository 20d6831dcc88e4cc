/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tls_context.c makes and tls.c uses. For proto/io only.
 */
#ifndef PROTO_IO_TLS_PARTS_H
#define PROTO_IO_TLS_PARTS_H

#include <openssl/ssl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define TLS_ALPN_MAX 64 /* wire form of our list (RFC 7301 §3.1) */

/* Of a file: it is another one, or has other contents, if these are others. Zeros: there is none. */
struct tls_stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

#define TLS_FILES 3 /* authorities, certificate, key */

struct tls_context {
    atomic_uint refs; /* the maker's and one for each connection */
    SSL_CTX *ssl;
    bool server, verify;
    unsigned char alpn[TLS_ALPN_MAX];
    unsigned int n_alpn;
    int64_t expiry;
    /* Of a client, for the next renewal: what it was made of. */
    char *files[TLS_FILES]; /* NULL: none */
    const char *min_version;
    struct tls_stamp stamps[TLS_FILES];
};

/* The newest message of OpenSSL's queue, which is emptied. */
void tls_openssl_reason(char *text, size_t cap);

/* As tls_peer_name, of a certificate. In tls_peer.c. */
void tls_peer_cert_name(const X509 *cert, char *name, size_t cap);

/* When a certificate ends, in seconds since 1970; INT64_MAX: NULL, or it has no end. In tls_context.c. */
int64_t tls_cert_expiry(const X509 *cert);

/* The message callback of every connection made with a context (SSL_CTX_set_msg_callback(3)); arg is the
 * struct tls. In tls.c. */
void tls_on_message(int written, int version, int content_type, const void *p, size_t n, SSL *ssl, void *arg);

#endif
