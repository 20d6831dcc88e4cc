/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_openssl */
#include "proto/io/tls.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <time.h>

#include "proto/io/tls_parts.h"
#include "tests/unit/proto/io/identity.h"

static void make_identity(struct identity *id, const char *names)
{
    identity_make(id, names, 1);
}

static void remove_identity(const struct identity *id)
{
    identity_remove(id);
}

struct pair {
    struct tls *client, *server;
    struct buffer client_in, server_in; /* plaintext */
    int client_result, server_result;
};

static const char *const h2_first[] = {"h2", "http/1.1", NULL};

static bool move_some(struct tls *from, struct tls *to, struct buffer *plain, size_t step, int *result)
{
    cleanup(buffer_release) struct buffer b = BUFFER_INIT(0);
    tls_drain(from, &b, step);
    bool moved = b.n > 0;
    for (size_t i = 0; i < b.n && *result == 0; i += 100)
        *result = tls_feed(to, bytes_of(b.p + i, b.n - i < 100 ? b.n - i : 100), plain);
    return moved;
}

static void pair_run(struct pair *p)
{
    bool moved = true;
    while (moved) {
        moved = move_some(p->client, p->server, &p->server_in, 1000, &p->server_result);
        moved |= move_some(p->server, p->client, &p->client_in, 1000, &p->client_result);
    }
}

static void pair_close(struct pair *p)
{
    tls_free(p->client);
    tls_free(p->server);
    buffer_release(&p->client_in);
    buffer_release(&p->server_in);
}

static struct pair pair_open(const struct tls_options *server, const struct tls_options *client,
                             const char *name)
{
    struct tls_context *sc, *cc;
    struct error e = {""};
    ck_assert_msg(tls_context_new(&sc, server, &e) == 0, "%s", e.text);
    ck_assert_msg(tls_context_new(&cc, client, &e) == 0, "%s", e.text);
    struct pair p = {.client = unit_made(tls_new(cc, name)), .server = unit_made(tls_new(sc, NULL))};
    ck_assert_ptr_nonnull(p.client);
    ck_assert_ptr_nonnull(p.server);
    ck_assert(tls_has_output(p.client));
    tls_context_free(sc);
    tls_context_free(cc);
    return p;
}

UNIT(both_ways_with_alpn_and_early_words)
{
    cleanup(remove_identity) struct identity id;
    make_identity(&id, "DNS:gate.example,IP:127.0.0.1");
    const char *names[] = {"gate.example", "127.0.0.1"};
    for (int i = 0; i < 2; i++) {
        struct tls_options server = {
            .server = true, .cert_file = id.cert, .key_file = id.key, .alpn = h2_first};
        struct tls_options client = {.ca_file = id.cert, .alpn = h2_first};
        cleanup(pair_close) struct pair p = pair_open(&server, &client, names[i]);
        size_t n = 300000;
        autofree uint8_t *big = unit_made(malloc(n));
        for (size_t k = 0; k < n; k++)
            big[k] = (uint8_t)(k * 13);
        ck_assert_int_eq(tls_write(p.client, bytes_of(big, n)), 0); /* before the handshake */
        ck_assert(!tls_is_established(p.client));
        pair_run(&p);
        ck_assert_msg(p.client_result == 0 && p.server_result == 0, "%s / %s", tls_error(p.client),
                      tls_error(p.server));
        ck_assert(tls_is_established(p.client) && tls_is_established(p.server));
        ck_assert(bytes_is(tls_alpn(p.client), "h2"));
        ck_assert(bytes_is(tls_alpn(p.server), "h2"));
        ck_assert(bytes_eq(buffer_bytes(&p.server_in), bytes_of(big, n)));
        ck_assert_int_eq(tls_write(p.server, BYTES_LIT("answer")), 0);
        tls_shutdown(p.server);
        pair_run(&p);
        ck_assert(bytes_is(buffer_bytes(&p.client_in), "answer"));
        ck_assert(tls_is_closed(p.client));
        ck_assert(!tls_is_closed(p.server));
    }
}

