/* SPDX-License-Identifier: Apache-2.0 */
/* Requests on disk (proto/journal), stacks on disk (gateway/look). The linker says which are missing here. */
#define NAME library_sqlite3
#define SONAME "libsqlite3.so.0"
#define FUNCTIONS \
    sqlite3_bind_blob64, sqlite3_bind_int64, sqlite3_clear_bindings, sqlite3_close, sqlite3_column_blob, \
    sqlite3_column_bytes, sqlite3_column_count, sqlite3_column_int64, sqlite3_column_type, sqlite3_exec, \
    sqlite3_file_control, sqlite3_finalize, sqlite3_get_autocommit, sqlite3_open_v2, sqlite3_prepare_v2, \
    sqlite3_prepare_v3, sqlite3_reset, sqlite3_step, sqlite3_system_errno
#include "proto/base/library/on_demand.inc"
