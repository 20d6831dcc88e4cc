/*
 * What an OTLP/HTTP exporter says its bodies are, where that is not OTLP protobuf: JSON, or a body that is
 * compressed already. Private to this folder.
 *
 * proto/client's options know protobuf only, and refuse these two headers from outside. Until they have words
 * for it, this writes them into the exporter's own head (proto/client/slot.h, call.h).
 */
#ifndef GATEWAY_EXPORT_SPEAK_H
#define GATEWAY_EXPORT_SPEAK_H

struct otlp_exporter;

/* Right after otlp_exporter_new, of an exporter for HTTP. The texts must outlive it; content_encoding NULL:
 * as it is, else the exporter's own compression must be off. */
void exporter_speak(struct otlp_exporter *x, const char *content_type, const char *content_encoding);

#endif
