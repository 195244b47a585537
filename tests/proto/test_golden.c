/* SPDX-License-Identifier: MIT
 *
 * Golden bytes: one of each record and control message with every field set, against the bytes that it
 * has always had. A change of layout fails here; make a new version of it instead.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/control.h"
#include "proto/peer.h"
#include "proto/record.h"
#include "proto/trace.h"

/* Bytes as text, to be compared as text: a failure then shows where. */
static const char *text_of(const void *bytes, size_t length)
{
	static char text[4096];

	for (size_t i = 0; i < length; i++)
		sprintf(text + 2 * i, "%02x", ((const uint8_t *)bytes)[i]);
	return text;
}

#define GOLDEN(object, text) assert_string_equal(text_of(&(object), sizeof(object)), text)

#define HEADER(opcode_, type)                                                                      \
	{                                                                                          \
		.opcode = opcode_, .flags = 1, .length = sizeof(struct type), .timeline = 0x21,    \
		.value = 0x0102030405060708                                                        \
	}
/* What every record below starts with, behind opcode and length. */
#define HEADER_TEXT                                                                                \
	"2100000000000000"                                                                         \
	"0807060504030201"

static void records_have_their_bytes(void **state)
{
	struct record_memory memory = {HEADER(RECORD_MEMORY_ALLOC, record_memory), 0x1122, 0x3344};
	struct record_copy copy = {HEADER(RECORD_COPY, record_copy), 1, 2, 3, 4, 5, 6, 7, 8, 9};
	struct record_write write = {HEADER(RECORD_WRITE, record_write), 1, 2};
	struct record_fill fill = {HEADER(RECORD_FILL, record_fill), 1, 2, 3, 4, 5, 6};
	struct record_array array = {
		HEADER(RECORD_ARRAY_CREATE, record_array), 1, 2, {3, 4, 5, 6, 7, 8, 9, 10}};
	struct record_texture texture = {HEADER(RECORD_TEXTURE_CREATE, record_texture),
		{1, 2, 3, 4, 5, 6, 7, 8, 9, {10, 11, 12}, 13, 14, 15, 16, 1, 2, -1, {0, 1, 2, -1},
			17, 18, 19, 20, 21, 22, 23, 24, 25, 26}};
	struct record_texture_destroy destroy = {
		HEADER(RECORD_TEXTURE_DESTROY, record_texture_destroy), 1, 2, 3};
	struct record_reference reference = {
		HEADER(RECORD_REFERENCE_SET, record_reference), 1, 2, 3, 4, {.surface = 5}};
	struct record_module_load load = {
		HEADER(RECORD_MODULE_LOAD, record_module_load), 1, 2, 3, 4, 5};
	struct record_module_place place = {
		HEADER(RECORD_MODULE_PLACE, record_module_place), 1, 2, 3};
	struct record_handle handle = {HEADER(RECORD_MODULE_UNLOAD, record_handle), 1, 2};
	struct record_lookup lookup = {HEADER(RECORD_FUNCTION_GET, record_lookup), 1, 2};
	struct record_launch launch = {
		HEADER(RECORD_LAUNCH, record_launch), 1, {2, 3, 4}, {5, 6, 7}, 8, 9, 10};
	struct record_stream stream = {HEADER(RECORD_STREAM_CREATE, record_stream), 1, -2, 3, 4};
	struct record_wait wait = {HEADER(RECORD_WAIT, record_wait), 1, 2, 3};
	struct record_stamp stamp = {HEADER(RECORD_STAMP, record_stamp), 1, 2};
	struct record_event event = {HEADER(RECORD_EVENT_WAIT, record_event), 1, 2, 3, 4};
	struct record_shm shm = {HEADER(RECORD_SHM_GET, record_shm), -1, 2, 3, 4, 5, 6};
	struct record_shared shared = {
		HEADER(RECORD_SHARED_MAP, record_shared), 1, 2, 3, 4, "0123456789abcde"};
	struct record_tensor_map map = {HEADER(RECORD_TENSOR_MAP, record_tensor_map), 1, 2, 3, 4, 5,
		6, 7, 0, 8, {9, 10, 11, 12, 13}, {14, 15, 16, 17, 18}, {19, 20, 21, 22, 23},
		{24, 25, 26, 27, 28}, {-1, -2, -3}, {29, 30, 31}, 32, 33};
	struct record_graph graph = {HEADER(RECORD_GRAPH_BEGIN, record_graph), 1, 2, 3};
	struct record_graph_node node = {HEADER(RECORD_GRAPH_NODE, record_graph_node), 1, 2};
	struct record_graph_launch graph_launch = {
		HEADER(RECORD_GRAPH_LAUNCH, record_graph_launch), 1, 2};
	struct record_query query = {HEADER(RECORD_QUERY, record_query), 1, 2, 3};
	struct record_check check = {HEADER(RECORD_CHECK, record_check), 1, 2, 3, 4};

	GOLDEN(memory, "0100000128000000" HEADER_TEXT "2211000000000000"
		       "4433000000000000");
	GOLDEN(copy, "0300000160000000" HEADER_TEXT "0100000000000000"
		     "0200000000000000"
		     "0300000000000000"
		     "0400000000000000"
		     "0500000000000000"
		     "0600000000000000"
		     "0700000000000000"
		     "0800000000000000"
		     "0900000000000000");
	GOLDEN(write, "0400000128000000" HEADER_TEXT "0100000000000000"
		      "0200000000000000");
	GOLDEN(fill, "0500000140000000" HEADER_TEXT "0100000000000000"
		     "0200000000000000"
		     "0300000000000000"
		     "0400000000000000"
		     "05000000"
		     "06000000");
	GOLDEN(array, "0600000148000000" HEADER_TEXT "0100000000000000"
		      "0200000000000000"
		      "030000000400000005000000"
		      "06000000"
		      "070000000800000009000000"
		      "0a000000");
	GOLDEN(texture, "07000001a8000000" HEADER_TEXT "01000000"
			"02000000"
			"0300000000000000"
			"0400000000000000"
			"0500000006000000"
			"0700000000000000"
			"0800000009000000"
			"0a0000000b0000000c000000"
			"0d0000000e000000"
			"0f00000010000000"
			"0000803f00000040000080bf"
			"000000000000803f00000040000080bf"
			"11000000"
			"12000000130000001400000015000000"
			"16000000170000001800000019000000"
			"1a000000");
	GOLDEN(destroy, "0800000128000000" HEADER_TEXT "0100000000000000"
			"02000000"
			"03000000");
	reference.words = (struct texture_words){.surface = 5, .reserved = 6};
	assert_string_equal(text_of(&reference, offsetof(struct record_reference, words) + 4),
		"16000001b8000000" HEADER_TEXT "0100000002000000"
		"0300000004000000"
		"05000000");
	GOLDEN(load, "1000000140000000" HEADER_TEXT "0100000000000000"
		     "0200000000000000"
		     "0300000000000000"
		     "0400000000000000"
		     "0500000000000000");
	GOLDEN(place, "1500000128000000" HEADER_TEXT "01000000"
		      "02000000"
		      "0300000000000000");
	GOLDEN(handle, "1100000120000000" HEADER_TEXT "01000000"
		       "02000000");
	GOLDEN(lookup, "1200000120000000" HEADER_TEXT "01000000"
		       "02000000");
	GOLDEN(launch, "1400000140000000" HEADER_TEXT "01000000"
		       "020000000300000004000000"
		       "050000000600000007000000"
		       "08000000"
		       "09000000"
		       "0a000000");
	GOLDEN(stream, "2000000128000000" HEADER_TEXT "01000000"
		       "feffffff0300000004000000");
	GOLDEN(check, "4200000130000000" HEADER_TEXT "01000000"
		      "02000000"
		      "0300000000000000"
		      "0400000000000000");
	GOLDEN(wait, "2200000128000000" HEADER_TEXT "01000000"
		     "02000000"
		     "0300000000000000");
	GOLDEN(stamp, "2300000120000000" HEADER_TEXT "01000000"
		      "02000000");
	GOLDEN(event, "2500000130000000" HEADER_TEXT "0100000000000000"
		      "02000000"
		      "03000000"
		      "0400000000000000");
	GOLDEN(shm, "3000000138000000" HEADER_TEXT "ffffffff"
		    "02000000"
		    "0300000000000000"
		    "0400000000000000"
		    "05000000"
		    "06000000");
	GOLDEN(shared, "3800000140000000" HEADER_TEXT "01000000"
		       "02000000"
		       "0300000000000000"
		       "0400000000000000"
		       "30313233343536373839616263646500");
	GOLDEN(map,
		"19000001d8000000" HEADER_TEXT
		"0100000002000000030000000400000005000000060000000700000000000000"
		"0800000000000000"
		"09000000000000000a000000000000000b000000000000000c000000000000000d00000000000000"
		"0e000000000000000f00000000000000100000000000000011000000000000001200000000000000"
		"130000001400000015000000160000001700000018000000190000001a0000001b0000001c000000"
		"fffffffffefffffffdffffff"
		"1d0000001e0000001f0000002000000021000000");
	GOLDEN(graph, "1a00000128000000" HEADER_TEXT "01000000"
		      "02000000"
		      "0300000000000000");
	GOLDEN(node, "1b00000120000000" HEADER_TEXT "01000000"
		     "02000000");
	GOLDEN(graph_launch, "1e00000120000000" HEADER_TEXT "01000000"
			     "02000000");
	GOLDEN(query, "4000000128000000" HEADER_TEXT "01000000"
		      "02000000"
		      "0300000000000000");
}