static void expect_failure(const struct tls_options *server, const struct tls_options *client,
                           const char *name, bool at_server, const char *why)
{
    cleanup(pair_close) struct pair p = pair_open(server, client, name);
    pair_run(&p);
    ck_assert_int_eq(at_server ? p.server_result : p.client_result, -ECONNABORTED);
    const char *said = tls_error(at_server ? p.server : p.client);
    ck_assert_msg(strstr(said, why), "%s", said);
}

UNIT(certificates_are_checked)
{
    struct identity id, other;
    make_identity(&id, "DNS:gate.example");
    make_identity(&other, "DNS:gate.example");
    struct tls_options server = {.server = true, .cert_file = id.cert, .key_file = id.key};
    struct tls_options client = {.ca_file = id.cert}, stranger = {.ca_file = other.cert};
    expect_failure(&server, &client, "else.example", false, "hostname mismatch");
    expect_failure(&server, &client, "127.0.0.1", false, "IP address mismatch");
    expect_failure(&server, &stranger, "gate.example", false, "certificate");

    struct tls_options careless = {.insecure_skip_verify = true};
    struct pair p = pair_open(&server, &careless, "else.example");
    pair_run(&p);
    ck_assert(tls_is_established(p.client));
    pair_close(&p);

    struct tls_options strict = {
        .server = true, .cert_file = id.cert, .key_file = id.key, .ca_file = other.cert};
    expect_failure(&strict, &client, "gate.example", true, "peer did not return a certificate");
    struct tls_options known = {.ca_file = id.cert, .cert_file = other.cert, .key_file = other.key};
    p = pair_open(&strict, &known, "gate.example");
    pair_run(&p);
    ck_assert(tls_is_established(p.server) && p.server_result == 0);
    pair_close(&p);
    remove_identity(&id);
    remove_identity(&other);
}

/* As who renews files does: what is there is another one at once. */
static void copy_file(const char *from, const char *to)
{
    char text[8192], new_name[256];
    snprintf(new_name, sizeof new_name, "%s.new", to);
    FILE *in = unit_made(fopen(from, "r")), *out = unit_made(fopen(new_name, "w"));
    const size_t n = fread(text, 1, sizeof text, in);
    ck_assert(n > 0 && n < sizeof text && fwrite(text, 1, n, out) == n);
    fclose(in);
    ck_assert_int_eq(fclose(out), 0);
    ck_assert_int_eq(rename(new_name, to), 0);
}

/* Whether a server that knows this client alone takes what it shows. */
static bool is_taken(const struct identity *own, const struct identity *known, struct tls_context *client)
{
    const struct tls_options options = {
        .server = true, .cert_file = own->cert, .key_file = own->key, .ca_file = known->cert};
    struct tls_context *server;
    ck_assert_int_eq(tls_context_new(&server, &options, NULL), 0);
    cleanup(pair_close) struct pair p = {.server = unit_made(tls_new(server, NULL))};
    tls_context_renew(client, NULL);
    p.client = unit_made(tls_new(client, "h"));
    pair_run(&p);
    tls_context_free(server);
    return p.client_result == 0 && p.server_result == 0 && tls_is_established(p.server);
}

/* Certificate, key and authority are renewed on disk, one file after the other. */
UNIT(a_client_takes_renewed_files_with_the_next_connection)
{
    cleanup(remove_identity) struct identity server;
    cleanup(remove_identity) struct identity one;
    cleanup(remove_identity) struct identity two;
    cleanup(remove_identity) struct identity files; /* the client's; it believes what known has */
    cleanup(remove_identity) struct identity known;
    make_identity(&server, "DNS:h");
    make_identity(&one, "DNS:one");
    make_identity(&two, "DNS:two");
    make_identity(&files, "DNS:files");
    make_identity(&known, "DNS:known");
    copy_file(one.cert, files.cert);
    copy_file(one.key, files.key);
    copy_file(server.cert, known.cert);
    const struct tls_options client = {.ca_file = known.cert, .cert_file = files.cert, .key_file = files.key};
    struct tls_context *c;
    ck_assert_int_eq(tls_context_new(&c, &client, NULL), 0);
    ck_assert(is_taken(&server, &one, c) && !is_taken(&server, &two, c));
    copy_file(two.cert, files.cert);
    ck_assert(is_taken(&server, &one, c) && !is_taken(&server, &two, c)); /* the key is not there yet */
    for (int i = 0; i < 2; i++) { /* which is said as long as it is so */
        struct error e = {""};
        ck_assert_int_eq(tls_context_renew(c, &e), -EINVAL);
        ck_assert_msg(strstr(e.text, files.key), "%s", e.text);
    }
    copy_file(two.key, files.key);
    ck_assert_int_eq(tls_context_renew(c, NULL), 0);
    ck_assert(is_taken(&server, &two, c) && !is_taken(&server, &one, c));
    copy_file(one.cert, known.cert);
    ck_assert(!is_taken(&server, &two, c)); /* it does not know the server any more */
    ck_assert_int_eq(unlink(known.cert), 0);
    ck_assert(!is_taken(&server, &two, c));
    copy_file(server.cert, known.cert);
    ck_assert(is_taken(&server, &two, c));
    tls_context_free(c);
}

