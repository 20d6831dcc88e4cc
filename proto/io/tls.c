/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/channel.h"
#include "proto/io/tls_parts.h"

#define RECORD_MAX (16u << 10) /* plaintext of one record (RFC 8446 §5.1) */
#define EARLY_MAX  (16u << 20) /* plaintext kept while the handshake runs: a request and some */
#define ERROR_MAX  256

struct tls {
    struct tls_context *context;
    SSL *ssl;
    struct bytes in;   /* of the tls_feed that is running: what OpenSSL has not read of it yet */
    struct buffer out; /* ciphertext to drain … */
    size_t drained;    /* … but for so many bytes */
    struct buffer early;
    uint64_t n_plain;         /* bytes decrypted */
    uint32_t late_handshakes; /* handshake messages received after the handshake */
    bool established, closed, failed;
    char error[ERROR_MAX];
};

/* ---- OpenSSL's end: it reads from a slice and writes to a buffer ----
 * Its own memory BIOs would copy the ciphertext once more and never give memory back. */

static int bio_read(BIO *b, char *to, int cap)
{
    struct tls *t = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    int n = (int)min_of((size_t)max_of(cap, 0), t->in.n);
    if (n == 0) {
        BIO_set_retry_read(b);
        return -1;
    }
    memcpy(to, t->in.p, (size_t)n);
    t->in.p += n;
    t->in.n -= (size_t)n;
    return n;
}

static int bio_write(BIO *b, const char *from, int n)
{
    struct tls *t = BIO_get_data(b);
    BIO_clear_retry_flags(b);
    return n > 0 && buffer_add(&t->out, from, (size_t)n) == 0 ? n : -1;
}

static long bio_ctrl(BIO *b, int command, long number, void *pointer)
{
    (void)b, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH; /* done at once; of everything else we know nothing */
}

/* One for the process, made when first asked for: OpenSSL has about a hundred numbers for kinds of BIO. */
static const BIO_METHOD *bio_method(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static BIO_METHOD *method;
    pthread_mutex_lock(&lock);
    if (!method) {
        BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "slice and buffer");
        if (m && BIO_meth_set_read(m, bio_read) && BIO_meth_set_write(m, bio_write) &&
            BIO_meth_set_ctrl(m, bio_ctrl))
            method = m;
        else
            BIO_meth_free(m);
    }
    pthread_mutex_unlock(&lock);
    return method;
}

static bool join(struct tls *t)
{
    const BIO_METHOD *method = bio_method();
    BIO *b = method ? BIO_new(method) : NULL;
    if (!b)
        return false;
    BIO_set_data(b, t);
    BIO_set_init(b, 1);
    SSL_set_bio(t->ssl, b, b); /* owns it now */
    return true;
}

void tls_on_message(int written, int version, int content_type, const void *p, size_t n, SSL *ssl, void *arg)
{
    (void)version, (void)p, (void)n, (void)ssl;
    struct tls *t = arg;
    if (t && !written && content_type == SSL3_RT_HANDSHAKE && t->established)
        t->late_handshakes++;
}

/* ---- a connection ---- */

