// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * An open /dev/gdevN: a session, once it has asked for one. Nothing here is about CUDA: what a session does is in the
 * records that the library and the proxy exchange in memory.
 */
#include <linux/cred.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "gdev.h"

struct gdev_file {
	struct gdev_device *device;
	struct mutex opening;
	struct gdev_slot *slot; /* stored once; NULL: no session */
};

struct gdev_device *gdev_file_device(const struct file *file)
{
	return ((struct gdev_file *)file->private_data)->device;
}

struct gdev_slot *gdev_file_slot(const struct file *file)
{
	return smp_load_acquire(&((struct gdev_file *)file->private_data)->slot);
}

static int gdev_open(struct inode *inode, struct file *file)
{
	struct gdev_device *device = container_of(file->private_data, struct gdev_device, misc);
	struct gdev_file *state = kzalloc(sizeof(*state), GFP_KERNEL);

	if (!state)
		return -ENOMEM;
	/* The misc device's lock is held: the device is not removed meanwhile. */
	kref_get(&device->references);
	state->device = device;
	mutex_init(&state->opening);
	file->private_data = state;
	return nonseekable_open(inode, file);
}

/* Nobody has it mapped any more, and no thread is in a call: processes that died at any point end here. */
static int gdev_release(struct inode *inode, struct file *file)
{
	struct gdev_file *state = file->private_data;

	down_read(&state->device->presence);
	if (state->slot)
		gdev_slot_give(state->slot);
	up_read(&state->device->presence);
	gdev_put(state->device);
	kfree(state);
	return 0;
}

static int open_session(struct gdev_file *state, struct vm_open *open)
{
	struct vm_request request = {.operation = VM_OPEN, .number = open->attempt};
	struct vm_answer answer;
	struct gdev_slot *slot;
	int error;

	if (open->reserved)
		return -EINVAL;
	error = gdev_slot_take(state->device, &slot);
	if (error)
		return error;
	mutex_lock(&slot->lock);
	slot->box->user = from_kuid(&init_user_ns, current_euid());
	error = gdev_ask(slot, &request, &answer);
	mutex_unlock(&slot->lock);
	if (error) {
		gdev_slot_give(slot);
		return error;
	}
	open->welcome = answer.welcome;
	smp_store_release(&state->slot, slot);
	return 0;
}

static int ioctl_open(struct gdev_file *state, void __user *argument)
{
	struct vm_open open;
	int error;

	if (copy_from_user(&open, argument, sizeof(open)))
		return -EFAULT;
	mutex_lock(&state->opening);
	error = state->slot ? -EBUSY : open_session(state, &open);
	mutex_unlock(&state->opening);
	if (!error && copy_to_user(argument, &open, sizeof(open)))
		error = -EFAULT;
	return error;
}

static int ioctl_info(struct gdev_device *device, void __user *argument)
{
	struct vm_info *info = kzalloc(sizeof(*info), GFP_KERNEL);
	int error;

	if (!info)
		return -ENOMEM;
	info->version = VM_VERSION;
	info->slots = device->slot_count - 1;
	info->description = device->header->description;
	memcpy(info->properties, device->header->properties, sizeof(info->properties));
	error = copy_to_user(argument, info, sizeof(*info)) ? -EFAULT : 0;
	kfree(info);
	return error;
}

static int ioctl_image(struct file *file, struct gdev_slot *slot, void __user *argument)
{
	struct vm_image image;
	int error;

	if (copy_from_user(&image, argument, sizeof(image)))
		return -EFAULT;
	error = gdev_image(file, slot, &image);
	if (!error && copy_to_user(argument, &image, sizeof(image)))
		error = -EFAULT;
	return error;
}

static int ioctl_log(struct file *file, struct gdev_slot *slot, void __user *argument)
{
	struct vm_log log;

	if (copy_from_user(&log, argument, sizeof(log)))
		return -EFAULT;
	return gdev_log(file, slot, &log);
}