static void attributes_and_replies_have_their_bytes(void **state)
{
	struct record_attribute attribute = {RECORD_ATTRIBUTE_CLUSTER, 1, 16};
	struct reply_module module = {1, 2, 3, 4};
	struct reply_param param = {1, 2};
	struct reply_function function = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, {12, 13, 14}, 15};
	struct reply_clusters clusters = {1, 2};
	struct reply_global global = {1, 2, 3, 4};
	struct reply_event event = {1};
	struct reply_graph graph = {1, 2, 3};
	struct reply_shm shm = {1, 2, 3, 4, 5, 6, 7};
	struct reply_shared shared = {1, 2, 3, "0123456789abcde"};
	struct reply_memory memory = {1, 2};
	struct reply_occupancy occupancy = {1, 2};
	struct reply_usage usage = {1, 2, 3, 4, 5};

	GOLDEN(attribute, "0200"
			  "0100"
			  "10000000");
	GOLDEN(module, "01000000"
		       "02000000"
		       "0300000000000000"
		       "0400000000000000");
	GOLDEN(param, "01000000"
		      "02000000");
	GOLDEN(function, "01000000"
			 "02000000"
			 "03000000"
			 "04000000"
			 "05000000"
			 "06000000"
			 "07000000"
			 "08000000"
			 "09000000"
			 "0a000000"
			 "0b000000"
			 "0c0d0e0f");
	GOLDEN(clusters, "01000000"
			 "02000000");
	GOLDEN(global, "0100000000000000"
		       "0200000000000000"
		       "03000000"
		       "04000000");
	GOLDEN(event, "0100000000000000");
	GOLDEN(graph, "01000000"
		      "02000000"
		      "0300000000000000");
	GOLDEN(shm, "01000000"
		    "02000000"
		    "03000000"
		    "04000000"
		    "0500000000000000"
		    "06000000"
		    "07000000");
	GOLDEN(shared, "01000000"
		       "02000000"
		       "0300000000000000"
		       "30313233343536373839616263646500");
	GOLDEN(memory, "0100000000000000"
		       "0200000000000000");
	GOLDEN(occupancy, "01000000"
			  "02000000");
	GOLDEN(usage, "0100000000000000"
		      "0200000000000000"
		      "0300000000000000"
		      "0400000000000000"
		      "0500000000000000");
}

