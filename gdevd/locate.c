/* SPDX-License-Identifier: MIT
 *
 * Where a device is in the machine: its place on the PCI bus, as sysfs has it, says which processors are near to it, and
 * whether it is still there. The software GPU is where gdevd is, and uses the processors that gdevd may use.
 */
#include "gdevd/daemon.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "gdevd/placement.h"

/* Properties have the numbers that CUDA gives its attributes (proto/properties.h). */
enum { PROPERTY_PCI_BUS = 33, PROPERTY_PCI_SLOT = 34, PROPERTY_PCI_DOMAIN = 50 };

/* The first line of a file in the device's folder; 0, or -1: there is none. */
static int read_line(const struct device *device, const char *name, char *line, int size)
{
	char path[sizeof device->folder + 32];
	FILE *file;
	bool read;

	snprintf(path, sizeof path, "%s/%s", device->folder, name);
	file = fopen(path, "re");
	if (!file)
		return -1;
	read = fgets(line, size, file);
	fclose(file);
	if (!read)
		return -1;
	line[strcspn(line, "\n")] = '\0';
	return 0;
}

/* As the kernel writes lists of processors: "0-3,8". What does not fit is left out. */
static void write_processors(const cpu_set_t *set, char *text, size_t size)
{
	size_t at = 0;

	*text = '\0';
	for (int first = 0, last; first < CPU_SETSIZE && at < size; first = last + 1) {
		last = first;
		if (!CPU_ISSET(first, set))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
			last++;
		at += (size_t)snprintf(text + at, size - at, last > first ? "%s%d-%d" : "%s%d",
			at ? "," : "", first, last);
	}
}

/* The folder of its card; false: it is on no bus. */
static bool find_folder(struct device *device)
{
	unsigned bus = (unsigned)device->properties[PROPERTY_PCI_BUS];
	unsigned slot = (unsigned)device->properties[PROPERTY_PCI_SLOT];
	unsigned domain = (unsigned)device->properties[PROPERTY_PCI_DOMAIN];

	snprintf(device->folder, sizeof device->folder, "/sys/bus/pci/devices/%04x:%02x:%02x.0",
		domain, bus, slot);
	if ((bus || slot || domain) && !access(device->folder, F_OK)) /* no GPU is at 0:0.0 */
		return true;
	*device->folder = '\0';
	return false;
}

void device_locate(struct device *device)
{
	char line[32];
	cpu_set_t set;

	device->node = PLACEMENT_NO_NODE;
	if (find_folder(device)) {
		if (read_line(device, "numa_node", line, sizeof line) ||
			sscanf(line, "%d", &device->node) != 1 || device->node < 0)
			device->node = PLACEMENT_NO_NODE;
		read_line(device, "local_cpulist", device->processors, sizeof device->processors);
	} else if (!sched_getaffinity(0, sizeof set, &set)) {
		write_processors(&set, device->processors, sizeof device->processors);
	}
}

bool device_is_gone(const struct device *device)
{
	return *device->folder && access(device->folder, F_OK);
}
