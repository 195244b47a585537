/* SPDX-License-Identifier: MIT
 *
 * The tables of functions that the CUDA runtime asks of a driver by number (cuGetExportTable), so that
 * programs of the runtime API run on this library as they are. They are no documented interface; what is
 * here is what the runtime and the libraries of CUDA 13.0 call:
 *   A  a primary context's handle before it is active
 *   B  buffers that the runtime fills
 *   C  the current context (cuBLAS)
 *   D  storage of the runtime in contexts, with destructors
 *   E  two questions that are answered with nothing
 *   F  a handshake over the process, the devices and the tables, by which the runtime checks that the
 *      driver is of a version that it knows
 *   G  numbers of contexts and streams, by which cuBLAS finds what it has made for them
 *   H  the device's layout, a question of cuBLAS that is answered with nothing
 *   I  the functions of a module, by which cuFFT finds the one that it has built
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/cuda/exports.h"
#include "lib/cuda/internal.h"
#include "lib/cuda/md2.h"

typedef void (*entry)(void);

/* In the slots that nothing known calls, so that a library which does gets an answer. */
static CUresult unknown(void)
{
	return not_supported("a function of cuGetExportTable's tables");
}

/* ---- A ---- */

static CUresult a_primary_context(CUcontext *context, CUdevice device)
{
	if (!context)
		return fail(CUDA_ERROR_INVALID_VALUE, "context is NULL");
	return primary_handle(device, context);
}

/* The first slot of a table is its size. */
static const struct {
	size_t bytes;
	entry slots[12];
} table_a = {sizeof table_a,
	{[0] = (entry)unknown, [1] = (entry)a_primary_context, [2 ... 11] = (entry)unknown}};

/* ---- B ---- */

static void b_first_buffer(void **buffer, size_t *count)
{
	static char bytes[16 << 10];

	*buffer = bytes;
	*count = 1024;
}

static void b_second_buffer(void **buffer, size_t *count)
{
	static char bytes[512];

	*buffer = bytes;
	*count = 14;
}

static const struct {
	size_t bytes;
	entry slots[6];
} table_b = {sizeof table_b, {[0] = (entry)unknown,
				     [1] = (entry)b_first_buffer,
				     [2 ... 4] = (entry)unknown,
				     [5] = (entry)b_second_buffer}};

/* ---- C ---- */

static CUresult c_current_context(CUcontext *context)
{
	return context ? current_context(context)
		       : fail(CUDA_ERROR_INVALID_VALUE, "context is NULL");
}

static const struct {
	size_t bytes;
	entry slots[3];
} table_c = {sizeof table_c,
	{[0] = (entry)unknown, [1] = (entry)c_current_context, [2] = (entry)unknown}};

/* ---- D ---- */

static CUresult storage_context(CUcontext given, CUcontext *context)
{
	TRY(initialised());
	if (!given)
		TRY(cuCtxGetCurrent(&given));
	if (!handle_is(HANDLE_CONTEXT, given))
		return fail(CUDA_ERROR_INVALID_CONTEXT,
			"no living context was given, and none is current in this thread");
	*context = given;
	return CUDA_SUCCESS;
}

static struct storage *find_key(CUcontext context, void *key)
{
	for (unsigned i = 0; i < STORAGE_SLOTS; i++)
		if (context->storage[i].destroy && context->storage[i].key == key)
			return &context->storage[i];
	return NULL;
}

/* A storage without a destructor still is one: this stands for none. */
static void destroy_nothing(CUcontext context, void *key, void *value)
{
}

static CUresult d_put(CUcontext given, void *key, void *value,
	void (*destroy)(CUcontext context, void *key, void *value))
{
	CUcontext context;
	struct storage *slot;

	TRY(storage_context(given, &context));
	pthread_mutex_lock(&context->lock);
	slot = find_key(context, key);
	for (unsigned i = 0; i < STORAGE_SLOTS && !slot; i++)
		if (!context->storage[i].destroy)
			slot = &context->storage[i];
	if (slot)
		*slot = (struct storage){key, value, destroy ? destroy : destroy_nothing};
	pthread_mutex_unlock(&context->lock);
	return slot ? CUDA_SUCCESS
		    : fail(CUDA_ERROR_OUT_OF_MEMORY,
			      "the context has no room for more of the runtime's storage");
}