UNIT(no_tls_is_said_not_guessed)
{
    cleanup(remove_identity) struct identity id;
    make_identity(&id, "DNS:h");
    struct tls_options server = {.server = true, .cert_file = id.cert, .key_file = id.key};
    struct tls_context *c;
    struct error e;
    cleanup(buffer_release) struct buffer plain = BUFFER_INIT(0);
    ck_assert_int_eq(tls_context_new(&c, &server, &e), 0);
    struct tls *t = unit_made(tls_new(c, NULL));
    ck_assert_int_eq(tls_feed(t, BYTES_LIT("GET / HTTP/1.1\r\n\r\n"), &plain), -ECONNABORTED);
    ck_assert_str_ne(tls_error(t), "");
    ck_assert_int_eq(tls_feed(t, BYTES_LIT("more"), &plain), -ECONNABORTED);
    ck_assert_int_eq(tls_write(t, BYTES_LIT("more")), -ECONNABORTED);
    tls_free(t);
    tls_context_free(c);
    /* And to a client what an https:// for a plain server looks like. */
    ck_assert_int_eq(tls_context_new(&c, &(struct tls_options){.insecure_skip_verify = true}, &e), 0);
    t = tls_new(c, "h");
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(tls_feed(t, BYTES_LIT("HTTP/1.1 400 Bad Request\r\n\r\n"), &plain), -ECONNABORTED);
    ck_assert_ptr_nonnull(strstr(tls_error(t), "the answer is no TLS"));
    tls_free(t);
    tls_context_free(c);
}

UNIT(files_are_named_when_they_are_wrong)
{
    cleanup(remove_identity) struct identity a, b;
    make_identity(&a, "DNS:h");
    make_identity(&b, "DNS:h");
    struct tls_context *c;
    struct error e;
    struct tls_options o = {.ca_file = "/no/such.pem"};
    ck_assert_int_eq(tls_context_new(&c, &o, &e), -ENOENT);
    ck_assert_ptr_nonnull(strstr(e.text, "/no/such.pem"));
    o = (struct tls_options){.ca_file = "/dev/null"};
    ck_assert_int_eq(tls_context_new(&c, &o, &e), -EINVAL);
    o = (struct tls_options){.server = true};
    ck_assert_int_eq(tls_context_new(&c, &o, &e), -EINVAL);
    o = (struct tls_options){.cert_file = a.cert};
    ck_assert_int_eq(tls_context_new(&c, &o, &e), -EINVAL);
    o = (struct tls_options){.cert_file = a.cert, .key_file = b.key};
    ck_assert_int_eq(tls_context_new(&c, &o, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, b.key));
}

/* ---- what only a server has ---- */

