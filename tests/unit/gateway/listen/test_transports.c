/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_openssl */
/*
 * The stage behind TLS, unix sockets and IPv6, and who is let in: real sockets, a client of plain OpenSSL.
 */
#include "gateway/listen/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "proto/base/clock.h"
#include "tests/unit/proto/io/identity.h"

#define PATIENCE_S  10
#define PATIENCE_NS unit_patience(PATIENCE_S *(uint64_t)NSEC_PER_SEC)

/* Answers each request with what it knows of the peer: "tls=1 identity=… address=…". */
struct app {
    atomic_int admitted, left;
    atomic_bool refuse;
    int client; /* somebody to point at */
};

static void *app_start(void *context, uint32_t index, struct io_loop *loop, struct error *e)
{
    return context;
}

static bool admit(void *context, void *worker, struct http_peer *peer)
{
    struct app *a = context;
    ck_assert_ptr_eq(worker, a);
    ck_assert_str_ne(peer->address, "");
    if (a->refuse)
        return false;
    a->admitted++;
    peer->client = &a->client;
    return true;
}

static void leave(void *context, void *worker, struct http_peer *peer)
{
    struct app *a = context;
    ck_assert_ptr_eq(peer->client, &a->client);
    a->left++;
}

static void on_nothing(void *context, struct http_exchange *x) {}

static void on_body(void *context, struct http_exchange *x, struct bytes piece) {}

static void on_end(void *context, struct http_exchange *x)
{
    char body[512];
    snprintf(body, sizeof body, "tls=%d identity=<%s> address=<%s>", x->peer->tls, x->peer->identity,
             x->peer->address);
    http_reply(x, &(struct http_reply){.status = 200, .body = bytes_str(body)});
}

static const struct http_handler handler = {on_nothing, on_body, on_end, on_nothing};

static struct listen *start_at(struct app *a, const struct listen_address *at, uint32_t workers,
                               uint64_t head_ns)
{
    struct listen_options o = {.addresses = at,
                               .n_addresses = 1,
                               .workers = workers,
                               .connections_max = 100,
                               .http = HTTP_SERVER_LIMITS_DEFAULT};
    if (head_ns > 0)
        o.http.head_ns = head_ns;
    struct listen_factory f = {
        .handler = &handler, .worker_start = app_start, .context = a, .admit = admit, .leave = leave};
    struct listen *l = NULL;
    struct error e = {""};
    ck_assert_msg(listen_new(&l, &o, &f, &e) == 0, "%s", e.text);
    ck_assert_msg(listen_start(l, &e) == 0, "%s", e.text);
    return l;
}

static struct listen *start_tls(struct app *a, const struct listen_tls *tls, uint64_t head_ns)
{
    struct listen_address at = {.address = "127.0.0.1:0", .tls = tls};
    return start_at(a, &at, 2, head_ns);
}

