/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates and keys in files, made for one test: self-signed, or signed by another one.
 */
#ifndef TESTS_UNIT_PROTO_IO_IDENTITY_H
#define TESTS_UNIT_PROTO_IO_IDENTITY_H

#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/unit.h"

struct identity {
    char cert[UNIT_PATH_MAX], key[UNIT_PATH_MAX];
};

/* names: as openssl's subjectAltName, "DNS:a,URI:b"; NULL: none. The caller frees the certificate. */
static inline X509 *identity_cert(EVP_PKEY *key, const char *cn, const char *names, long serial)
{
    X509 *cert = X509_new();
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), serial);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8, (const unsigned char *)cn,
                               -1, -1, 0);
    X509_set_issuer_name(cert, X509_get_subject_name(cert));
    if (names) {
        X509_EXTENSION *san = unit_made(X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names));
        X509_add_ext(cert, san, -1);
        X509_EXTENSION_free(san);
    }
    return cert;
}

static inline void identity_write(const struct identity *id, X509 *cert, EVP_PKEY *key)
{
    FILE *c = fopen(id->cert, "w"), *k = fopen(id->key, "w");
    ck_assert(c && k);
    ck_assert_int_eq(PEM_write_X509(c, cert), 1);
    ck_assert_int_eq(PEM_write_PrivateKey(k, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(c);
    fclose(k);
}

/* Puts another self-signed certificate into the files. */
static inline void identity_renew(const struct identity *id, EVP_PKEY *key, const char *names, long serial)
{
    X509 *cert = identity_cert(key, "test", names, serial);
    ck_assert_int_gt(X509_sign(cert, key, EVP_sha256()), 0);
    identity_write(id, cert, key);
    X509_free(cert);
}

static inline void identity_make_with(struct identity *id, EVP_PKEY *key, const char *names, long serial)
{
    close(unit_new_file(id->cert, ""));
    close(unit_new_file(id->key, ""));
    identity_renew(id, key, names, serial);
}

static inline void identity_make(struct identity *id, const char *names, long serial)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    identity_make_with(id, key, names, serial);
    EVP_PKEY_free(key);
}

static inline void identity_remove(const struct identity *id)
{
    unlink(id->cert);
    unlink(id->key);
}

#endif
