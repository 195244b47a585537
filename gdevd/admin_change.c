/* SPDX-License-Identifier: MIT
 *
 * Commands that change something: virtual GPUs, and how the device is scheduled. All of a request is
 * checked before any of it is done; names and values are what gdev.conf(5) has. An answer may have a "note":
 * it is done, and there is something to know about it.
 */
#include "gdevd/admin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* What was done, or why not: `text` is then the sentence, else a note or empty. */
static json_t *answer_change(int result, const char *text, int *status)
{
	*status = result;
	if (result)
		return admin_error("%s", text);
	return *text ? json_pack("{s:s}", "note", text) : json_object();
}

/* Sets the request's keys. */
static int set_keys(struct config_vgpu *config, const json_t *request, char *error)
{
	const json_t *value;
	const char *key;
	int result = 0;

	json_object_foreach(json_object_get(request, "keys"), key, value)
	{
		const char *text = json_string_value(value);
		if (!text)
			return config_refuse(error, -EINVAL, "%.64s must be a text", key);
		result = config_set_vgpu(config, key, text, error);
		if (result)
			return result;
	}
	return 0;
}

static const char *name_of(const json_t *request)
{
	const char *name = json_string_value(json_object_get(request, "name"));

	return name ? name : "";
}

static struct vgpu *find_vgpu(struct daemon *daemon, const json_t *request, char *error)
{
	struct vgpu *vgpu = vgpu_find(daemon, name_of(request));

	if (!vgpu)
		config_refuse(error, -ENOENT,
			"there is no virtual GPU \"%.64s\"; 'gdev vgpu list' shows them",
			name_of(request));
	return vgpu;
}

json_t *command_vgpu_create(struct daemon *daemon, const json_t *request, int *status)
{
	char text[CONFIG_ERROR_MAX] = "";
	struct config_vgpu *config;
	int result;

	if (vgpu_find(daemon, name_of(request)))
		return answer_change(-EEXIST,
			"there is a virtual GPU of that name; 'gdev vgpu set' changes it", status);
	result = config_vgpu_create(name_of(request), &config, text);
	if (result)
		return answer_change(result, text, status);
	result = set_keys(config, request, text);
	if (!result)
		result = vgpu_create(daemon, config, text);
	if (result)
		free(config);
	return answer_change(result, text, status);
}

json_t *command_vgpu_set(struct daemon *daemon, const json_t *request, int *status)
{
	char text[CONFIG_ERROR_MAX] = "";
	struct vgpu *vgpu = find_vgpu(daemon, request, text);
	struct config_vgpu config;
	int result;

	if (!vgpu)
		return answer_change(-ENOENT, text, status);
	config = *vgpu->config;
	result = set_keys(&config, request, text);
	if (!result)
		result = vgpu_change(vgpu, &config, text);
	return answer_change(result, text, status);
}

json_t *command_vgpu_delete(struct daemon *daemon, const json_t *request, int *status)
{
	char text[CONFIG_ERROR_MAX] = "";
	struct vgpu *vgpu = find_vgpu(daemon, request, text);
	int result;

	if (!vgpu)
		return answer_change(-ENOENT, text, status);
	result = vgpu_delete(vgpu, json_is_true(json_object_get(request, "force")), text);
	return answer_change(result, text, status);
}

/* One key of the device; "POLICY.SETTING" is one of [policy POLICY]. */
static int set_device_key(struct config *config, const char *key, const char *text, char *error)
{
	const char *dot = strchr(key, '.');
	char policy[32];

	if (dot) {
		snprintf(policy, sizeof policy, "%.*s", (int)min_of(dot - key, 31), key);
		return config_set_policy(config, policy, dot + 1, text, error);
	}
	if (!strcmp(key, "policy") || !strcmp(key, "quantum"))
		return config_set(config, key, text, error);
	return config_refuse(error, -EINVAL,
		"\"%.64s\" cannot be changed at run time; policy, quantum and POLICY.SETTING can",
		key);
}