UNIT(the_least_version_is_kept)
{
    cleanup(remove_identity) struct identity id;
    make_identity(&id, "DNS:h");
    for (int strict = 0; strict < 2; strict++) {
        struct tls_options server = {
            .server = true, .cert_file = id.cert, .key_file = id.key, .min_version = strict ? "1.3" : NULL};
        struct tls_options client = {.ca_file = id.cert};
        cleanup(pair_close) struct pair p = pair_open(&server, &client, "h");
        tls_free(p.client); /* one that knows 1.2 only */
        struct tls_context *cc;
        ck_assert_int_eq(tls_context_new(&cc, &client, NULL), 0);
        SSL_CTX_set_max_proto_version(cc->ssl, TLS1_2_VERSION);
        p.client = unit_made(tls_new(cc, "h"));
        tls_context_free(cc);
        pair_run(&p);
        ck_assert_int_eq(tls_is_established(p.server), !strict);
        ck_assert_int_eq(p.client_result, strict ? -ECONNABORTED : 0);
        if (strict) /* told by an alert, not by silence */
            ck_assert_msg(strstr(tls_error(p.client), "alert protocol version"), "%s", tls_error(p.client));
    }
    struct tls_context *c;
    struct error e;
    struct tls_options odd = {.server = true, .cert_file = id.cert, .key_file = id.key, .min_version = "1.1"};
    ck_assert_int_eq(tls_context_new(&c, &odd, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, "1.1"));
}

UNIT(a_verified_client_has_a_name)
{
    cleanup(remove_identity) struct identity id, other;
    make_identity(&id, "DNS:gate.example");
    make_identity(&other, "DNS:h,URI:spiffe://x/agent");
    struct tls_options client = {.ca_file = id.cert, .cert_file = other.cert, .key_file = other.key};
    for (int asked = 0; asked < 2; asked++) {
        struct tls_options server = {
            .server = true, .cert_file = id.cert, .key_file = id.key, .ca_file = asked ? other.cert : NULL};
        cleanup(pair_close) struct pair p = pair_open(&server, &client, "gate.example");
        char name[256] = "stale";
        tls_peer_name(p.server, name, sizeof name);
        ck_assert_str_eq(name, ""); /* not before the handshake */
        pair_run(&p);
        ck_assert(tls_is_established(p.server));
        tls_peer_name(p.server, name, sizeof name);
        ck_assert_str_eq(name, asked ? "spiffe://x/agent" : "");
    }
    struct tls_context *c;
    struct tls_options server = {.server = true, .cert_file = id.cert, .key_file = id.key};
    ck_assert_int_eq(tls_context_new(&c, &server, NULL), 0);
    ck_assert_int_eq(tls_file_expiry(id.cert), tls_context_expiry(c));
    ck_assert(tls_file_expiry(id.key) == INT64_MAX && tls_file_expiry("/dev/null/none") == INT64_MAX);
    ck_assert(tls_file_expiry(NULL) == INT64_MAX);
    int64_t left = tls_context_expiry(c) - (int64_t)time(NULL);
    ck_assert_int_ge(left, 3500);
    ck_assert_int_le(left, 3600);
    tls_context_free(c);
}

static void add_name(X509 *cert, int kind, const char *text, int n)
{
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    for (int i = 0; i < 2; i++) { /* the odd one, then a good one of the same kind */
        GENERAL_NAME *g = GENERAL_NAME_new();
        ASN1_IA5STRING *s = ASN1_IA5STRING_new();
        ASN1_STRING_set(s, i == 0 ? text : "second", i == 0 ? n : 6);
        GENERAL_NAME_set0_value(g, kind, s);
        sk_GENERAL_NAME_push(names, g);
    }
    ck_assert_int_eq(X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, 0), 1);
    GENERAL_NAMES_free(names);
}

UNIT(a_certificate_is_known_by_one_clean_name)
{
    static const struct {
        const char *cn, *names, *expected;
    } cases[] = {
        {"common", NULL, "common"},
        {"common", "DNS:d,email:e@x,URI:u://x", "u://x"},
        {"common", "email:e@x,DNS:d,DNS:d2", "d"},
        {"common", "IP:127.0.0.1,email:e@x", "e@x"},
        {"common", "IP:127.0.0.1", "common"},
        {"common\nname", NULL, ""},
        {"B\xc3\xbcro", NULL, "B\xc3\xbcro"},
    };
    EVP_PKEY *key = EVP_EC_gen("P-256");
    char name[16];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        X509 *cert = identity_cert(key, cases[i].cn, cases[i].names, 1);
        tls_peer_cert_name(cert, name, sizeof name);
        ck_assert_str_eq(name, cases[i].expected);
        X509_free(cert);
    }
    static const struct {
        const char *text;
        int n;
    } odd[] = {{"good.example\0.evil", 18}, {"a\nb", 3}, {"", 0}, {"longer than 15 bytes", 20}, {"\x7f", 1}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        X509 *cert = identity_cert(key, "common", NULL, 1);
        add_name(cert, GEN_URI, odd[i].text, odd[i].n);
        tls_peer_cert_name(cert, name, sizeof name);
        ck_assert_str_eq(name, "second");
        X509_free(cert);
    }
    EVP_PKEY_free(key);
}

