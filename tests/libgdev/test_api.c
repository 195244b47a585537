/* SPDX-License-Identifier: MIT
 *
 * A program of the first Gdev, in its words: gdev_api.h as its programs include it. Exit status 0: all was right, else the
 * line that was not.
 */
#include <gdev_api.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 0x10000u
#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			return __LINE__;                                                           \
	} while (0)

int main(void)
{
	char in[SIZE], out[SIZE];
	struct gdev_time timeout = {10, 0, 0};
	struct gdev_shm_info info;
	uint64_t size, address, shared, total = 0;
	uint32_t id;
	Ghandle handle = gopen(0);
	char *mapped, *dma;
	int segment;

	REQUIRE(handle);
	REQUIRE(!gopen(77));
	REQUIRE(!gquery(handle, GDEV_QUERY_DEVICE_MEM_SIZE, &total) && total > SIZE);
	REQUIRE(gquery(handle, GDEV_QUERY_CHIPSET, &size) < 0);
	REQUIRE(!gtune(handle, GDEV_TUNE_MEMCPY_PIPELINE_COUNT, 2));
	REQUIRE(!gtune(handle, GDEV_TUNE_MEMCPY_CHUNK_SIZE, 0x40000));
	memset(in, 7, sizeof in);
	address = gmalloc(handle, SIZE);
	REQUIRE(address);
	REQUIRE(!gmemcpy_to_device(handle, address, in, SIZE));
	REQUIRE(!gmemcpy_from_device(handle, out, address, SIZE));
	REQUIRE(!memcmp(in, out, SIZE));
	dma = gmalloc_dma(handle, SIZE);
	REQUIRE(dma);
	REQUIRE(!gmemcpy_from_device_async(handle, dma, address, SIZE, &id));
	REQUIRE(!gsync(handle, id, &timeout));
	REQUIRE(!gsync(handle, id, NULL));
	REQUIRE(!memcmp(in, dma, SIZE));
	mapped = gmap(handle, address, SIZE); /* where the device's memory can be */
	REQUIRE(!mapped || (!memcmp(in, mapped, SIZE) && !gunmap(handle, mapped)));
	segment = gshmget(handle, 0x67646576, SIZE, 0); /* which makes it */
	REQUIRE(segment > 0);
	shared = gshmat(handle, segment, 0, 0);
	REQUIRE(shared);
	REQUIRE(!gmemcpy_in_device(handle, shared, address, SIZE));
	REQUIRE(!gshmctl(handle, segment, GDEV_IPC_STAT, &info) && info.bytes >= SIZE);
	REQUIRE(!gshmctl(handle, segment, GDEV_IPC_RMID, NULL));
	REQUIRE(!gshmdt(handle, shared));
	REQUIRE(gfree_dma(handle, dma));
	REQUIRE(gfree(handle, address));
	REQUIRE(!gfree(handle, address));
	REQUIRE(!gbarrier(handle));
	return gclose(handle) ? __LINE__ : 0;
}