static int dial_to(const struct sockaddr *to, socklen_t n)
{
    struct timeval patience = {.tv_sec = (time_t)(PATIENCE_NS / NSEC_PER_SEC),
                               .tv_usec = (suseconds_t)(PATIENCE_NS % NSEC_PER_SEC / NSEC_PER_USEC)};
    int fd = socket(to->sa_family, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ck_assert_int_eq(connect(fd, to, n), 0);
    return fd;
}

static int dial(const struct listen *l)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(listen_port(l, 0)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    return dial_to((const struct sockaddr *)&a, sizeof a);
}

static void tell(int fd, const void *p, size_t n)
{
    ck_assert_int_eq(send(fd, p, n, MSG_NOSIGNAL), (ssize_t)n);
}

/* Everything until the peer ends; never until the test's patience does. */
static size_t hear_all(int fd, char *text, size_t cap)
{
    size_t n = 0;
    for (ssize_t r; (r = recv(fd, text + n, cap - 1 - n, 0)) != 0; n += (size_t)r) {
        ck_assert_msg(r > 0 || errno == ECONNRESET, "the connection was not closed");
        if (r < 0)
            break;
    }
    text[n] = '\0';
    return n;
}

#define GET "GET / HTTP/1.1\r\nhost: h\r\n\r\n"

/* One request on a plain connection; the answer in text. */
static void ask(int fd, char *text, size_t cap)
{
    tell(fd, GET, strlen(GET));
    size_t n = 0;
    do {
        ssize_t r = recv(fd, text + n, cap - 1 - n, 0);
        ck_assert_int_gt(r, 0);
        n += (size_t)r;
        text[n] = '\0';
    } while (!strstr(text, "address=<") || text[n - 1] != '>');
}

/* ---- a TLS client ---- */

struct client {
    SSL_CTX *context;
    SSL *ssl;
    int fd;
};

static const unsigned char alpn_both[] = "\x2h2\x8http/1.1", alpn_1[] = "\x8http/1.1", alpn_odd[] = "\x3xyz";

/* version 0: any. `who`: a certificate to show. Returns the handshake's result. */
static int client_open(struct client *c, const struct listen *l, int version, const unsigned char *alpn,
                       const struct identity *who)
{
    *c = (struct client){.context = unit_made(SSL_CTX_new(TLS_client_method())), .fd = dial(l)};
    SSL_CTX_set_min_proto_version(c->context, version);
    SSL_CTX_set_max_proto_version(c->context, version);
    if (alpn)
        SSL_CTX_set_alpn_protos(c->context, alpn, (unsigned int)strlen((const char *)alpn));
    if (who) {
        ck_assert_int_eq(SSL_CTX_use_certificate_file(c->context, who->cert, SSL_FILETYPE_PEM), 1);
        ck_assert_int_eq(SSL_CTX_use_PrivateKey_file(c->context, who->key, SSL_FILETYPE_PEM), 1);
    }
    c->ssl = unit_made(SSL_new(c->context));
    SSL_set_fd(c->ssl, c->fd);
    ERR_clear_error();
    return SSL_connect(c->ssl);
}

static void client_close(struct client *c)
{
    SSL_free(c->ssl);
    SSL_CTX_free(c->context);
    close(c->fd);
}

static int client_ask(struct client *c, char *text, int cap)
{
    ERR_clear_error();
    int r = SSL_write(c->ssl, GET, (int)strlen(GET)), n = 0;
    while (r > 0) {
        r = SSL_read(c->ssl, text + n, cap - 1 - n);
        if (r <= 0)
            break;
        n += r;
        text[n] = '\0';
        if (strstr(text, "address=<") && text[n - 1] == '>')
            return n;
    }
    return r;
}

static const char *openssl_says(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason ? reason : "nothing";
}

static long serial_of(const struct client *c)
{
    return ASN1_INTEGER_get(X509_get0_serialNumber(SSL_get0_peer_certificate(c->ssl)));
}

UNIT(both_versions_and_the_protocol_agreed_on)
{
    static const struct {
        const unsigned char *offer;
        const char *chosen;
    } offers[] = {{alpn_both, "h2"}, {alpn_1, "http/1.1"}, {alpn_odd, ""}, {NULL, ""}};
    cleanup(identity_remove) struct identity id;
    identity_make(&id, "DNS:h", 1);
    struct listen_tls tls = {.cert_file = id.cert, .key_file = id.key};
    struct app a = {0};
    struct listen *l = start_tls(&a, &tls, 0);
    int64_t left = listen_tls_expiry(l, 0) - (int64_t)time(NULL);
    ck_assert(left > 3500 && left <= 3600);
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++)
        for (size_t i = 0; i < sizeof offers / sizeof *offers; i++) {
            cleanup(client_close) struct client c;
            char text[1024];
            const unsigned char *p;
            unsigned int n;
            ck_assert_msg(client_open(&c, l, version, offers[i].offer, NULL) == 1, "%s", openssl_says());
            SSL_get0_alpn_selected(c.ssl, &p, &n);
            ck_assert_uint_eq(n, strlen(offers[i].chosen));
            ck_assert_mem_eq(p ? (const char *)p : "", offers[i].chosen, n);
            ck_assert_int_gt(client_ask(&c, text, sizeof text), 0);
            ck_assert_ptr_nonnull(strstr(text, "tls=1 identity=<> address=<127.0.0.1:"));
            ck_assert_int_gt(client_ask(&c, text, sizeof text), 0); /* it stays */
        }
    struct client old;
    ck_assert_int_ne(client_open(&old, l, TLS1_1_VERSION, NULL, NULL), 1);
    client_close(&old);
    listen_free(l);
    ck_assert_int_eq(a.left, a.admitted);
}

