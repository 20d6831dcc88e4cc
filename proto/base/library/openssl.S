/* SPDX-License-Identifier: Apache-2.0 */
/* TLS (proto/io) and digests (gateway/access). Those of libcrypto are found by way of libssl, which is linked with
 * it. The linker says which are missing here. */
#define NAME library_openssl
#define SONAME "libssl.so.3"
#define FUNCTIONS \
    ASN1_STRING_get0_data, ASN1_STRING_length, ASN1_STRING_to_UTF8, ASN1_TIME_to_tm, BIO_clear_flags, \
    BIO_get_data, BIO_get_new_index, BIO_meth_free, BIO_meth_new, BIO_meth_set_ctrl, BIO_meth_set_read, \
    BIO_meth_set_write, BIO_new, BIO_set_data, BIO_set_flags, BIO_set_init, CRYPTO_free, CRYPTO_memcmp, \
    ERR_clear_error, ERR_peek_last_error, ERR_reason_error_string, EVP_Digest, EVP_DigestFinal_ex, \
    EVP_DigestInit_ex, EVP_DigestUpdate, EVP_MD_CTX_free, EVP_MD_CTX_new, EVP_MD_fetch, EVP_MD_free, EVP_sha1, \
    GENERAL_NAMES_free, OPENSSL_sk_num, OPENSSL_sk_value, SSL_CTX_check_private_key, \
    SSL_CTX_ctrl, SSL_CTX_free, SSL_CTX_get0_certificate, SSL_CTX_load_verify_locations, SSL_CTX_new, \
    SSL_CTX_set_alpn_protos, SSL_CTX_set_alpn_select_cb, SSL_CTX_set_cipher_list, SSL_CTX_set_client_CA_list, \
    SSL_CTX_set_default_passwd_cb, SSL_CTX_set_default_verify_paths, SSL_CTX_set_msg_callback, \
    SSL_CTX_set_options, SSL_CTX_set_session_id_context, SSL_CTX_set_session_ticket_cb, SSL_CTX_set_verify, \
    SSL_CTX_use_PrivateKey_file, \
    SSL_CTX_use_certificate_chain_file, SSL_SESSION_get0_peer, SSL_ctrl, SSL_do_handshake, SSL_free, SSL_get0_alpn_selected, \
    SSL_get0_param, SSL_get0_peer_certificate, SSL_get_error, SSL_get_verify_result, SSL_is_server, SSL_load_client_CA_file, \
    SSL_new, SSL_read_ex, SSL_select_next_proto, SSL_set1_host, SSL_set_accept_state, SSL_set_bio, \
    SSL_set_connect_state, SSL_set_hostflags, SSL_shutdown, SSL_write_ex, TLS_client_method, \
    TLS_server_method, X509_NAME_ENTRY_get_data, X509_NAME_get_entry, X509_NAME_get_index_by_NID, \
    X509_VERIFY_PARAM_set1_ip_asc, X509_cmp_current_time, X509_get0_notAfter, X509_get_ext_d2i, X509_get_subject_name, \
    X509_verify_cert_error_string
#include "proto/base/library/on_demand.inc"