#undef HEADER
#define HEADER(type_, struct_)                                                                     \
	{                                                                                          \
		sizeof(struct struct_), type_, CONTROL_VERSION, 0x11, -2                           \
	}
#define TAIL_TEXT                                                                                  \
	"0100"                                                                                     \
	"11000000"                                                                                 \
	"feffffff"

static void messages_between_worker_and_gdevd_have_their_bytes(void **state)
{
	struct control_header bye = HEADER(CONTROL_BYE, control_header);
	struct control_memory memory = {HEADER(CONTROL_MEMORY_REPLY, control_memory), 1, 2};
	struct control_allocate allocate = {
		HEADER(CONTROL_ALLOCATE, control_allocate), 1, 2, 3, 4, 5};
	struct control_room room = {HEADER(CONTROL_ROOM, control_room), 1, 2, 3};
	struct control_slot slot = {HEADER(CONTROL_SLOT, control_slot), 1, 2, 3};
	struct control_charged charged = {HEADER(CONTROL_CHARGED, control_charged), 1, {2, 3}, 4};
	struct control_return returned = {HEADER(CONTROL_RETURN, control_return), 1, {2, 3}};
	struct control_evict evict = {HEADER(CONTROL_EVICT, control_evict), 1, 2, 3, 4};
	struct control_evicted evicted = {HEADER(CONTROL_EVICTED, control_evicted), 1, 2, 3};
	struct control_grant grant = {HEADER(CONTROL_GRANT, control_grant), 1, 2, 3, {4}};
	struct control_shm shm = {HEADER(CONTROL_SHM, control_shm), 1, -2, 3, 4, 5, 6, 7, 8, 9, 10,
		11, 12, 13, "0123456789abcde"};
	struct control_cache cache = {
		HEADER(CONTROL_CACHE_GET, control_cache), "0123456789abcde", 5};
	struct control_event event = {HEADER(CONTROL_EVENT_WATCH, control_event), 1, 2, 3, 4};
	struct control_attach attach = {HEADER(CONTROL_ATTACH, control_attach), 1, -2, 3, 4, 5, "v",
		6, 7, 8, 9, 10, 11, 12, {13, 14}, 15};
	struct control_move move = {HEADER(CONTROL_MOVE, control_move), "d", "v", 1, 2, 3};

	GOLDEN(bye, "10000000"
		    "2400" TAIL_TEXT);
	GOLDEN(memory, "20000000"
		       "4300" TAIL_TEXT "0100000000000000"
		       "0200000000000000");
	GOLDEN(allocate, "30000000"
			 "4400" TAIL_TEXT "0100000000000000"
			 "0200000000000000"
			 "0300000000000000"
			 "04000000"
			 "05000000");
	GOLDEN(room, "20000000"
		     "4500" TAIL_TEXT "0100000000000000"
		     "02000000"
		     "03000000");
	GOLDEN(slot, "20000000"
		     "3400" TAIL_TEXT "0100000000000000"
		     "02000000"
		     "03000000");
	GOLDEN(charged, "30000000"
			"3500" TAIL_TEXT "0100000000000000"
			"0200000000000000"
			"0300000000000000"
			"0400000000000000");
	GOLDEN(returned, "28000000"
			 "3600" TAIL_TEXT "0100000000000000"
			 "0200000000000000"
			 "0300000000000000");
	GOLDEN(evicted, "20000000"
			"3700" TAIL_TEXT "0100000000000000"
			"02000000"
			"03000000");
	GOLDEN(evict, "28000000"
		      "3000" TAIL_TEXT "0100000000000000"
		      "0200000000000000"
		      "03000000"
		      "04000000");
	GOLDEN(grant, "28000000"
		      "2d00" TAIL_TEXT "01000000"
		      "02000000"
		      "0300000000000000"
		      "0400000000000000");
	GOLDEN(shm, "60000000"
		    "3200" TAIL_TEXT "01000000"
		    "feffffff"
		    "03000000"
		    "04000000"
		    "0500000000000000"
		    "0600000000000000"
		    "0700000000000000"
		    "08000000"
		    "09000000"
		    "0a000000"
		    "0b000000"
		    "0c000000"
		    "0d000000"
		    "30313233343536373839616263646500");
	GOLDEN(cache, "28000000"
		      "3800" TAIL_TEXT "30313233343536373839616263646500"
		      "0500000000000000");
	GOLDEN(move,
		"60000000"
		"6400" TAIL_TEXT "6400000000000000000000000000000000000000000000000000000000000000"
		"7600000000000000000000000000000000000000000000000000000000000000"
		"0100000000000000"
		"02000000"
		"03000000");
	GOLDEN(event, "28000000"
		      "4000" TAIL_TEXT "0100000000000000"
		      "0200000000000000"
		      "03000000"
		      "04000000");
	GOLDEN(attach, "90000000"
		       "2100" TAIL_TEXT "0100000000000000"
		       "feffffff"
		       "03000000"
		       "04000000"
		       "05000000"
		       "7600000000000000000000000000000000000000000000000000000000000000"
		       "0600000000000000"
		       "0700000000000000"
		       "0800000000000000"
		       "09000000"
		       "0a000000"
		       "0b00000000000000"
		       "0c00000000000000"
		       "0d00000000000000"
		       "0e00000000000000"
		       "0f00000000000000");
}

