/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "proto/base/clock.h"
#include "proto/base/library/library.h"
#include "proto/io/tls_parts.h"

/* TLS 1.2: forward secrecy and AEAD only, as HTTP/2 wants it (RFC 9113 §9.2.2); 1.3 has nothing else. */
#define SERVER_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

void tls_openssl_reason(char *text, size_t cap)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code ? ERR_reason_error_string(code) : NULL;
    snprintf(text, cap, "%s", reason ? reason : "no reason given");
    ERR_clear_error();
}

static int explain(struct error *e, int r, const char *doing, const char *file)
{
    char reason[128];
    tls_openssl_reason(reason, sizeof reason);
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
        if (o->server) /* so that a client with several certificates knows which one to show */
            SSL_CTX_set_client_CA_list(ssl, SSL_load_client_CA_file(o->ca_file));
    } else if (!o->server && SSL_CTX_set_default_verify_paths(ssl) != 1) {
        return explain(e, -EINVAL, "reading the system's CA certificates", NULL);
    }
    return 0;
}

static int set_version(SSL_CTX *ssl, const char *min_version, struct error *e)
{
    int version = TLS1_2_VERSION;
    if (min_version && strcmp(min_version, "1.3") == 0)
        version = TLS1_3_VERSION;
    else if (min_version && strcmp(min_version, "1.2") != 0)
        return error_set(e, -EINVAL, "TLS version \"%s\": the least version is 1.2 or 1.3", min_version);
    return SSL_CTX_set_min_proto_version(ssl, version) == 1 ? 0
                                                            : explain(e, -EINVAL, "TLS version", min_version);
}

/* A daemon has no terminal to ask for a passphrase at, which is what OpenSSL does by default. */
static int no_passphrase(char *text, int cap, int writing, void *arg)
{
    (void)text, (void)cap, (void)writing, (void)arg;
    return 0;
}

/* Whoever resumes is not asked for his certificate again, and is given a new ticket each time, so that one
 * that has expired would do for ever: he shakes hands in full, and is refused there. */
