/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may send, and how much: credentials that a listener demands, the name and the tenant of a client, and
 * the limits of each.
 *
 * One `struct access` for the process, made before the workers, and one `struct access_worker` for each
 * worker thread; serve asks it about every request. Where no listener demands anything and no limit is set it
 * costs nothing: main need not make one then.
 */
#ifndef GATEWAY_ACCESS_ACCESS_H
#define GATEWAY_ACCESS_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/access/options.h"
#include "gateway/access/pass.h"
#include "gateway/stats/stats.h"
#include "proto/base/budget.h"
#include "proto/base/error.h"
#include "proto/http/exchange.h"

struct access;
struct access_files; /* what those of all policies say, as read */
struct access_policy;
struct access_worker;
struct io_loop;

/* budget (may be NULL) pays for what is remembered of clients and tenants, and outlives it. 0, -ENOMEM, or
 * -EINVAL with *e: the header's name is none. */
int access_new(struct access **ret, const struct access_options *options, struct budget *budget,
               struct error *e);

/* After all workers. Returns NULL; NULL is fine. */
struct access *access_free(struct access *a);

/* Reads the files. *ret is NULL when nothing is demanded; else it lives as long as a. Before the first
 * worker. 0, or a negative errno with *e naming file and line. */
int access_policy_new(struct access *a, const struct access_policy_options *options,
                      const struct access_policy **ret, struct error *e);

/* The next of the files, from *at (0 at first) on, that lets nobody in, having no token, or no user; NULL:
 * there is none. On the thread that reads them. */
const char *access_vacant_file(const struct access *a, uint32_t *at);

/* Reads all files anew, and changes nothing: what they say is taken or dropped later. 0, or a negative errno
 * with *e naming the bad file. Any thread, one at a time. */
int access_read(struct access *a, struct access_files **ret, struct error *e);

/* What was read counts from each worker's next request on, on connections that exist, too. It is not the
 * caller's any more. */
void access_take(struct access *a, struct access_files *read);

/* Instead of taking it. NULL is fine. Returns NULL. */
struct access_files *access_drop(struct access_files *read);

/* On the worker's thread, by which answers to ACCESS_WAIT come (through loop). stats may be NULL. NULL:
 * memory is out. */
struct access_worker *access_worker_new(struct access *a, struct io_loop *loop, struct stats *stats);

/* On the same thread, before its loop; no wait is open and no connection admitted any more. May wait for the
 * verification that runs just now. Returns NULL; NULL is fine. */
struct access_worker *access_worker_free(struct access_worker *w);

/* A connection came; its address is known, its identity may follow before the first request. True: it is
 * counted to its client and peer->client is set. False: over a limit (counted), or memory is out. */
bool access_admit(struct access_worker *w, struct http_peer *peer);

/* An admitted connection is gone, after its exchanges. */
void access_leave(struct access_worker *w, struct http_peer *peer);

/* ---- a request; all on the worker's thread ---- */

/* Whether the head says who it is. ACCESS_YES; ACCESS_WAIT: a password is being verified, wait->done is
 * called once, later, from the loop, with ACCESS_YES, _WRONG or _BUSY (unless access_cancel comes first); or
 * why not. Counted. */
enum access_verdict access_check(struct access_worker *w, const struct http_exchange *x,
                                 const struct access_policy *policy, struct access_wait *wait,
                                 uint64_t now_ns);

/* Forgets a wait. Nothing happens if none is open. */
void access_cancel(struct access_wait *wait);

/* The headers that a 401 must carry: each scheme that is taken (RFC 9110 §11.6.1). `is_wrong`: credentials
 * came (RFC 6750 §3: a token that is wrong in any way is "invalid_token", and nothing is said when none was
 * sent). Appends to ret; how many. Static texts. */
#define ACCESS_CHALLENGES_MAX 2u
uint32_t access_challenges(const struct access_policy *policy, bool is_wrong, struct http_header *ret);

/* Right after ACCESS_YES: counts the request to its client and tenant. ACCESS_YES: *pass is to be given to
 * access_exit; else it is empty, and retry_ns says when to try again if that could help (counted). */
enum access_verdict access_enter(struct access_worker *w, const struct http_exchange *x,
                                 struct access_pass *pass, uint64_t now_ns, uint64_t *retry_ns);

/* The same for a body of `length` bytes that nobody sent, but that is here on a tenant's behalf ("": on that
 * of those who name none). Where there are no tenants nobody is counted. */
enum access_verdict access_enter_for(struct access_worker *w, struct bytes tenant, int64_t length,
                                     struct access_pass *pass, uint64_t now_ns, uint64_t *retry_ns);

/* Whether that may be a tenant's name. */
bool access_is_tenant(struct bytes name);

/* n more bytes of the body came and are held. ACCESS_YES, or the limit they pass. */
enum access_verdict access_body(struct access_worker *w, struct access_pass *pass, size_t n, uint64_t now_ns,
                                uint64_t *retry_ns);

/* It makes us hold n bytes altogether, if that is more than has come. ACCESS_YES, or the limit they pass. */
enum access_verdict access_hold(struct access_worker *w, struct access_pass *pass, size_t n,
                                uint64_t *retry_ns);

/* The request is over. An empty pass is fine, and it is empty afterwards. */
void access_exit(struct access_worker *w, struct access_pass *pass);

/* A number for the tenant of a request, or where there are none for its client: equal for equal ones. 0:
 * nobody is counted. */
uint64_t access_client(const struct access_pass *pass);

/* The budget that bodies of waiting requests are charged to: nobody is known to have sent them yet. */
struct budget *access_waiting_budget(struct access_worker *w);

#endif