static void messages_between_client_and_gdevd_have_their_bytes(void **state)
{
	struct control_hello hello = {
		HEADER(CONTROL_HELLO, control_hello), 1, 2, 3, 4, 5, 6, {7, 8, 9}};
	struct control_welcome welcome = {HEADER(CONTROL_WELCOME, control_welcome), 1, 2, 3, 4, 5,
		"v", "d", "u", 6, 7, 8, 9, 10};
	struct control_refused refused = {HEADER(CONTROL_REFUSED, control_refused), "no"};
	struct control_ready ready = {HEADER(CONTROL_READY, control_ready), 1, 2, 3, "d", "u",
		{4, {5, 6}, {7, 8}, 9, 10, 11}, DEVICE_CLIENTS_COPY, 14, {12, 13}};

	GOLDEN(hello, "50000000"
		      "0100" TAIL_TEXT "01000000"
		      "02000000"
		      "0300000000000000"
		      "0400000000000000"
		      "0500000000000000"
		      "0600000000000000"
		      "0700000000000000"
		      "0800000000000000"
		      "0900000000000000");
	assert_string_equal(text_of(&welcome, 48 + 8), "b8000000"
						       "0200" TAIL_TEXT "01000000"
						       "02000000"
						       "0300000000000000"
						       "0400000000000000"
						       "0500000000000000"
						       "7600000000000000");
	assert_string_equal(text_of(welcome.device_name, 8), "6400000000000000");
	assert_int_equal(offsetof(struct control_welcome, device_name), 80);
	assert_int_equal(offsetof(struct control_welcome, device_uuid), 144);
	assert_int_equal(offsetof(struct control_welcome, memory_bytes), 160);
	assert_string_equal(text_of(&welcome.memory_bytes, 24), "0600000000000000"
								"07000000"
								"08000000"
								"09000000"
								"0a000000");
	assert_string_equal(text_of(&refused, 24), "10010000"
						   "0300" TAIL_TEXT "6e6f000000000000");
	assert_string_equal(text_of(&ready, 48), "40030000"
						 "2000" TAIL_TEXT "0100000000000000"
						 "0200000000000000"
						 "0300000000000000"
						 "6400000000000000");
	assert_int_equal(offsetof(struct control_ready, device_uuid), 104);
	assert_int_equal(offsetof(struct control_description, peers), 136);
	assert_string_equal(text_of(&ready.timing, 72), "0400000000000000"
							"0500000000000000"
							"0600000000000000"
							"0700000000000000"
							"0800000000000000"
							"0900000000000000"
							"0a00000000000000"
							"0b00000000000000"
							"02000000"
							"0e000000");
}

