#include "proto/io/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/macros.h"

#define ALPN_MAX   64          /* wire form of our list (RFC 7301 §3.1) */
#define RECORD_MAX (16u << 10) /* plaintext of one record (RFC 8446 §5.1) */
#define EARLY_MAX  (16u << 20) /* plaintext kept while the handshake runs: a request and some */
#define ERROR_MAX  256

struct tls_context {
    atomic_uint refs; /* the maker's and one for each connection */
    SSL_CTX *ssl;
    bool server, verify;
    unsigned char alpn[ALPN_MAX];
    unsigned int n_alpn;
};

struct tls {
    struct tls_context *context;
    SSL *ssl;
    BIO *in, *out; /* the SSL's */
    struct buffer early;
    bool established, closed, failed;
    char error[ERROR_MAX];
};

/* The newest message of OpenSSL's queue, which is emptied. */
static void openssl_reason(char *text, size_t cap)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    snprintf(text, cap, "%s", reason ? reason : "no reason given");
    ERR_clear_error();
}

static int explain(struct error *e, int r, const char *doing, const char *file)
{
    char reason[128];
    openssl_reason(reason, sizeof reason);
    return error_set(e, r, "%s%s%s: %s", doing, file ? " " : "", file ? file : "", reason);
}

static int check_file(const char *file, const char *what, struct error *e)
{
    struct stat st;
    if (file && stat(file, &st) < 0) {
        int r = -errno;
        return error_set(e, r, "%s %s: %s", what, file, strerror(-r));
    }
    return 0;
}

static int set_alpn(struct tls_context *c, const char *const *names, struct error *e)
{
    for (; names && *names; names++) {
        size_t n = strlen(*names);
        if (n == 0 || n > 255 || c->n_alpn + 1 + n > sizeof c->alpn)
            return error_set(e, -EINVAL, "the list of application protocols is too long");
        c->alpn[c->n_alpn++] = (unsigned char)n;
        memcpy(c->alpn + c->n_alpn, *names, n);
        c->n_alpn += (unsigned int)n;
    }
    return 0;
}

