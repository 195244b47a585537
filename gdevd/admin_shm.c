/* SPDX-License-Identifier: MIT
 *
 * Commands on segments of shared memory: which there are, whose, and where; and one that is to go, as ipcs(1) and
 * ipcrm(1) do. Tokens of transient segments are told to nobody.
 */
#include "gdevd/admin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <unistd.h>

#include "base/cleanup.h"

#define SEGMENTS_A_PAGE 256
#define PIDS_A_SEGMENT 16

static const char *place_name(const struct shm_segment *segment)
{
	if (!shm_is_there(segment))
		return NULL; /* it is being made, or its sessions have not come back to this gdevd yet */
	if (segment->place < SHM_ON_HOST)
		return "device";
	return segment->swap[SWAP_FILE].used_bytes ? "file" : "host";
}

static bool is_moving(const struct shm_segment *segment)
{
	return segment->place != SHM_ON_DEVICE && segment->place != SHM_ON_HOST &&
	       segment->place != SHM_MAPPED;
}

/* Of the processes that have attached it, the first. */
static json_t *list_pids(const struct shm_segment *segment)
{
	const struct shm_attachment *attachment;
	json_t *pids = json_array();

	list_for_each (attachment, &segment->attachments, by_segment) {
		if (json_array_size(pids) == PIDS_A_SEGMENT)
			break;
		json_array_append_new(pids, json_integer(attachment->session->pid));
	}
	return pids;
}

static json_t *describe_segment(const struct shm_segment *segment)
{
	const struct vgpu *vgpu = segment->vgpu;
	const char *place = place_name(segment);
	json_t *object = json_object();
	char mode[8];

	snprintf(mode, sizeof mode, "%04o", (unsigned)segment->mode & 0777);
	json_object_set_new(object, "segment", json_integer(segment->id));
	json_object_set_new(object, "key",
		segment->key == IPC_PRIVATE ? json_null() : json_integer(segment->key));
	json_object_set_new(object, "vgpu", json_string(vgpu->config->name));
	json_object_set_new(object, "device", json_string(vgpu->device->served->name));
	json_object_set_new(object, "owner", json_integer(segment->uid));
	json_object_set_new(object, "group", json_integer(segment->gid));
	json_object_set_new(object, "mode", json_string(mode));
	json_object_set_new(object, "size_bytes", json_integer((json_int_t)segment->size));
	json_object_set_new(object, "bytes", json_integer((json_int_t)segment->bytes));
	json_object_set_new(object, "where", place ? json_string(place) : json_null());
	json_object_set_new(object, "moving", json_boolean(is_moving(segment)));
	json_object_set_new(object, "transient", json_boolean(segment->transient));
	json_object_set_new(object, "removed", json_boolean(segment->removed));
	json_object_set_new(object, "attached", json_integer(segment->attached));
	json_object_set_new(object, "pids", list_pids(segment));
	return object;
}

/* ---- shm-list ---- */

static int by_id(const void *a, const void *b)
{
	const struct shm_segment *const *first = a, *const *second = b;

	return ((*first)->id > (*second)->id) - ((*first)->id < (*second)->id);
}

/* Those with ids above `after`, in the order of these: their number, and the array, the caller's (NULL: no memory). */
static size_t find_after(
	const struct daemon *daemon, json_int_t after, const struct shm_segment ***found)
{
	const struct shm_segment *segment;
	size_t count = 0, all = 0;

	list_for_each (segment, &daemon->segments, link)
		all++;
	*found = calloc(all + 1, sizeof(struct shm_segment *));
	if (!*found)
		return 0;
	list_for_each (segment, &daemon->segments, link)
		if (segment->id > after)
			(*found)[count++] = segment;
	qsort(*found, count, sizeof(struct shm_segment *), by_id);
	return count;
}

json_t *command_shm_list(struct daemon *daemon, const json_t *request, int *status)
{
	autofree const struct shm_segment **found = NULL;
	json_int_t after = json_integer_value(json_object_get(request, "after"));
	size_t count = find_after(daemon, after, &found);
	json_t *segments = json_array();

	for (size_t i = 0; i < count && i < SEGMENTS_A_PAGE; i++)
		json_array_append_new(segments, describe_segment(found[i]));
	return json_pack("{s:o,s:b}", "segments", segments, "more", count > SEGMENTS_A_PAGE);
}

static json_t *describe_share(const struct user *user, const struct device *device)
{
	const struct user_share *share = &user->shares[device_index(device)];
	uint64_t limit = min_of(shm_user_limit(device), (uint64_t)INT64_MAX);

	return json_pack("{s:I,s:s,s:I,s:I,s:I}", "uid", (json_int_t)user->uid, "device",
		device->served->name, "segments", (json_int_t)share->segments, "bytes",
		(json_int_t)share->bytes, "limit_bytes", (json_int_t)limit);
}

json_t *admin_list_shares(const struct daemon *daemon)
{
	json_t *shares = json_array();
	const struct device *device;
	const struct user *user;

	list_for_each (user, &daemon->users.all, link) {
		if (!user->segments)
			continue;
		list_for_each (device, &daemon->devices, link)
			if (user->shares[device_index(device)].segments)
				json_array_append_new(shares, describe_share(user, device));
	}
	return shares;
}

/* ---- shm-remove ---- */

/* Those of a virtual GPU ("": of all) with that id, or, if it is 0, with that key: how many, and the last of them. */
static unsigned find_segments(struct daemon *daemon, const char *name, uint32_t id, int32_t key,
	struct shm_segment **found)
{
	struct shm_segment *segment;
	unsigned count = 0;

	list_for_each (segment, &daemon->segments, link) {
		if ((*name && strcmp(segment->vgpu->config->name, name)) ||
			(id ? segment->id != id : segment->key != key || segment->removed))
			continue;
		*found = segment;
		count++;
	}
	return count;
}

static bool may_remove(const json_t *request, const struct shm_segment *segment)
{
	uid_t uid = (uid_t)json_integer_value(json_object_get(request, "peer_uid"));

	return uid == geteuid() || shm_may_control(segment, uid);
}

json_t *command_shm_remove(struct daemon *daemon, const json_t *request, int *status)
{
	const char *name = json_string_value(json_object_get(request, "vgpu"));
	json_int_t id = json_integer_value(json_object_get(request, "segment"));
	json_int_t key = json_integer_value(json_object_get(request, "key"));
	struct shm_segment *segment = NULL;
	unsigned count = 0;

	if ((id ? id == (uint32_t)id : key == (int32_t)key && key != IPC_PRIVATE))
		count = find_segments(
			daemon, name ? name : "", (uint32_t)id, (int32_t)key, &segment);
	if (!count) {
		*status = -ENOENT;
		return admin_error("there is no such segment; 'gdev shm list' shows them");
	}
	if (count > 1) {
		*status = -ENOTUNIQ;
		return admin_error(
			"there are %u segments of that key; say which virtual GPU with --vgpu, or name the segment by its id",
			count);
	}
	if (!may_remove(request, segment)) {
		*status = -EPERM;
		return admin_error(
			"it is another user's (uid %u); its owner, root and the user that gdevd runs as (uid %u) "
			"may remove it",
			(unsigned)segment->uid, (unsigned)geteuid());
	}
	shm_remove(segment);
	return json_object();
}