UNIT(a_key_with_a_passphrase_is_refused_and_nobody_asked)
{
    cleanup(remove_identity) struct identity id;
    make_identity(&id, "DNS:h");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    FILE *f = fopen(id.key, "w");
    ck_assert_int_eq(
        PEM_write_PrivateKey(f, key, EVP_aes_128_cbc(), (const unsigned char *)"secret", 6, NULL, NULL), 1);
    fclose(f);
    EVP_PKEY_free(key);
    struct tls_options o = {.server = true, .cert_file = id.cert, .key_file = id.key};
    struct tls_context *c;
    struct error e;
    ck_assert_int_eq(tls_context_new(&c, &o, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, id.key));
}

/* A client of plain OpenSSL, for what ours would not do. */
struct raw {
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out;
};

static struct raw raw_open(int version)
{
    struct raw r = {.context = unit_made(SSL_CTX_new(TLS_client_method()))};
    SSL_CTX_set_max_proto_version(r.context, version);
    r.ssl = unit_made(SSL_new(r.context));
    r.in = BIO_new(BIO_s_mem());
    r.out = BIO_new(BIO_s_mem());
    SSL_set_bio(r.ssl, r.in, r.out);
    SSL_set_connect_state(r.ssl);
    return r;
}

static void raw_close(struct raw *r)
{
    SSL_free(r->ssl);
    SSL_CTX_free(r->context);
}

/* Whatever the client has to say goes to the server, and back. The server's result. */
static int raw_exchange(struct raw *r, struct tls *server, struct buffer *plain)
{
    uint8_t bytes[4096];
    cleanup(buffer_release) struct buffer back = BUFFER_INIT(0);
    int result = 0, n;
    while (result == 0 && (n = BIO_read(r->out, bytes, sizeof bytes)) > 0)
        result = tls_feed(server, bytes_of(bytes, (size_t)n), plain);
    ck_assert_int_eq(tls_drain(server, &back, SIZE_MAX), 0);
    if (back.n > 0)
        BIO_write(r->in, back.p, (int)back.n);
    return result;
}

static struct tls *serve_raw(struct raw *r, const struct identity *id, struct buffer *plain)
{
    struct tls_options o = {.server = true, .cert_file = id->cert, .key_file = id->key};
    struct tls_context *c;
    ck_assert_int_eq(tls_context_new(&c, &o, NULL), 0);
    struct tls *server = unit_made(tls_new(c, NULL));
    tls_context_free(c);
    for (int i = 0; i < 10 && !(SSL_do_handshake(r->ssl) == 1 && tls_is_established(server)); i++)
        ck_assert_int_eq(raw_exchange(r, server, plain), 0);
    ck_assert(tls_is_established(server));
    return server;
}