/* The library says which memory of its own: the host checks it. */
static int ioctl_host(struct gdev_slot *slot, void __user *argument)
{
	struct vm_request request = {.operation = VM_HOST};
	struct vm_answer answer;
	struct vm_host host;
	int error;

	if (copy_from_user(&host, argument, sizeof(host)))
		return -EFAULT;
	request.address = host.address;
	request.bytes = host.bytes;
	mutex_lock(&slot->lock);
	error = gdev_ask(slot, &request, &answer);
	mutex_unlock(&slot->lock);
	return error;
}

static int ioctl_copy(struct file *file, struct gdev_slot *slot, void __user *argument)
{
	struct vm_copy copy;

	if (copy_from_user(&copy, argument, sizeof(copy)))
		return -EFAULT;
	return gdev_copy(file, slot, &copy);
}

static long command_of(struct file *file, unsigned int command, void __user *user)
{
	struct gdev_file *state = file->private_data;
	struct gdev_slot *slot = gdev_file_slot(file);

	if (command == VM_IOCTL_INFO)
		return ioctl_info(state->device, user);
	if (command == VM_IOCTL_OPEN)
		return ioctl_open(state, user);
	if (!slot)
		return -ENOTCONN;
	switch (command) {
	case VM_IOCTL_RING:
		gdev_say_nice(slot);
		gdev_ring(state->device, slot->vector);
		return 0;
	case VM_IOCTL_COPY:
		return ioctl_copy(file, slot, user);
	case VM_IOCTL_IMAGE:
		return ioctl_image(file, slot, user);
	case VM_IOCTL_HOST:
		return ioctl_host(slot, user);
	case VM_IOCTL_LOG:
		return ioctl_log(file, slot, user);
	case VM_IOCTL_COUNTS:
		return copy_to_user(user, &slot->box->counts, sizeof(slot->box->counts)) ? -EFAULT
											 : 0;
	default:
		return -ENOTTY;
	}
}

static long gdev_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	struct gdev_device *device = gdev_file_device(file);
	long result = -ENODEV;

	down_read(&device->presence);
	if (!READ_ONCE(device->gone))
		result = command_of(file, command, (void __user *)argument);
	up_read(&device->presence);
	return result;
}

/* ---- as an eventfd ---- */

static ssize_t gdev_read(struct file *file, char __user *buffer, size_t size, loff_t *position)
{
	struct gdev_slot *slot = gdev_file_slot(file);
	u64 events;

	if (!slot)
		return -ENOTCONN;
	if (size < sizeof(events))
		return -EINVAL;
	events = atomic64_xchg(&slot->events, 0);
	if (!events)
		return -EAGAIN;
	return copy_to_user(buffer, &events, sizeof(events)) ? -EFAULT : sizeof(events);
}

static ssize_t gdev_write(
	struct file *file, const char __user *buffer, size_t size, loff_t *position)
{
	struct gdev_slot *slot = gdev_file_slot(file);
	u64 events;

	if (!slot)
		return -ENOTCONN;
	if (size != sizeof(events) || copy_from_user(&events, buffer, sizeof(events)))
		return -EINVAL;
	atomic64_inc(&slot->events);
	wake_up_all(&slot->wait);
	return sizeof(events);
}

static __poll_t gdev_poll(struct file *file, poll_table *table)
{
	struct gdev_slot *slot = gdev_file_slot(file);
	bool dead;

	if (!slot)
		return EPOLLERR;
	poll_wait(file, &slot->wait, table);
	down_read(&slot->device->presence);
	dead = gdev_slot_dead(slot);
	up_read(&slot->device->presence);
	if (dead)
		return EPOLLHUP | EPOLLRDHUP | EPOLLIN;
	return atomic64_read(&slot->events) ? EPOLLIN | EPOLLRDNORM : 0;
}

const struct file_operations gdev_file_operations = {
	.owner = THIS_MODULE,
	.open = gdev_open,
	.release = gdev_release,
	.unlocked_ioctl = gdev_ioctl,
	.read = gdev_read,
	.write = gdev_write,
	.poll = gdev_poll,
	.mmap = gdev_mmap,
};
