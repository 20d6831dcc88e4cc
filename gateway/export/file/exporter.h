/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file/NAME: metrics or raw profiles appended to a file as the Collector's file exporter writes them: one
 * OTLP/JSON request a line, or protobuf requests, each behind its length in four bytes, big-endian.
 */
#ifndef GATEWAY_EXPORT_FILE_EXPORTER_H
#define GATEWAY_EXPORT_FILE_EXPORTER_H

#include "gateway/export/exporter.h"
#include "gateway/export/file/rotation.h"

struct file_settings {
    const char *path;
    enum { FILE_JSON, FILE_PROTO } format;
    enum export_temporality temporality;
    enum coding compression;
    uint32_t rotation_megabytes;
    uint64_t rotation_age_ns;
    uint32_t rotation_backups, rotation_days;
};

extern const struct exporter_kind exporter_file;

#endif