UNIT(a_flood_of_key_updates_ends_the_connection)
{
    cleanup(remove_identity) struct identity id;
    make_identity(&id, "DNS:h");
    for (int talks = 0; talks < 2; talks++) {
        cleanup(raw_close) struct raw client = raw_open(TLS1_3_VERSION);
        cleanup(buffer_release) struct buffer plain = BUFFER_INIT(0);
        struct tls *server = serve_raw(&client, &id, &plain);
        int updates = 0, r = 0;
        uint8_t data[16384] = {0};
        for (; r == 0 && updates < 200; updates++) {
            if (talks) /* 2 MiB with each update: somebody who uses his keys */
                for (int i = 0; i < 128 && r == 0; i++) {
                    plain.n = 0;
                    ck_assert_int_gt(SSL_write(client.ssl, data, sizeof data), 0);
                    r = raw_exchange(&client, server, &plain);
                }
            ck_assert_int_eq(SSL_key_update(client.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
            ck_assert_int_eq(SSL_do_handshake(client.ssl), 1);
            if (r == 0)
                r = raw_exchange(&client, server, &plain);
            if (talks && updates == 40)
                break;
        }
        ck_assert_int_eq(r, talks ? 0 : -ECONNABORTED);
        ck_assert_int_eq(updates, talks ? 40 : TLS_LATE_HANDSHAKES_MAX + 1);
        if (!talks)
            ck_assert_ptr_nonnull(strstr(tls_error(server), "too many handshake messages"));
        tls_free(server);
    }
}

UNIT(renegotiation_is_refused)
{
    cleanup(remove_identity) struct identity id;
    make_identity(&id, "DNS:h");
    cleanup(raw_close) struct raw client = raw_open(TLS1_2_VERSION);
    cleanup(buffer_release) struct buffer plain = BUFFER_INIT(0);
    struct tls *server = serve_raw(&client, &id, &plain);
    ck_assert_int_eq(SSL_version(client.ssl), TLS1_2_VERSION);
    ck_assert_int_eq(SSL_renegotiate(client.ssl), 1);
    SSL_do_handshake(client.ssl); /* a ClientHello goes out */
    raw_exchange(&client, server, &plain);
    SSL_do_handshake(client.ssl);
    ck_assert_msg(!SSL_is_init_finished(client.ssl), "the server went along");
    char reason[128];
    tls_openssl_reason(reason, sizeof reason);
    ck_assert_msg(strstr(reason, "no renegotiation"), "%s", reason);
    tls_free(server);
}

UNIT(sessions_resume_also_with_client_certificates)
{
    cleanup(remove_identity) struct identity id;
    make_identity(&id, "DNS:h,URI:u:x");
    struct tls_options o = {.server = true, .cert_file = id.cert, .key_file = id.key, .ca_file = id.cert};
    struct tls_context *c;
    ck_assert_int_eq(tls_context_new(&c, &o, NULL), 0);
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        SSL_SESSION *session = NULL;
        for (int again = 0; again < 2; again++) {
            cleanup(raw_close) struct raw client = raw_open(version);
            struct buffer plain = BUFFER_INIT(0);
            struct tls *server = unit_made(tls_new(c, NULL));
            ck_assert_int_eq(SSL_use_certificate_file(client.ssl, id.cert, SSL_FILETYPE_PEM), 1);
            ck_assert_int_eq(SSL_use_PrivateKey_file(client.ssl, id.key, SSL_FILETYPE_PEM), 1);
            if (session)
                SSL_set_session(client.ssl, session);
            for (int i = 0; i < 6; i++) {
                SSL_do_handshake(client.ssl);
                ck_assert_msg(raw_exchange(&client, server, &plain) == 0, "%s", tls_error(server));
            }
            char name[64], byte;
            SSL_read(client.ssl, &byte, 1); /* takes the tickets in */
            ck_assert_int_eq(SSL_session_reused(client.ssl), again);
            tls_peer_name(server, name, sizeof name);
            ck_assert_str_eq(name, "u:x");
            SSL_SESSION_free(session);
            session = SSL_get1_session(client.ssl);
            tls_free(server);
            buffer_release(&plain);
            SSL_set_shutdown(client.ssl, SSL_SENT_SHUTDOWN); /* or its session is thought broken */
        }
        SSL_SESSION_free(session);
    }
    tls_context_free(c);
}

/* OpenSSL's, for what has expired. */
static time_t ahead;

time_t time(time_t *ret)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec + ahead;
    return now.tv_sec + ahead;
}

