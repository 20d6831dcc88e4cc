/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file/NAME: metrics appended to a file, one OTLP/JSON request a line, as the Collector's file exporter
 * writes them.
 */
#ifndef GATEWAY_EXPORT_FILE_EXPORTER_H
#define GATEWAY_EXPORT_FILE_EXPORTER_H

#include "gateway/export/exporter.h"

struct file_settings {
    const char *path;
    enum export_temporality temporality;
};

extern const struct exporter_kind exporter_file;

#endif