static void messages_about_graphs_have_their_bytes(void **state)
{
	struct control_graph graph = {
		HEADER(CONTROL_GRAPH_PUBLISH, control_graph), "g", 1, 2, 3, 4, -5, 0};

	GOLDEN(graph, "60000000"
		      "5400" TAIL_TEXT "670000000000000000000000000000000000000000000000"
		      "000000000000000000000000000000000000000000000000"
		      "0100000000000000"
		      "02000000"
		      "03000000"
		      "04000000"
		      "fbffffff"
		      "0000000000000000");
}

static void messages_about_traces_have_their_bytes(void **state)
{
	struct control_trace trace = {HEADER(CONTROL_TRACE, control_trace), 1, 2};
	struct control_traced traced = {
		HEADER(CONTROL_TRACE_BEGIN, control_traced), 1, -2, 3, "v", "p", "d"};

	GOLDEN(trace, "20000000"
		      "5000" TAIL_TEXT "0100000000000000"
		      "0200000000000000");
	GOLDEN(traced, "80000000"
		       "5200" TAIL_TEXT "0100000000000000"
		       "feffffff"
		       "03000000"
		       "7600000000000000000000000000000000000000000000000000000000000000"
		       "7000000000000000000000000000000000000000000000000000000000000000"
		       "6400000000000000000000000000000000000000000000000000000000000000");
}

