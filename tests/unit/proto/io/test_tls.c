/* needs: dep_ssl */
#include "proto/io/tls.h"

#include <errno.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/unit.h"

/* Files with a self-signed certificate for `names`, made for one test. */
struct identity {
    char cert[64], key[64];
};

static void make_identity(struct identity *id, const char *names)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = X509_new();
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC, (const unsigned char *)"test",
                               -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
    ck_assert_ptr_nonnull(san);
    X509_add_ext(cert, san, -1);
    X509_EXTENSION_free(san);
    X509_sign(cert, key, EVP_sha256());
    snprintf(id->cert, sizeof id->cert, "/tmp/pg_tls_cert_XXXXXX");
    snprintf(id->key, sizeof id->key, "/tmp/pg_tls_key_XXXXXX");
    FILE *c = fdopen(mkstemp(id->cert), "w"), *k = fdopen(mkstemp(id->key), "w");
    ck_assert_int_eq(PEM_write_X509(c, cert), 1);
    ck_assert_int_eq(PEM_write_PrivateKey(k, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(c);
    fclose(k);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static void remove_identity(const struct identity *id)
{
    unlink(id->cert);
    unlink(id->key);
}

struct pair {
    struct tls *client, *server;
    struct buffer client_in, server_in; /* plaintext */
    int client_result, server_result;
};

static const char *const h2_first[] = {"h2", "http/1.1", NULL};

static bool move_some(struct tls *from, struct tls *to, struct buffer *plain, size_t step, int *result)
{
    struct buffer b = BUFFER_INIT(0);
    tls_drain(from, &b, step);
    bool moved = b.n > 0;
    for (size_t i = 0; i < b.n && *result == 0; i += 100)
        *result = tls_feed(to, bytes_of(b.p + i, b.n - i < 100 ? b.n - i : 100), plain);
    buffer_release(&b);
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
    struct pair p = {.client = tls_new(cc, name), .server = tls_new(sc, NULL)};
    ck_assert_ptr_nonnull(p.client);
    ck_assert_ptr_nonnull(p.server);
    ck_assert(tls_has_output(p.client));
    tls_context_free(sc);
    tls_context_free(cc);
    return p;
}

UNIT(both_ways_with_alpn_and_early_words)
{
    struct identity id;
    make_identity(&id, "DNS:gate.example,IP:127.0.0.1");
    const char *names[] = {"gate.example", "127.0.0.1"};
    for (int i = 0; i < 2; i++) {
        struct tls_options server = {
            .server = true, .cert_file = id.cert, .key_file = id.key, .alpn = h2_first};
        struct tls_options client = {.ca_file = id.cert, .alpn = h2_first};
        struct pair p = pair_open(&server, &client, names[i]);
        size_t n = 300000;
        uint8_t *big = malloc(n);
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
        free(big);
        pair_close(&p);
    }
    remove_identity(&id);
}

static void expect_failure(const struct tls_options *server, const struct tls_options *client,
                           const char *name, bool at_server, const char *why)
{
    struct pair p = pair_open(server, client, name);
    pair_run(&p);
    ck_assert_int_eq(at_server ? p.server_result : p.client_result, -ECONNABORTED);
    const char *said = tls_error(at_server ? p.server : p.client);
    ck_assert_msg(strstr(said, why), "%s", said);
    pair_close(&p);
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

UNIT(no_tls_is_said_not_guessed)
{
    struct identity id;
    make_identity(&id, "DNS:h");
    struct tls_options server = {.server = true, .cert_file = id.cert, .key_file = id.key};
    struct tls_context *c;
    struct error e;
    struct buffer plain = BUFFER_INIT(0);
    ck_assert_int_eq(tls_context_new(&c, &server, &e), 0);
    struct tls *t = tls_new(c, NULL);
    ck_assert_int_eq(tls_feed(t, BYTES_LIT("GET / HTTP/1.1\r\n\r\n"), &plain), -ECONNABORTED);
    ck_assert_str_ne(tls_error(t), "");
    ck_assert_int_eq(tls_feed(t, BYTES_LIT("more"), &plain), -ECONNABORTED);
    ck_assert_int_eq(tls_write(t, BYTES_LIT("more")), -ECONNABORTED);
    tls_free(t);
    tls_context_free(c);
    buffer_release(&plain);
    remove_identity(&id);
}

UNIT(files_are_named_when_they_are_wrong)
{
    struct identity a, b;
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
    remove_identity(&a);
    remove_identity(&b);
}
