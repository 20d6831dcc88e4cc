/* SPDX-License-Identifier: Apache-2.0 */

#include <openssl/x509v3.h>
#include <string.h>

#include "proto/io/tls_parts.h"

/* Copies a name if it is one: printable, whole. */
static bool take_name(const unsigned char *p, int n, char *name, size_t cap)
{
    if (!p || n <= 0 || (size_t)n >= cap)
        return false;
    for (int i = 0; i < n; i++)
        if (p[i] < 0x20 || p[i] == 0x7f)
            return false;
    memcpy(name, p, (size_t)n);
    name[n] = '\0';
    return true;
}

static bool alternative_name(const GENERAL_NAMES *names, int kind, char *name, size_t cap)
{
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *g = sk_GENERAL_NAME_value(names, i);
        if (g->type != kind) /* the kinds asked for are all IA5Strings (RFC 5280 §4.2.1.6) */
            continue;
        if (take_name(ASN1_STRING_get0_data(g->d.ia5), ASN1_STRING_length(g->d.ia5), name, cap))
            return true;
    }
    return false;
}

static bool common_name(const X509 *cert, char *name, size_t cap)
{
    const X509_NAME *subject = X509_get_subject_name(cert);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at < 0)
        return false;
    unsigned char *text = NULL;
    int n = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    bool taken = take_name(text, n, name, cap);
    OPENSSL_free(text);
    return taken;
}

void tls_peer_cert_name(const X509 *cert, char *name, size_t cap)
{
    static const int kinds[] = {GEN_URI, GEN_DNS, GEN_EMAIL};
    GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
    bool taken = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && names && !taken; i++)
        taken = alternative_name(names, kinds[i], name, cap);
    GENERAL_NAMES_free(names);
    if (!taken && !common_name(cert, name, cap))
        name[0] = '\0';
}