/* The server's choice: the first of ours that the client offers; none of them is no error (RFC 7301 §3.2
 * would end the handshake, but a client that offers nothing we know may still speak HTTP/1). */
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                       unsigned int in_len, void *arg)
{
    (void)ssl;
    struct tls_context *c = arg;
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, out_len, c->alpn, c->n_alpn, in, in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static int load_identity(SSL_CTX *ssl, const struct tls_options *o, struct error *e)
{
    if (!o->cert_file != !o->key_file)
        return error_set(e, -EINVAL, "a certificate and its key must be given together");
    if (!o->cert_file)
        return o->server ? error_set(e, -EINVAL, "a TLS server needs a certificate and a key") : 0;
    int r = check_file(o->cert_file, "certificate", e);
    if (r == 0)
        r = check_file(o->key_file, "private key", e);
    if (r < 0)
        return r;
    if (SSL_CTX_use_certificate_chain_file(ssl, o->cert_file) != 1)
        return explain(e, -EINVAL, "reading the certificate", o->cert_file);
    if (SSL_CTX_use_PrivateKey_file(ssl, o->key_file, SSL_FILETYPE_PEM) != 1)
        return explain(e, -EINVAL, "reading the private key", o->key_file);
    if (SSL_CTX_check_private_key(ssl) != 1)
        return explain(e, -EINVAL, "the private key does not belong to the certificate:", o->key_file);
    return 0;
}

static int load_authorities(SSL_CTX *ssl, const struct tls_options *o, struct error *e)
{
    if (o->ca_file) {
        int r = check_file(o->ca_file, "CA file", e);
        if (r < 0)
            return r;
        if (SSL_CTX_load_verify_locations(ssl, o->ca_file, NULL) != 1)
            return explain(e, -EINVAL, "reading the CA file", o->ca_file);
    } else if (!o->server && SSL_CTX_set_default_verify_paths(ssl) != 1) {
        return explain(e, -EINVAL, "reading the system's CA certificates", NULL);
    }
    return 0;
}

int tls_context_new(struct tls_context **ret, const struct tls_options *o, struct error *e)
{
    struct tls_context *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(e, -ENOMEM, "TLS: out of memory");
    c->refs = 1;
    c->server = o->server;
    c->verify = o->server ? o->ca_file != NULL : !o->insecure_skip_verify;
    c->ssl = SSL_CTX_new(o->server ? TLS_server_method() : TLS_client_method());
    int r = c->ssl ? set_alpn(c, o->alpn, e) : error_set(e, -ENOMEM, "TLS: out of memory");
    if (r == 0)
        r = load_identity(c->ssl, o, e);
    if (r == 0)
        r = load_authorities(c->ssl, o, e);
    if (r < 0) {
        tls_context_free(c);
        return r;
    }
    SSL_CTX_set_min_proto_version(c->ssl, TLS1_2_VERSION); /* RFC 9113 §9.2 */
    /* No compression (RFC 9113 §9.2.1), no renegotiation; buffers are given back while a connection is idle.
     */
    SSL_CTX_set_options(c->ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(c->ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_ENABLE_PARTIAL_WRITE);
    if (c->verify)
        SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER | (o->server ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
    if (o->server && c->n_alpn > 0)
        SSL_CTX_set_alpn_select_cb(c->ssl, choose_alpn, c);
    else if (c->n_alpn > 0)
        SSL_CTX_set_alpn_protos(c->ssl, c->alpn, c->n_alpn);
    *ret = c;
    return 0;
}

struct tls_context *tls_context_free(struct tls_context *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
        return NULL;
    SSL_CTX_free(c->ssl);
    free(c);
    return NULL;
}

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
            openssl_reason(t->error, sizeof t->error);
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
    t->context = c;
    atomic_fetch_add(&c->refs, 1);
    t->ssl = SSL_new(c->ssl);
    t->in = BIO_new(BIO_s_mem());
    t->out = BIO_new(BIO_s_mem());
    if (!t->ssl || !t->in || !t->out) {
        BIO_free(t->in);
        BIO_free(t->out);
        t->in = t->out = NULL;
        return tls_free(t);
    }
    SSL_set_bio(t->ssl, t->in, t->out); /* owns both now */
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
        if (r != 1) /* a memory BIO takes everything: this is an error */
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
        if (r == 1) {
            plain->n += n;
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

int tls_feed(struct tls *t, struct bytes in, struct buffer *plain)
{
    if (t->failed)
        return -ECONNABORTED;
    while (in.n > 0 && !t->closed) {
        int n = in.n > INT_MAX ? INT_MAX : (int)in.n;
        n = BIO_write(t->in, in.p, n);
        if (n <= 0)
            return -ENOMEM;
        in.p += n;
        in.n -= (size_t)n;
    }
    if (!t->established) {
        int r = shake_hands(t);
        if (r == 0 && t->established)
            r = write_plain(t, buffer_bytes(&t->early));
        if (t->established)
            buffer_release(&t->early);
        if (r < 0 || !t->established)
            return r;
    }
    return read_plain(t, plain);
}

int tls_write(struct tls *t, struct bytes plain)
{
    if (t->failed)
        return -ECONNABORTED;
    return t->established ? write_plain(t, plain) : buffer_add_bytes(&t->early, plain);
}

int tls_drain(struct tls *t, struct buffer *out, size_t max)
{
    size_t have = BIO_ctrl_pending(t->out), n = min_of(have, max);
    if (n == 0)
        return 0;
    n = min_of(n, (size_t)INT_MAX);
    uint8_t *p = buffer_cursor(out, n);
    if (!p)
        return -ENOMEM;
    int got = BIO_read(t->out, p, (int)n);
    if (got > 0)
        out->n += (size_t)got;
    return 0;
}

bool tls_has_output(const struct tls *t)
{
    return BIO_ctrl_pending(t->out) > 0;
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

const char *tls_error(const struct tls *t)
{
    return t->error;
}