json_t *command_device_set(struct daemon *daemon, const json_t *request, int *status)
{
	const json_t *keys = json_object_get(request, "keys"), *value;
	char text[CONFIG_ERROR_MAX] = "";
	struct config tried;
	struct device *device;
	const char *key;
	int result = 0;

	/* On a configuration of its own first: what is wrong changes nothing. */
	config_init(&tried);
	for (int again = 0; again < 2 && !result; again++) {
		json_object_foreach((json_t *)keys, key, value)
		{
			if (!json_is_string(value)) {
				snprintf(text, sizeof text, "%.64s must be a text", key);
				result = -EINVAL;
			} else {
				result = set_device_key(again ? &daemon->config : &tried, key,
					json_string_value(value), text);
			}
			if (result)
				break;
		}
	}
	config_finish(&tried);
	list_for_each (device, &daemon->devices, link)
		if (!result)
			grants_configure(device);
	return answer_change(result, text, status);
}

static json_t *drain_device(
	struct daemon *daemon, const json_t *request, enum drain how, int *status)
{
	const char *name = json_string_value(json_object_get(request, "device"));
	struct device *device = device_find(daemon, name ? name : "");
	char note[CONFIG_ERROR_MAX];
	json_t *answer;

	if (!device) {
		*status = -ENOENT;
		return admin_error(
			"this gdevd does not serve a device \"%.64s\"; 'gdev device list' shows them",
			name ? name : "");
	}
	*status = device_drain(device, how, note);
	if (*status == -ENODEV)
		return admin_error(
			"there is no other device of the model of %s that takes sessions, and nothing "
			"has been drained: without --move the sessions there go on until their programs end",
			device->served->name);
	if (*status == -EAGAIN)
		return admin_error(
			"not all devices are known yet, and nothing has been drained: their "
			"first workers are being started; try again");
	if (*status)
		return admin_error("gdevd is out of memory");
	answer = json_object();
	if (*note)
		json_object_set_new(answer, "note", json_string(note));
	if (how != DRAIN_NOT)
		json_object_set_new(answer, "sessions", admin_list_sessions(daemon, device, false));
	return answer;
}

json_t *command_device_drain(struct daemon *daemon, const json_t *request, int *status)
{
	bool move = json_is_true(json_object_get(request, "move"));

	return drain_device(daemon, request, move ? DRAIN_AND_MOVE : DRAIN, status);
}

json_t *command_device_undrain(struct daemon *daemon, const json_t *request, int *status)
{
	return drain_device(daemon, request, DRAIN_NOT, status);
}

/* ---- sessions ---- */

/* Those of the process, if the peer may. */
static json_t *with_sessions(struct daemon *daemon, const json_t *request, int *status,
	int (*change)(struct session *session), const char *already)
{
	pid_t pid = (pid_t)json_integer_value(json_object_get(request, "pid"));
	uid_t uid = (uid_t)json_integer_value(json_object_get(request, "peer_uid"));
	struct session *session;
	unsigned count = 0;

	list_for_each (session, &daemon->sessions, link) {
		if (session->pid != pid || session->worker->state != WORKER_SERVING)
			continue;
		count++;
		*status = -EPERM;
		if (uid && uid != geteuid() && uid != session->uid)
			return admin_error("process %d is another user's", (int)pid);
		*status = change(session);
		if (*status == -EALREADY)
			return admin_error("process %d %s", (int)pid, already);
		if (*status == -EBUSY)
			return admin_error(
				"process %d is just giving memory to others; try again", (int)pid);
		if (*status)
			return admin_error(
				"host swap has no room for the memory of process %d", (int)pid);
	}
	if (count)
		return json_pack("{s:I}", "sessions", (json_int_t)count);
	*status = -ESRCH;
	return admin_error("process %d has no session; 'gdev status' shows them", (int)pid);
}

json_t *command_suspend(struct daemon *daemon, const json_t *request, int *status)
{
	return with_sessions(daemon, request, status, moving_suspend, "is suspended already");
}

json_t *command_resume(struct daemon *daemon, const json_t *request, int *status)
{
	return with_sessions(daemon, request, status, moving_resume, "is not suspended");
}