UNIT(a_plain_client_is_told_to_use_tls)
{
    cleanup(identity_remove) struct identity id;
    identity_make(&id, "DNS:h", 1);
    struct listen_tls tls = {.cert_file = id.cert, .key_file = id.key};
    struct app a = {0};
    struct listen *l = start_tls(&a, &tls, 0);
    char text[4096];
    int fd = dial(l);
    tell(fd, GET, strlen(GET));
    size_t n = hear_all(fd, text, sizeof text);
    ck_assert(strncmp(text, "HTTP/1.1 400 ", 13) == 0);
    const char *length = strstr(text, "Content-Length: "), *body = strstr(text, "\r\n\r\n") + 4;
    ck_assert_int_eq(atoi(length + 16), (int)(text + n - body));
    ck_assert_ptr_nonnull(strstr(body, "TLS"));
    close(fd);

    fd = dial(l);
    tell(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    n = hear_all(fd, text, sizeof text);
    static const char settings[9] = {0, 0, 0, 4};
    ck_assert_uint_gt(n, 9 + 9 + 8);
    ck_assert_mem_eq(text, settings, 9);
    ck_assert_int_eq(text[9 + 3], 7); /* GOAWAY */
    ck_assert_uint_eq((unsigned char)text[9 + 2] + 9u + 9u, n);
    ck_assert_int_eq(text[9 + 9 + 7], 0xc); /* INADEQUATE_SECURITY */
    ck_assert_ptr_nonnull(memmem(text, n, "TLS", 3));
    close(fd);
    listen_free(l);
}

UNIT(one_port_takes_both_when_told_to)
{
    cleanup(identity_remove) struct identity id;
    identity_make(&id, "DNS:h", 1);
    struct listen_tls tls = {.cert_file = id.cert, .key_file = id.key, .allow_plaintext = true};
    struct app a = {0};
    struct listen *l = start_tls(&a, &tls, 0);
    for (int i = 0; i < 4; i++) {
        cleanup(client_close) struct client c;
        char text[1024];
        int fd = dial(l);
        ask(fd, text, sizeof text);
        ck_assert_ptr_nonnull(strstr(text, "tls=0"));
        ask(fd, text, sizeof text);
        close(fd);
        ck_assert_int_eq(client_open(&c, l, 0, alpn_both, NULL), 1);
        ck_assert_int_gt(client_ask(&c, text, sizeof text), 0);
        ck_assert_ptr_nonnull(strstr(text, "tls=1"));
    }
    listen_free(l);
}

UNIT(clients_show_certificates_and_are_known_by_them)
{
    cleanup(identity_remove) struct identity id, known, stranger;
    identity_make(&id, "DNS:h", 1);
    identity_make(&known, "DNS:d,URI:spiffe://x/agent", 2);
    identity_make(&stranger, "URI:spiffe://x/agent", 3);
    struct listen_tls tls = {.cert_file = id.cert, .key_file = id.key, .client_ca_file = known.cert};
    struct app a = {0};
    struct listen *l = start_tls(&a, &tls, 0);
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        struct client c;
        char text[1024];
        ck_assert_int_eq(client_open(&c, l, version, NULL, &known), 1);
        ck_assert_int_gt(client_ask(&c, text, sizeof text), 0);
        ck_assert_ptr_nonnull(strstr(text, "tls=1 identity=<spiffe://x/agent>"));
        client_close(&c);
        /* With 1.3 the client hears of it after its side of the handshake (RFC 8446 §4.4.2.4). */
        if (client_open(&c, l, version, NULL, &stranger) == 1)
            ck_assert_int_le(client_ask(&c, text, sizeof text), 0);
        ck_assert_msg(strstr(openssl_says(), "alert"), "%s", openssl_says());
        client_close(&c);
        if (client_open(&c, l, version, NULL, NULL) == 1)
            ck_assert_int_le(client_ask(&c, text, sizeof text), 0);
        ck_assert_msg(strstr(openssl_says(), "alert"), "%s", openssl_says());
        client_close(&c);
    }
    listen_free(l);
    ck_assert_int_eq(a.left, a.admitted);
}

