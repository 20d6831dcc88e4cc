/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of a call of SQLite, as 0, a condition or -errno.
 */
#ifndef PROTO_SQLITE_RESULT_H
#define PROTO_SQLITE_RESULT_H

struct sqlite3;

/* 0 of SQLITE_OK, ROW and DONE; `damaged`, the caller's condition, where what is in the file cannot be right;
 * else -errno, the system's own where there was one. `db` may be NULL: it could not be opened. */
int sqlite_result(struct sqlite3 *db, int rc, int damaged);

#endif