static CUresult d_delete(CUcontext given, void *key)
{
	CUcontext context;
	struct storage *slot;

	TRY(storage_context(given, &context));
	pthread_mutex_lock(&context->lock);
	slot = find_key(context, key);
	if (slot)
		*slot = (struct storage){0};
	pthread_mutex_unlock(&context->lock);
	return slot ? CUDA_SUCCESS
		    : fail(CUDA_ERROR_INVALID_HANDLE,
			      "the runtime has stored nothing under that key");
}

static CUresult d_get(void **value, CUcontext given, void *key)
{
	CUcontext context;
	struct storage *slot;

	TRY(storage_context(given, &context));
	pthread_mutex_lock(&context->lock);
	slot = find_key(context, key);
	if (slot)
		*value = slot->value;
	pthread_mutex_unlock(&context->lock);
	return slot ? CUDA_SUCCESS
		    : fail(CUDA_ERROR_INVALID_HANDLE,
			      "the runtime has stored nothing under that key");
}

void storage_clear(CUcontext context)
{
	struct storage stored[STORAGE_SLOTS];

	pthread_mutex_lock(&context->lock);
	memcpy(stored, context->storage, sizeof stored);
	memset(context->storage, 0, sizeof context->storage);
	pthread_mutex_unlock(&context->lock);
	for (unsigned i = 0; i < STORAGE_SLOTS; i++)
		if (stored[i].destroy)
			stored[i].destroy(context, stored[i].key, stored[i].value);
}

static const entry table_d[4] = {(entry)d_put, (entry)d_delete, (entry)d_get, NULL};

/* ---- E ---- */

static CUresult e_nothing(CUcontext context, uint32_t *count, void **value)
{
	*count = 0;
	return CUDA_SUCCESS;
}

static uint32_t e_zero(void)
{
	return 0;
}

static const struct {
	size_t bytes;
	entry slots[3];
} table_e = {sizeof table_e, {[0] = (entry)unknown, [1] = (entry)e_nothing, [2] = (entry)e_zero}};

/* ---- G ---- */

static CUresult g_context_id(CUcontext context, uint64_t *id)
{
	unsigned long long found;

	if (!context || !id)
		return fail(CUDA_ERROR_INVALID_VALUE, "context or id is NULL");
	TRY(cuCtxGetId(context, &found));
	*id = found;
	return CUDA_SUCCESS;
}

/* What a stream's name means for the program: NULL, or a number that stands for a default one. */
static CUresult g_stream(CUcontext context, CUstream given, CUstream *stream, int per_thread)
{
	if (!stream)
		return fail(CUDA_ERROR_INVALID_VALUE, "stream is NULL");
	return stream_resolve(given, stream);
}

static CUresult g_stream_id(CUcontext context, CUstream stream, uint64_t *id)
{
	unsigned long long found;

	if (!id)
		return fail(CUDA_ERROR_INVALID_VALUE, "id is NULL");
	TRY(cuStreamGetId(stream, &found));
	*id = found;
	return CUDA_SUCCESS;
}

static const struct {
	size_t bytes;
	entry slots[63];
} table_g = {sizeof table_g, {[0 ... 2] = (entry)unknown,
				     [3] = (entry)g_context_id,
				     [4 ... 37] = (entry)unknown,
				     [38] = (entry)g_stream_id,
				     [39 ... 49] = (entry)unknown,
				     [50] = (entry)g_stream,
				     [51 ... 62] = (entry)unknown}};

/* ---- H ---- */

/* In which part of the device each multiprocessor is: cuBLAS then chooses without knowing. */
static CUresult h_nothing(const uint8_t **parts, size_t *count)
{
	return fail(CUDA_ERROR_NOT_SUPPORTED, "how the device is laid out is not said");
}

static const struct {
	size_t bytes;
	entry slots[15];
} table_h = {sizeof table_h,
	{[0 ... 2] = (entry)unknown, [3] = (entry)h_nothing, [4 ... 14] = (entry)unknown}};

/* ---- I ---- */

/* Each function of the module; how many there are. */
static int i_functions(CUcontext context, CUmodule module,
	void (*each)(void *user, CUfunction function), void *user)
{
	autofree CUfunction *functions = NULL;
	unsigned count;

	if (!each || cuModuleGetFunctionCount(&count, module) || !count)
		return 0;
	functions = calloc(count, sizeof(CUfunction));
	if (!functions || cuModuleEnumerateFunctions(functions, count, module))
		return 0;
	for (unsigned i = 0; i < count; i++)
		each(user, functions[i]);
	return (int)count;
}