static bool is_ip(const char *name)
{
    unsigned char address[16];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static bool set_server_name(struct tls *t, const struct tls_context *c, const char *name)
{
    bool ip = is_ip(name);
    if (!ip && SSL_set_tlsext_host_name(t->ssl, name) != 1)
        return false;
    if (!c->verify)
        return true;
    if (ip)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(t->ssl), name) == 1;
    SSL_set_hostflags(t->ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(t->ssl, name) == 1;
}

/* Remembers why, once. */
static int fail(struct tls *t)
{
    if (!t->failed) {
        long verdict = SSL_get_verify_result(t->ssl);
        if (verdict != X509_V_OK) {
            snprintf(t->error, sizeof t->error, "the peer's certificate was not accepted: %s",
                     X509_verify_cert_error_string(verdict));
            ERR_clear_error();
        } else {
            /* OpenSSL's words for it send people looking for versions. */
            const bool is_plain =
                !SSL_is_server(t->ssl) && ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_WRONG_VERSION_NUMBER;
            tls_openssl_reason(t->error, sizeof t->error);
            if (is_plain)
                snprintf(t->error, sizeof t->error,
                         "wrong version number: the answer is no TLS; is it http:// there?");
        }
    }
    t->failed = true;
    return -ECONNABORTED;
}

/* Goes on with the handshake. 0 (perhaps established now) or -ECONNABORTED. */
static int shake_hands(struct tls *t)
{
    ERR_clear_error();
    int r = SSL_do_handshake(t->ssl);
    if (r == 1) {
        t->established = true;
        return 0;
    }
    int why = SSL_get_error(t->ssl, r);
    return why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? 0 : fail(t);
}

struct tls *tls_new(struct tls_context *c, const char *server_name)
{
    struct tls *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->early.max = EARLY_MAX;
    t->context = tls_context_ref(c);
    t->ssl = SSL_new(c->ssl);
    if (!t->ssl || !join(t))
        return tls_free(t);
    SSL_set_msg_callback_arg(t->ssl, t);
    if (c->server)
        SSL_set_accept_state(t->ssl);
    else
        SSL_set_connect_state(t->ssl);
    if (!c->server && server_name && !set_server_name(t, c, server_name))
        return tls_free(t);
    if (!c->server && shake_hands(t) < 0)
        return tls_free(t);
    return t;
}

struct tls *tls_free(struct tls *t)
{
    if (!t)
        return NULL;
    SSL_free(t->ssl);
    tls_context_free(t->context);
    buffer_release(&t->early);
    buffer_release(&t->out);
    ERR_clear_error();
    free(t);
    return NULL;
}

static int write_plain(struct tls *t, struct bytes plain)
{
    while (plain.n > 0) {
        size_t written = 0;
        ERR_clear_error();
        int r = SSL_write_ex(t->ssl, plain.p, plain.n, &written);
        if (r != 1) /* our end takes everything: this is an error */
            return fail(t);
        plain.p += written;
        plain.n -= written;
    }
    return 0;
}

/* Moves decrypted bytes to plain until OpenSSL wants more ciphertext. */
static int read_plain(struct tls *t, struct buffer *plain)
{
    for (;;) {
        int r = buffer_reserve(plain, RECORD_MAX);
        if (r < 0)
            return r;
        size_t n = 0;
        ERR_clear_error();
        r = SSL_read_ex(t->ssl, plain->p + plain->n, RECORD_MAX, &n);
        if (t->late_handshakes > TLS_LATE_HANDSHAKES_MAX + t->n_plain / TLS_LATE_HANDSHAKE_PER) {
            if (!t->failed)
                snprintf(t->error, sizeof t->error, "too many handshake messages after the handshake");
            t->failed = true;
            return -ECONNABORTED;
        }
        if (r == 1) {
            plain->n += n;
            t->n_plain += n;
            continue;
        }
        switch (SSL_get_error(t->ssl, r)) {
        case SSL_ERROR_WANT_READ:
        case SSL_ERROR_WANT_WRITE: return 0;
        case SSL_ERROR_ZERO_RETURN: t->closed = true; return 0;
        default: return fail(t);
        }
    }
}

/* The handshake, and when that is done, what waited for it. */
static int go_on(struct tls *t)
{
    int r = shake_hands(t);
    if (r == 0 && t->established)
        r = write_plain(t, buffer_bytes(&t->early));
    if (t->established)
        buffer_release(&t->early);
    return r;
}

int tls_feed(struct tls *t, struct bytes in, struct buffer *plain)
{
    if (t->failed)
        return -ECONNABORTED;
    if (t->closed)
        return 0;
    t->in = in;
    int r = t->established ? 0 : go_on(t);
    if (r == 0 && t->established)
        r = read_plain(t, plain);
    t->in = bytes_of(NULL, 0); /* what an error left of it is nobody's */
    return r;
}

int tls_write(struct tls *t, struct bytes plain)
{
    if (t->failed)
        return -ECONNABORTED;
    return t->established ? write_plain(t, plain) : buffer_add_bytes(&t->early, plain);
}

int tls_drain(struct tls *t, struct buffer *out, size_t max)
{
    size_t n = min_of(t->out.n - t->drained, max);
    if (n == 0)
        return 0;
    int r = buffer_add(out, t->out.p + t->drained, n);
    if (r < 0)
        return r;
    t->drained += n;
    if (t->drained == t->out.n) {
        buffer_release(&t->out); /* of an idle connection nothing stays */
        t->drained = 0;
    }
    return 0;
}

bool tls_has_output(const struct tls *t)
{
    return t->out.n > t->drained;
}

#define FLUSH_BYTES (64u << 10) /* at a time */

int tls_flush(struct tls *t, struct io_channel *to, struct buffer *room)
{
    int r = 0;
    while (r == 0 && tls_has_output(t)) {
        room->n = 0;
        r = tls_drain(t, room, FLUSH_BYTES);
        if (r == 0)
            r = io_channel_write(to, buffer_bytes(room));
    }
    return r;
}

void tls_shutdown(struct tls *t)
{
    if (t->established && !t->failed)
        SSL_shutdown(t->ssl);
    ERR_clear_error();
}

bool tls_is_established(const struct tls *t)
{
    return t->established;
}

bool tls_is_closed(const struct tls *t)
{
    return t->closed;
}

struct bytes tls_alpn(const struct tls *t)
{
    const unsigned char *p = NULL;
    unsigned int n = 0;
    SSL_get0_alpn_selected(t->ssl, &p, &n);
    return bytes_of(p, n);
}

static const X509 *verified_peer(const struct tls *t)
{
    return t->established && t->context->verify && SSL_get_verify_result(t->ssl) == X509_V_OK
               ? SSL_get0_peer_certificate(t->ssl)
               : NULL;
}

void tls_peer_name(const struct tls *t, char *name, size_t cap)
{
    const X509 *cert = verified_peer(t);
    name[0] = '\0';
    if (cert)
        tls_peer_cert_name(cert, name, cap);
}

uint64_t tls_peer_good_until(const struct tls *t, uint64_t now)
{
    const uint64_t today = clock_realtime() / NSEC_PER_SEC;
    const int64_t end = tls_cert_expiry(verified_peer(t));
    if (end < 0 || (uint64_t)end <= today)
        return now;
    const uint64_t left = (uint64_t)end - today;
    return left < UINT64_MAX / NSEC_PER_SEC / 2 ? now + left * NSEC_PER_SEC : UINT64_MAX;
}

const char *tls_error(const struct tls *t)
{
    return t->error;
}
