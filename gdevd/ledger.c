/* SPDX-License-Identifier: MIT
 *
 * See ledger.h.
 */
#include "gdevd/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/fd.h"

#define MAGIC 0x31726567646c7667ull

/* Of the file. */
struct header {
	uint64_t magic, record_bytes;
};

/* Whether the record is free: its first eight bytes are 0. */
struct free_record {
	uint64_t zero, next;
};

/* Of a record and its checksum. */
static size_t record_stride(const struct ledger *ledger)
{
	return ledger->record_bytes + sizeof(uint64_t);
}

static void *record_at(const struct ledger *ledger, uint64_t place)
{
	return ledger->records + (place - 1) * record_stride(ledger);
}

static uint64_t *checksum_at(const struct ledger *ledger, uint64_t place)
{
	return (uint64_t *)(ledger->records + place * record_stride(ledger)) - 1;
}

static uint64_t checksum_of(const struct ledger *ledger, uint64_t place)
{
	return XXH64(record_at(ledger, place), ledger->record_bytes, place);
}

static int write_record(const struct ledger *ledger, uint64_t place)
{
	*checksum_at(ledger, place) = checksum_of(ledger, place);
	return fd_write_at(ledger->fd, record_at(ledger, place), record_stride(ledger),
		sizeof(struct header) + (place - 1) * record_stride(ledger));
}

static int grow_file(struct ledger *ledger)
{
	uint8_t *larger = reallocarray(ledger->records, ledger->count + 1, record_stride(ledger));

	if (!larger)
		return -ENOMEM;
	ledger->records = larger;
	ledger->count++;
	return 0;
}

static void set_free(struct ledger *ledger, uint64_t place)
{
	struct free_record *record = record_at(ledger, place);

	memset(record, 0, ledger->record_bytes);
	record->next = ledger->free;
	ledger->free = place;
}

static int read_records(struct ledger *ledger)
{
	uint64_t offset = sizeof(struct header);

	while (!grow_file(ledger)) {
		uint64_t place = ledger->count;
		if (fd_read_at(
			    ledger->fd, record_at(ledger, place), record_stride(ledger), offset)) {
			ledger->count--; /* the end */
			return 0;
		}
		if (!ledger_at(ledger, place) ||
			*checksum_at(ledger, place) != checksum_of(ledger, place))
			set_free(ledger, place);
		offset += record_stride(ledger);
	}
	return -ENOMEM;
}

int ledger_init(struct ledger *ledger, int fd, size_t record_bytes)
{
	struct header ours, header;

	*ledger = (struct ledger){.fd = fd, .record_bytes = record_bytes};
	ours = (struct header){MAGIC, record_stride(ledger)};
	if (!fd_read_at(fd, &header, sizeof header, 0) && !memcmp(&header, &ours, sizeof ours))
		return read_records(ledger);
	if (ftruncate(fd, 0))
		return -errno;
	return fd_write_at(fd, &ours, sizeof ours, 0);
}

void ledger_finish(struct ledger *ledger)
{
	free(ledger->records);
	if (ledger->fd >= 0)
		close(ledger->fd);
}

int ledger_put(struct ledger *ledger, uint64_t *place, const void *record)
{
	if (!*place && ledger->free) {
		*place = ledger->free;
		ledger->free = ((const struct free_record *)record_at(ledger, *place))->next;
	} else if (!*place) {
		if (grow_file(ledger))
			return -ENOMEM;
		*place = ledger->count;
	}
	memcpy(record_at(ledger, *place), record, ledger->record_bytes);
	return write_record(ledger, *place);
}

void ledger_remove(struct ledger *ledger, uint64_t *place)
{
	if (*place && ledger_at(ledger, *place)) {
		set_free(ledger, *place);
		write_record(ledger, *place);
	}
	*place = 0;
}

const void *ledger_at(const struct ledger *ledger, uint64_t place)
{
	const void *record = record_at(ledger, place);

	return *(const uint64_t *)record ? record : NULL;
}
