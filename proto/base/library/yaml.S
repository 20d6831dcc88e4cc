/* SPDX-License-Identifier: Apache-2.0 */
/* A file of settings (proto/base/settings). The linker says which are missing here. */
#define NAME library_yaml
#define SONAME "libyaml-0.so.2"
#define FUNCTIONS \
    yaml_document_delete, yaml_document_get_node, yaml_document_get_root_node, yaml_event_delete, \
    yaml_parser_delete, yaml_parser_initialize, yaml_parser_load, yaml_parser_parse, \
    yaml_parser_set_input_string
#include "proto/base/library/on_demand.inc"