UNIT(certificates_are_renewed_while_connections_run)
{
    cleanup(identity_remove) struct identity id;
    identity_make(&id, "DNS:h", 1);
    struct listen_tls tls = {.cert_file = id.cert, .key_file = id.key};
    struct app a = {0};
    struct listen *l = start_tls(&a, &tls, 0);
    struct listen_certificates *read;
    struct client before, c;
    struct error e = {""};
    char text[1024];
    ck_assert_int_eq(client_open(&before, l, 0, NULL, NULL), 1);
    ck_assert_int_eq(serial_of(&before), 1);
    for (long serial = 2; serial < 5; serial++) {
        EVP_PKEY *key = EVP_EC_gen("P-256");
        identity_renew(&id, key, "DNS:h", serial);
        EVP_PKEY_free(key);
        ck_assert_int_eq(client_open(&c, l, 0, NULL, NULL), 1); /* nobody said so yet */
        ck_assert_int_eq(serial_of(&c), serial - 1);
        client_close(&c);
        ck_assert_msg(listen_read_tls(l, &read, &e) == 0, "%s", e.text);
        ck_assert_int_eq(client_open(&c, l, 0, NULL, NULL), 1); /* read is not taken */
        ck_assert_int_eq(serial_of(&c), serial - 1);
        client_close(&c);
        listen_take_tls(l, read);
        for (int i = 0; i < 6; i++) { /* whichever worker takes it */
            ck_assert_int_eq(client_open(&c, l, 0, NULL, NULL), 1);
            ck_assert_int_eq(serial_of(&c), serial);
            client_close(&c);
        }
        ck_assert_int_gt(client_ask(&before, text, sizeof text), 0);
    }
    FILE *f = fopen(id.cert, "w");
    fputs("no certificate", f);
    fclose(f);
    ck_assert_int_eq(listen_read_tls(l, &read, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, id.cert));
    ck_assert_int_eq(client_open(&c, l, 0, NULL, NULL), 1);
    ck_assert_int_eq(serial_of(&c), 4);
    client_close(&c);
    ck_assert_int_gt(client_ask(&before, text, sizeof text), 0);
    client_close(&before);
    listen_free(l);
}

UNIT(bad_files_are_found_before_anything_listens)
{
    struct listen_tls tls = {.cert_file = "/no/such/cert.pem", .key_file = "/no/such/key.pem"};
    struct listen_address at[] = {{.address = "127.0.0.1:0"}, {.address = "127.0.0.1:0", .tls = &tls}};
    struct app a = {0};
    struct listen_options o = {.addresses = at,
                               .n_addresses = 2,
                               .workers = 1,
                               .connections_max = 1,
                               .http = HTTP_SERVER_LIMITS_DEFAULT};
    struct listen_factory f = {.handler = &handler, .worker_start = app_start, .context = &a};
    struct listen *l = NULL;
    struct error e;
    ck_assert_int_eq(listen_new(&l, &o, &f, &e), -ENOENT);
    ck_assert_ptr_nonnull(strstr(e.text, "/no/such/cert.pem"));
}

UNIT(a_handshake_that_does_not_end_is_ended)
{
    static const unsigned char hello_begins[] = {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3};
    cleanup(identity_remove) struct identity id;
    identity_make(&id, "DNS:h", 1);
    for (int both = 0; both < 2; both++) {
        struct listen_tls tls = {.cert_file = id.cert, .key_file = id.key, .allow_plaintext = both};
        struct app a = {0};
        struct listen *l = start_tls(&a, &tls, NSEC_PER_SEC / 10);
        char text[4096];
        int mute = dial(l), slow = dial(l), odd = dial(l);
        tell(slow, hello_begins, sizeof hello_begins);
        tell(odd, "\x16\x03garbage that is no record of TLS at all", 40);
        ck_assert_uint_gt(hear_all(odd, text, sizeof text), 0);
        ck_assert_int_eq(text[0], 0x15); /* an alert */
        ck_assert_uint_eq(hear_all(slow, text, sizeof text), 0);
        if (!both) /* where plain is allowed, who says nothing is an idle connection */
            ck_assert_uint_eq(hear_all(mute, text, sizeof text), 0);
        close(mute);
        close(slow);
        close(odd);
        listen_free(l);
        ck_assert_int_eq(a.left, 3);
    }
}

UNIT(leaving_in_the_middle_of_a_handshake_leaves_nothing)
{
    cleanup(identity_remove) struct identity id;
    identity_make(&id, "DNS:h", 1);
    struct listen_tls tls = {.cert_file = id.cert, .key_file = id.key};
    struct app a = {0};
    struct listen *l = start_tls(&a, &tls, 0);
    int stays = dial(l);
    tell(stays, "\x16\x03\x01", 3);
    for (int i = 0; i < 20; i++) {
        autoclose int fd = dial(l);
        tell(fd, "\x16\x03\x01", (size_t)(i % 4));
        shutdown(fd, SHUT_WR);
        char text[64];
        hear_all(fd, text, sizeof text);
    }
    listen_shutdown(l, clock_monotonic() + PATIENCE_S * (uint64_t)NSEC_PER_SEC);
    char text[64];
    hear_all(stays, text, sizeof text); /* a handshake is no request to wait for */
    close(stays);
    listen_free(l);
    ck_assert_int_eq(a.left, 21);
}

