/* SPDX-License-Identifier: MIT
 *
 * See swap.h.
 */
#include "gdevd/memory/swap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gdevd/daemon.h"

#define LOOK_NS NS_PER_S               /* at the swap files */
#define FILE_SLACK_BYTES (16ull << 20) /* a file system's own needs */

static uint64_t pool_room(const struct daemon *daemon, enum swap_pool pool)
{
	return memory_free(&daemon->swap.pools[pool]);
}

int swap_file_open(const struct daemon *daemon)
{
	const char *directory = daemon->config.swap_directory;
	int fd = open(*directory ? directory : daemon->state_dir,
		O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

/* A worker may write what it likes into its file, but not take more of the disk than it has been charged: of one that
 * does, nothing is left. */
static bool takes_too_much(const struct worker *worker)
{
	struct stat stat;

	if (worker->swapping.fd < 0 || fstat(worker->swapping.fd, &stat))
		return false;
	return (uint64_t)stat.st_blocks * 512 >
	       worker->swap[SWAP_FILE].used_bytes + FILE_SLACK_BYTES;
}

static void on_files(struct deadline *deadline, uint64_t now_ns)
{
	struct daemon *daemon = container_of(deadline, struct daemon, swap.files);
	struct worker *worker;
	bool some = false;

	list_for_each (worker, &daemon->workers, link) {
		some |= worker->swapping.fd >= 0;
		if (takes_too_much(worker)) {
			worker_kill(worker, "it took more of the disk than it was charged");
			break; /* the others in a second */
		}
	}
	if (some)
		deadline_set(&daemon->deadlines, deadline, now_ns + LOOK_NS);
}

static void watch_files(struct daemon *daemon)
{
	if (list_empty(&daemon->swap.files.link))
		deadline_set(&daemon->deadlines, &daemon->swap.files, clock_now_ns() + LOOK_NS);
}

static uint64_t machine_half(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

void swap_init(struct daemon *daemon)
{
	uint64_t memory = daemon->config.host_swap;

	memory_init(&daemon->swap.pools[SWAP_MEMORY], NULL,
		memory == UINT64_MAX ? machine_half() : memory);
	memory_init(&daemon->swap.pools[SWAP_FILE], NULL, daemon->config.file_swap);
	deadline_init(&daemon->swap.files, on_files);
}

int swap_check(const struct daemon *daemon)
{
	int fd = daemon->config.file_swap ? swap_file_open(daemon) : -1;

	if (fd >= 0)
		close(fd);
	return daemon->config.file_swap ? min_of(fd, 0) : 0;
}

uint64_t swap_kept(const struct worker *worker)
{
	uint64_t charged = worker->swap[SWAP_MEMORY].used_bytes;

	/* The page is the worker's: what it says there of more than it has been charged is nothing. */
	return worker->page ? min_of(charged, __atomic_load_n(&worker->page->swap_kept_bytes,
						      __ATOMIC_RELAXED))
			    : 0;
}

uint64_t swap_used(const struct worker *worker)
{
	return worker->swap[SWAP_MEMORY].used_bytes - swap_kept(worker) +
	       worker->swap[SWAP_FILE].used_bytes;
}

uint64_t swap_used_by(const struct vgpu *vgpu)
{
	uint64_t bytes = vgpu->swap[SWAP_MEMORY].used_bytes + vgpu->swap[SWAP_FILE].used_bytes;
	const struct worker *worker;

	list_for_each (worker, &vgpu->device->workers.all, by_device)
		if (worker->swap[SWAP_MEMORY].parent == &vgpu->swap[SWAP_MEMORY])
			bytes -= swap_kept(worker);
	return bytes;
}

static uint64_t kept_by_all(const struct daemon *daemon)
{
	const struct worker *worker;
	uint64_t bytes = 0;

	list_for_each (worker, &daemon->workers, link)
		bytes += swap_kept(worker);
	return bytes;
}

uint64_t swap_room(const struct daemon *daemon)
{
	return pool_room(daemon, SWAP_MEMORY) + pool_room(daemon, SWAP_FILE) + kept_by_all(daemon);
}

uint64_t swap_largest(const struct daemon *daemon)
{
	return max_of(pool_room(daemon, SWAP_MEMORY), pool_room(daemon, SWAP_FILE));
}

/* ---- slots that are not used ---- */

/* Whether the worker is carrying out an order. One that is late is not waited for. */
static bool is_ordered(const struct worker *worker)
{
	return worker->residency.order && !worker->residency.late;
}

static bool is_giving(const struct worker *worker)
{
	return is_ordered(worker) && worker->residency.ordered_flags & EVICT_SLOTS;
}

/* How many bytes of slots the worker has been asked for, and has not given yet. */
static uint64_t slots_coming_from(const struct worker *worker)
{
	const struct worker_swap *swap = &worker->swapping;
	uint64_t now = worker->swap[SWAP_MEMORY].used_bytes;
	uint64_t given = swap->asked_from_bytes - min_of(swap->asked_from_bytes, now);

	return is_giving(worker) ? swap->asked_bytes - min_of(swap->asked_bytes, given) : 0;
}

bool swap_comes(const struct daemon *daemon)
{
	const struct worker *worker;

	for (unsigned i = 0; i < SWAP_POOLS; i++)
		if (freeing_coming(daemon, &daemon->swap.pools[i]))
			return true;
	list_for_each (worker, &daemon->workers, link)
		if (is_giving(worker) ||
			(worker_is_going(worker) && worker->swap[SWAP_MEMORY].used_bytes +
							    worker->swap[SWAP_FILE].used_bytes))
			return true;
	return false;
}

bool swap_has_given(const struct worker *worker)
{
	return worker->swap[SWAP_MEMORY].used_bytes < worker->swapping.asked_from_bytes;
}

static bool may_give(const struct worker *worker)
{
	return worker->state == WORKER_SERVING && worker->connection && worker->session &&
	       !worker_is_going(worker) && !worker->residency.order &&
	       worker->swapping.says == GIVES;
}

/* Orders the worker, which has no other order, to give back so much host swap that it keeps and does not use; with
 * EVICT_MOVE, also some that it uses. */
static void ask_for_slots(struct worker *worker, uint64_t bytes, uint32_t flags)
{
	worker->swapping.asked_bytes = bytes;
	worker->swapping.asked_from_bytes = worker->swap[SWAP_MEMORY].used_bytes;
	residency_order(worker, bytes, 0, EVICT_SLOTS | flags, 0);
}

/* Has so much given back. Whether anybody will. */
static bool ask_back(struct daemon *daemon, uint64_t bytes)
{
	struct worker *worker;
	bool asked = false;

	list_for_each (worker, &daemon->workers, link) {
		asked |= is_giving(worker);
		bytes -= min_of(bytes, slots_coming_from(worker));
	}
	list_for_each (worker, &daemon->workers, link) {
		uint64_t part = min_of(swap_kept(worker), bytes);
		if (!part || !may_give(worker))
			continue;
		ask_for_slots(worker, part, 0);
		bytes -= part;
		asked = true;
	}
	return asked;
}

/* What it has in memory and could have in its file: not what it uses there. */
static uint64_t movable_bytes(const struct worker *worker)
{
	uint64_t used = worker->swap[SWAP_MEMORY].used_bytes;

	return used - min_of(used, __atomic_load_n(&worker->page->mapped_bytes, __ATOMIC_RELAXED));
}

/* The worker that moves what it has to its file before others do (rule 5), and how much it has. That is its own word,
 * which may be another the next time. */
static struct worker *find_mover(const struct worker *asks, uint64_t *bytes)
{
	struct worker *worker, *found = NULL;

	list_for_each (worker, &asks->daemon->workers, link) {
		uint64_t has;
		if (worker == asks || !may_give(worker) || worker->swapping.slot_bytes)
			continue;
		has = movable_bytes(worker);
		if (!has || (found && !residency_gives_before(worker, found)))
			continue;
		found = worker;
		*bytes = has;
	}
	return found;
}

/* Has others move so much from memory to files. Whether anybody will, or is to be asked again. */
static bool ask_to_move(const struct worker *asks, uint64_t bytes)
{
	struct daemon *daemon = asks->daemon;
	struct worker *worker;
	bool asked = freeing_coming(daemon, &daemon->swap.pools[SWAP_MEMORY]);
	uint64_t part;

	list_for_each (worker, &daemon->workers, link) {
		asked |=
			worker != asks &&
			(is_giving(worker) || (is_ordered(worker) && movable_bytes(worker)) ||
				(worker_is_going(worker) && worker->swap[SWAP_MEMORY].used_bytes) ||
				worker->swapping.says == GIVES_LATER);
		bytes -= min_of(bytes, slots_coming_from(worker));
	}
	bytes = min_of(bytes, pool_room(daemon, SWAP_FILE));
	while (bytes && (worker = find_mover(asks, &part))) {
		part = min_of(bytes, part);
		ask_for_slots(worker, part, EVICT_MOVE);
		bytes -= part;
		asked = true;
	}
	return asked;
}

/* ---- charging ---- */

int swap_charge_accounts(struct daemon *daemon, struct memory_account *accounts, uint64_t bytes,
	enum swap_pool *pool)
{
	uint64_t there = pool_room(daemon, SWAP_MEMORY);

	*pool = SWAP_MEMORY;
	if (!memory_charge(&accounts[SWAP_MEMORY], bytes))
		return 0;
	if (there + kept_by_all(daemon) >= bytes && ask_back(daemon, bytes - there))
		return -EAGAIN;
	*pool = SWAP_FILE;
	return memory_charge(&accounts[SWAP_FILE], bytes);
}

/* The worker's file, when it is charged some of it for the first time. */
static int open_file(struct worker *worker, uint64_t bytes)
{
	if (worker->swapping.fd >= 0)
		return 0;
	worker->swapping.fd = swap_file_open(worker->daemon);
	if (worker->swapping.fd >= 0) {
		watch_files(worker->daemon);
		session_write_down(worker->session); /* before the worker has the file */
		return 0;
	}
	complain("no swap file can be made: %s", strerror(-worker->swapping.fd));
	worker->swapping.fd = -1;
	memory_return(&worker->swap[SWAP_FILE], bytes);
	return -ENOMEM;
}

int swap_charge(struct worker *worker, uint64_t bytes, enum swap_pool *pool)
{
	int error = swap_charge_accounts(worker->daemon, worker->swap, bytes, pool);

	return error || *pool == SWAP_MEMORY ? error : open_file(worker, bytes);
}

static int ask_others(const struct worker *asks, uint64_t lacking)
{
	return ask_back(asks->daemon, lacking) || ask_to_move(asks, lacking) ? -EAGAIN : -ENOMEM;
}

int swap_charge_memory(const struct worker *asks, struct memory_account *account, uint64_t bytes)
{
	uint64_t part = min_of(bytes - account->used_bytes, pool_room(asks->daemon, SWAP_MEMORY));

	if (memory_charge(account, part))
		return -ENOMEM;
	return account->used_bytes == bytes ? 0 : ask_others(asks, bytes - account->used_bytes);
}

int swap_charge_slot(
	struct worker *worker, uint64_t bytes, enum slot_place place, enum swap_pool *pool)
{
	struct daemon *daemon = worker->daemon;
	uint64_t lacking = bytes - min_of(bytes, pool_room(daemon, SWAP_MEMORY));

	*pool = SWAP_MEMORY;
	if (place != SLOT_IN_FILE && !memory_charge(&worker->swap[SWAP_MEMORY], bytes))
		return 0;
	if (place == SLOT_IN_MEMORY)
		return ask_others(worker, lacking);
	*pool = SWAP_FILE;
	if (memory_charge(&worker->swap[SWAP_FILE], bytes))
		return -ENOMEM;
	return open_file(worker, bytes);
}

/* ---- and the restart of gdevd ---- */

void swap_write_down(const struct worker *worker, struct ledger_session *record)
{
	struct stat status;

	if (worker->swapping.fd < 0 || fstat(worker->swapping.fd, &status))
		return;
	record->swap_device = status.st_dev;
	record->swap_inode = status.st_ino;
}

/* gdevd looks at how much a file takes, and so has to have it. A session that has lost its file ends: so does one that gdevd
 * had written a file down for, and was killed before the worker had it. */
int swap_restore(struct worker *worker, const struct ledger_session *record, int *fd)
{
	struct stat status;

	if (!fd && !record->swap_inode)
		return 0;
	if (!fd || fstat(*fd, &status) || !record->swap_inode ||
		status.st_dev != record->swap_device || status.st_ino != record->swap_inode) {
		complain(
			"session %llu ends: worker %d does not bring the swap file that it was given",
			(unsigned long long)record->session, (int)worker->pid);
		return -EINVAL;
	}
	worker->swapping.fd = steal_fd(fd);
	watch_files(worker->daemon);
	return 0;
}