static const struct {
	size_t bytes;
	entry slots[7];
} table_i = {sizeof table_i, {[0 ... 5] = (entry)unknown, [6] = (entry)i_functions}};

/* ---- F ---- */

static CUresult f_handshake(uint32_t version, uint64_t unix_time, uint64_t answer[2]);

static const struct {
	size_t bytes;
	entry slots[2];
} table_f = {sizeof table_f, {[0] = (entry)f_handshake}};

struct facts {
	uint32_t driver_version, version, pid, thread;
	const void *table_a, *table_f;
	entry handshake;
	uint64_t unix_time;
	struct {
		uint8_t uuid[16];
		int32_t domain, bus, device;
	} devices[DEVICES_MAX];
};

_Static_assert(offsetof(struct facts, devices) == 48, "as the runtime lays it out");
_Static_assert(sizeof((struct facts *)0)->devices[0] == 28, "as the runtime lays it out");

static CUresult collect_facts(
	uint32_t version, uint64_t unix_time, struct facts *facts, size_t *length)
{
	int count = devices_count();

	*facts = (struct facts){
		.driver_version = DRIVER_VERSION,
		.version = version,
		.pid = (uint32_t)getpid(),
		.thread = (uint32_t)(uintptr_t)pthread_self(),
		.table_a = &table_a,
		.table_f = &table_f,
		.handshake = (entry)f_handshake,
		.unix_time = unix_time,
	};
	for (int i = 0; i < count; i++) {
		CUuuid uuid;
		int domain, bus, device;
		TRY(cuDeviceGetUuid_v2(&uuid, i));
		TRY(device_attribute(i, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &domain));
		TRY(device_attribute(i, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &bus));
		TRY(device_attribute(i, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &device));
		memcpy(facts->devices[i].uuid, uuid.bytes, sizeof facts->devices[i].uuid);
		facts->devices[i].domain = domain;
		facts->devices[i].bus = bus;
		facts->devices[i].device = device;
	}
	*length = offsetof(struct facts, devices) + (size_t)count * sizeof facts->devices[0];
	return CUDA_SUCCESS;
}

static CUresult f_handshake(uint32_t version, uint64_t unix_time, uint64_t answer[2])
{
	/* What both sides know, for libraries that work with each other's versions. */
	static const uint8_t key[MD2_BYTES] = {0x14, 0x6a, 0xdd, 0xae, 0x53, 0xa9, 0xa7, 0x52, 0xaa,
		0x08, 0x41, 0x36, 0x0b, 0xf5, 0x5a, 0x9f};
	struct facts facts;
	size_t length;

	if (version % 10 < 2) {
		answer[0] = version % 10 ? 0x1841181c03cb675cull : 0x3341181c03cb675cull;
		answer[1] = 0x8ed383aa1f4cd1e8ull;
		return CUDA_SUCCESS;
	}
	TRY(collect_facts(version, unix_time, &facts, &length));
	hmac_md2(key, &facts, length, (uint8_t *)answer);
	return CUDA_SUCCESS;
}

/* ---- finding them ---- */

CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
	static const struct {
		const char *id; /* in hexadecimal */
		const void *table;
	} tables[] = {
		{"6bd5fb6c5bf4e74a8987d93912fd9df9", &table_a},
		{"a094798c2e742e7493f20800200c0a66", &table_b},
		{"42d85a8123f6cb478298f6e78a3aecdc", &table_c},
		{"c693336e1121df11a8c368f355d89593", table_d},
		{"263e88607cd2614392f6bbd5006dfa7e", &table_e},
		{"d4082055bde6704b8d34ba123c66e1f2", &table_f},
		{"21318c60971432488ca641ff7324c8f2", &table_g},
		{"1734dc26800d47458726c0f1e7dd8bca", &table_h},
		{"6e163fbeb958444d835ce182aff1991e", &table_i},
	};
	char wanted[33];

	if (!table || !id)
		return fail(CUDA_ERROR_INVALID_VALUE, "table or id is NULL");
	for (int i = 0; i < 16; i++)
		snprintf(wanted + 2 * i, 3, "%02x", (uint8_t)id->bytes[i]);
	for (size_t i = 0; i < array_length(tables); i++)
		if (!strcmp(wanted, tables[i].id)) {
			*table = tables[i].table;
			return CUDA_SUCCESS;
		}
	return fail(CUDA_ERROR_INVALID_VALUE, "the table %s is not there", wanted);
}