UNIT(a_shutdown_says_goodbye_in_tls)
{
    cleanup(identity_remove) struct identity id;
    identity_make(&id, "DNS:h", 1);
    struct listen_tls tls = {.cert_file = id.cert, .key_file = id.key};
    struct app a = {0};
    struct listen *l = start_tls(&a, &tls, 0);
    struct client c;
    char text[1024];
    ck_assert_int_eq(client_open(&c, l, 0, NULL, NULL), 1);
    ck_assert_int_gt(client_ask(&c, text, sizeof text), 0);
    listen_shutdown(l, clock_monotonic() + PATIENCE_S * (uint64_t)NSEC_PER_SEC);
    int r = SSL_read(c.ssl, text, sizeof text);
    ck_assert_int_eq(SSL_get_error(c.ssl, r), SSL_ERROR_ZERO_RETURN); /* close_notify, not a bare end */
    client_close(&c);
    listen_free(l);
}

UNIT(who_is_not_admitted_is_closed_at_once)
{
    struct listen_address at = {.address = "127.0.0.1:0"};
    struct app a = {.refuse = true};
    struct listen *l = start_at(&a, &at, 1, 0);
    char text[1024];
    int fd = dial(l);
    ck_assert_uint_eq(hear_all(fd, text, sizeof text), 0);
    close(fd);
    ck_assert_int_eq(a.admitted, 0);
    a.refuse = false;
    fd = dial(l);
    ask(fd, text, sizeof text);
    ck_assert_int_eq(a.admitted, 1);
    ck_assert_int_eq(a.left, 0);
    close(fd);
    listen_free(l);
    ck_assert_int_eq(a.left, 1);
}

UNIT(workers_share_a_unix_socket)
{
    char folder[UNIT_PATH_MAX];
    unit_new_folder(folder);
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s/s", folder);
    char address[128], text[1024], expected[64];
    snprintf(address, sizeof address, "unix:%s", to.sun_path);
    snprintf(expected, sizeof expected, "tls=0 identity=<> address=<unix:uid=%u>", getuid());
    struct listen_address at = {.address = address};
    struct app a = {0};
    struct stat st;
    for (uint32_t workers = 1; workers <= 3; workers++) {
        struct listen *l = start_at(&a, &at, workers, 0), *second = NULL;
        ck_assert_uint_eq(listen_port(l, 0), 0);
        ck_assert_int_eq(lstat(to.sun_path, &st), 0);
        ck_assert_uint_eq(st.st_mode & 0777, 0660);
        int fds[20];
        for (int i = 0; i < 20; i++)
            fds[i] = dial_to((const struct sockaddr *)&to, sizeof to);
        for (int i = 0; i < 20; i++) {
            ask(fds[i], text, sizeof text);
            ck_assert_ptr_nonnull(strstr(text, expected));
            close(fds[i]);
        }
        struct listen_options o = {.addresses = &at,
                                   .n_addresses = 1,
                                   .workers = workers,
                                   .connections_max = 1,
                                   .http = HTTP_SERVER_LIMITS_DEFAULT};
        struct listen_factory f = {.handler = &handler, .worker_start = app_start, .context = &a};
        struct error e;
        ck_assert_int_eq(listen_new(&second, &o, &f, &e), -EADDRINUSE);
        ck_assert_int_eq(lstat(to.sun_path, &st), 0);
        listen_free(l);
        ck_assert_int_lt(lstat(to.sun_path, &st), 0);
    }
    ck_assert_int_ge(a.left, 60); /* and the second process's look whether anybody is there */
    ck_assert_int_eq(a.left, a.admitted);
}

UNIT(ipv6_is_an_address_like_any_other)
{
    int probe = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (probe < 0 || bind(probe, (const struct sockaddr *)&to, sizeof to) < 0)
        unit_skip("no IPv6 on this machine");
    close(probe);
    struct listen_address at = {.address = "[::1]:0"};
    struct app a = {0};
    struct listen *l = start_at(&a, &at, 2, 0);
    char text[1024];
    to.sin6_port = htons(listen_port(l, 0));
    int fd = dial_to((const struct sockaddr *)&to, sizeof to);
    ask(fd, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "address=<[::1]:"));
    close(fd);
    listen_free(l);
}