static SSL_TICKET_RETURN judge_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
                                      size_t name_n, SSL_TICKET_STATUS status, void *arg)
{
    (void)ssl, (void)name, (void)name_n, (void)arg;
    const X509 *peer = session ? SSL_SESSION_get0_peer(session) : NULL;
    if ((status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) ||
        (peer && X509_cmp_current_time(X509_get0_notAfter(peer)) <= 0))
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

static int set_server(struct tls_context *c, struct error *e)
{
    /* Resumption by stateless tickets only (RFC 5077, RFC 8446 §4.6.1): a cache of sessions is memory that
     * peers fill. The id context must be set where client certificates are asked for, or resuming fails
     * (SSL_CTX_set_session_id_context(3)). Each context has ticket keys of its own, so that no session
     * outlives a reload of certificates by resumption. */
    static const unsigned char id[] = "profgate";
    SSL_CTX_set_session_cache_mode(c->ssl, SSL_SESS_CACHE_OFF);
    if (SSL_CTX_set_session_id_context(c->ssl, id, sizeof id - 1) != 1 ||
        SSL_CTX_set_cipher_list(c->ssl, SERVER_CIPHERS) != 1 ||
        (c->verify && SSL_CTX_set_session_ticket_cb(c->ssl, NULL, judge_ticket, NULL) != 1))
        return explain(e, -EINVAL, "setting TLS up", NULL);
    if (c->n_alpn > 0)
        SSL_CTX_set_alpn_select_cb(c->ssl, choose_alpn, c);
    return 0;
}

int64_t tls_cert_expiry(const X509 *cert)
{
    struct tm at = {0};
    if (!cert || ASN1_TIME_to_tm(X509_get0_notAfter(cert), &at) != 1)
        return INT64_MAX;
    return timegm(&at);
}

static int set_up(struct tls_context *c, const struct tls_options *o, struct error *e)
{
    SSL_CTX_set_default_passwd_cb(c->ssl, no_passphrase);
    int r = set_alpn(c, o->alpn, e);
    if (r == 0)
        r = set_version(c->ssl, o->min_version, e);
    if (r == 0)
        r = load_identity(c->ssl, o, e);
    if (r == 0)
        r = load_authorities(c->ssl, o, e);
    if (r == 0 && o->server)
        r = set_server(c, e);
    if (r < 0)
        return r;
    /* No compression (RFC 9113 §9.2.1), no renegotiation; buffers are given back while a connection is idle.
     */
    SSL_CTX_set_options(c->ssl, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(c->ssl, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                 SSL_MODE_ENABLE_PARTIAL_WRITE);
    SSL_CTX_set_msg_callback(c->ssl, tls_on_message);
    if (c->verify)
        SSL_CTX_set_verify(c->ssl, SSL_VERIFY_PEER | (o->server ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
    if (!o->server && c->n_alpn > 0 && SSL_CTX_set_alpn_protos(c->ssl, c->alpn, c->n_alpn) != 0)
        return error_set(e, -ENOMEM, "TLS: out of memory");
    c->expiry = tls_cert_expiry(SSL_CTX_get0_certificate(c->ssl));
    return 0;
}

static void take_stamps(const struct tls_context *c, struct tls_stamp ret[TLS_FILES])
{
    for (uint32_t i = 0; i < TLS_FILES; i++) {
        struct stat st;
        ret[i] = (struct tls_stamp){0};
        if (c->files[i] && stat(c->files[i], &st) == 0)
            ret[i] = (struct tls_stamp){st.st_dev, st.st_ino, st.st_size, st.st_mtim};
    }
}

static bool is_same(const struct tls_stamp *a, const struct tls_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           clock_is_same(a->changed, b->changed);
}

/* Before its files are read: what changes meanwhile is seen by the next renewal. 0 or -ENOMEM. */
static int remember(struct tls_context *c, const struct tls_options *o)
{
    const char *const given[TLS_FILES] = {o->ca_file, o->cert_file, o->key_file};
    for (uint32_t i = 0; i < TLS_FILES; i++)
        if (given[i] && !(c->files[i] = strdup(given[i])))
            return -ENOMEM;
    c->min_version = o->min_version && strcmp(o->min_version, "1.3") == 0 ? "1.3" : NULL;
    take_stamps(c, c->stamps);
    return 0;
}

int tls_context_renew(struct tls_context *c, struct error *e)
{
    struct tls_stamp now[TLS_FILES];
    bool is_new = false;
    take_stamps(c, now);
    for (uint32_t i = 0; i < TLS_FILES; i++)
        is_new |= !is_same(&now[i], &c->stamps[i]);
    if (c->server || !is_new)
        return 0;
    struct tls_context made = {
        .verify = c->verify, .n_alpn = c->n_alpn, .ssl = SSL_CTX_new(TLS_client_method())};
    const struct tls_options options = {.ca_file = c->files[0],
                                        .cert_file = c->files[1],
                                        .key_file = c->files[2],
                                        .min_version = c->min_version};
    memcpy(made.alpn, c->alpn, sizeof made.alpn);
    const int r = made.ssl ? set_up(&made, &options, e) : error_set(e, -ENOMEM, "TLS: out of memory");
    if (r == 0) {
        SSL_CTX *old = c->ssl;
        c->ssl = made.ssl;
        c->expiry = made.expiry;
        memcpy(c->stamps, now, sizeof now);
        made.ssl = old; /* connections that were made with it have it still */
    }
    SSL_CTX_free(made.ssl);
    return r;
}

int tls_context_new(struct tls_context **ret, const struct tls_options *o, struct error *e)
{
    int r = library_load(&library_openssl, e);
    if (r < 0)
        return r;
    struct tls_context *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(e, -ENOMEM, "TLS: out of memory");
    c->refs = 1;
    c->server = o->server;
    c->verify = o->server ? o->ca_file != NULL : !o->insecure_skip_verify;
    c->ssl = SSL_CTX_new(o->server ? TLS_server_method() : TLS_client_method());
    r = c->ssl && (o->server || remember(c, o) == 0) ? set_up(c, o, e)
                                                     : error_set(e, -ENOMEM, "TLS: out of memory");
    if (r < 0) {
        tls_context_free(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct tls_context *tls_context_ref(struct tls_context *c)
{
    atomic_fetch_add(&c->refs, 1);
    return c;
}

int64_t tls_context_expiry(const struct tls_context *c)
{
    return c->expiry;
}

int64_t tls_file_expiry(const char *cert_file)
{
    if (!cert_file || library_load(&library_openssl, NULL) < 0)
        return INT64_MAX;
    SSL_CTX *ssl = SSL_CTX_new(TLS_client_method());
    const bool is_read = ssl && SSL_CTX_use_certificate_chain_file(ssl, cert_file) == 1;
    const int64_t at = is_read ? tls_cert_expiry(SSL_CTX_get0_certificate(ssl)) : INT64_MAX;
    SSL_CTX_free(ssl);
    ERR_clear_error();
    return at;
}

struct tls_context *tls_context_free(struct tls_context *c)
{
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
        return NULL;
    SSL_CTX_free(c->ssl);
    for (uint32_t i = 0; i < TLS_FILES; i++)
        free(c->files[i]);
    free(c);
    return NULL;
}