static void the_trace_segment_has_its_bytes(void **state)
{
	struct trace_event event = {1, 2, 3, 4, 5, 6, 7, 8, 9, -10, TRACE_CALL, 11};

	GOLDEN(event, "0100000000000000"
		      "0200000000000000"
		      "0300000000000000"
		      "0400000000000000"
		      "0500000000000000"
		      "06000000"
		      "07000000"
		      "08000000"
		      "09000000"
		      "f6ffffff"
		      "0100"
		      "0b00");
	assert_int_equal(offsetof(struct trace_header, event_bytes), 8);
	assert_int_equal(offsetof(struct trace_header, name_bytes), 16);
	assert_int_equal(offsetof(struct trace_side, names_bytes), 8);
}

static void the_messages_with_descriptors_have_their_bytes(void **state)
{
	struct peer_message message = {PEER_DEVICE_MAP, 1, -2, 3, 4, 5, {6, 7}};

	assert_string_equal(text_of(&message, 56), "02000000"
						   "01000000"
						   "feffffff"
						   "03000000"
						   "0400000000000000"
						   "0500000000000000"
						   "0600000000000000"
						   "0700000000000000"
						   "0000000000000000");
}

static void the_worker_page_has_its_words(void **state)
{
	assert_int_equal(offsetof(struct worker_page, launches), 0);
	assert_int_equal(offsetof(struct worker_page, compute_ns), 8);
	assert_int_equal(offsetof(struct worker_page, to_device_bytes), 16);
	assert_int_equal(offsetof(struct worker_page, from_device_bytes), 32);
	assert_int_equal(offsetof(struct worker_page, device_bytes), 48);
	assert_int_equal(offsetof(struct worker_page, streams_busy), 56);
	assert_int_equal(offsetof(struct worker_page, revoke), 64);
	assert_int_equal(offsetof(struct worker_page, swapped_bytes), 160);
	assert_int_equal(offsetof(struct worker_page, mapped_bytes), 168);
	assert_int_equal(offsetof(struct worker_page, swap_out_bytes), 176);
	assert_int_equal(offsetof(struct worker_page, swap_in_bytes), 184);
	assert_int_equal(offsetof(struct worker_page, loading_since_ns), 192);
	assert_int_equal(offsetof(struct worker_page, loading_ns), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_have_their_bytes),
		cmocka_unit_test(attributes_and_replies_have_their_bytes),
		cmocka_unit_test(messages_between_worker_and_gdevd_have_their_bytes),
		cmocka_unit_test(messages_between_client_and_gdevd_have_their_bytes),
		cmocka_unit_test(messages_about_traces_have_their_bytes),
		cmocka_unit_test(messages_about_graphs_have_their_bytes),
		cmocka_unit_test(the_trace_segment_has_its_bytes),
		cmocka_unit_test(the_messages_with_descriptors_have_their_bytes),
		cmocka_unit_test(the_worker_page_has_its_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