/* A ticket holds what was verified when it was made, and a new one comes with every resumption. */
UNIT(a_certificate_that_has_expired_does_not_resume)
{
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        cleanup(remove_identity) struct identity id;
        cleanup(remove_identity) struct identity own;
        make_identity(&id, "DNS:h"); /* for an hour */
        make_identity(&own, "DNS:h");
        struct tls_options o = {
            .server = true, .cert_file = own.cert, .key_file = own.key, .ca_file = id.cert};
        struct tls_context *c;
        ck_assert_int_eq(tls_context_new(&c, &o, NULL), 0);
        SSL_SESSION *session = NULL;
        for (int again = 0; again < 3; again++) {
            cleanup(raw_close) struct raw client = raw_open(version);
            struct buffer plain = BUFFER_INIT(0);
            struct tls *server = unit_made(tls_new(c, NULL));
            int r = 0;
            ahead = again == 2 ? 3601 : 0;
            ck_assert_int_eq(SSL_use_certificate_file(client.ssl, id.cert, SSL_FILETYPE_PEM), 1);
            ck_assert_int_eq(SSL_use_PrivateKey_file(client.ssl, id.key, SSL_FILETYPE_PEM), 1);
            if (session)
                SSL_set_session(client.ssl, session);
            for (int i = 0; i < 6 && r == 0; i++) {
                SSL_do_handshake(client.ssl);
                r = raw_exchange(&client, server, &plain);
            }
            ahead = 0;
            if (again < 2) {
                char byte;
                ck_assert_msg(r == 0, "%s", tls_error(server));
                const uint64_t good_for = tls_peer_good_until(server, 0) / NSEC_PER_SEC; /* resumed, too */
                ck_assert(good_for > 3000 && good_for <= 3600);
                SSL_read(client.ssl, &byte, 1);
                ck_assert_int_eq(SSL_session_reused(client.ssl), again);
            } else {
                ck_assert_int_lt(r, 0);
                ck_assert_msg(strstr(tls_error(server), "certificate has expired"), "%s", tls_error(server));
            }
            SSL_SESSION_free(session);
            session = SSL_get1_session(client.ssl);
            tls_free(server);
            buffer_release(&plain);
            SSL_set_shutdown(client.ssl, SSL_SENT_SHUTDOWN);
        }
        SSL_SESSION_free(session);
        tls_context_free(c);
    }
}

static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The server's side of a whole handshake, in CPU time. */
static uint64_t handshake_cost(struct tls_context *server, struct tls_context *client)
{
    cleanup(pair_close) struct pair p = {.client = unit_made(tls_new(client, "h"))};
    uint64_t cost = cpu_ns();
    p.server = unit_made(tls_new(server, NULL));
    ck_assert(p.client && p.server);
    cost = cpu_ns() - cost;
    for (bool moved = true; moved;) {
        uint64_t from = cpu_ns();
        moved = move_some(p.client, p.server, &p.server_in, 100000, &p.server_result);
        cost += cpu_ns() - from;
        moved |= move_some(p.server, p.client, &p.client_in, 100000, &p.client_result);
    }
    ck_assert(tls_is_established(p.server) && tls_is_established(p.client));
    return cost;
}

/* What a flood of handshakes costs; the figures are in proto/io/README.md. */
UNIT(a_handshake_costs_less_with_ecdsa_than_with_rsa)
{
#ifdef PG_OOM
    unit_skip("a sanitizer makes the rest of a handshake cost more than a signature: judged without");
#endif
    enum { ROUNDS = 21 };
    uint64_t cost[2] = {UINT64_MAX, UINT64_MAX};
    struct identity id[2];
    struct tls_context *server[2], *client[2];
    for (int rsa = 0; rsa < 2; rsa++) {
        EVP_PKEY *key = rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
        identity_make_with(&id[rsa], key, "DNS:h", 1);
        EVP_PKEY_free(key);
        struct tls_options so = {.server = true, .cert_file = id[rsa].cert, .key_file = id[rsa].key};
        struct tls_options co = {.ca_file = id[rsa].cert};
        ck_assert_int_eq(tls_context_new(&server[rsa], &so, NULL), 0);
        ck_assert_int_eq(tls_context_new(&client[rsa], &co, NULL), 0);
    }
    /* In turn: what else the machine does makes all slower for a while. */
    int n_less = 0;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t one[2];
        for (int rsa = 0; rsa < 2; rsa++) {
            one[rsa] = handshake_cost(server[rsa], client[rsa]);
            cost[rsa] = one[rsa] < cost[rsa] ? one[rsa] : cost[rsa];
        }
        n_less += one[0] < one[1];
    }
    for (int rsa = 0; rsa < 2; rsa++) {
        printf("a handshake, server's CPU, %s: %.0f us\n", rsa ? "RSA 2048" : "ECDSA P-256",
               (double)cost[rsa] / 1000);
        tls_context_free(server[rsa]);
        tls_context_free(client[rsa]);
        identity_remove(&id[rsa]);
    }
    ck_assert_int_gt(n_less, ROUNDS / 2);
}
