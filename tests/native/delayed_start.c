/* Runs a program later: for planted outages of a restart.
 *
 * A file "delay" beside this program has three words: the program, milliseconds, and N: every Nth start is delayed (1:
 * each). Questions such as --version are answered at once. The starts are counted in a file "starts" beside it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static char *beside(const char *name)
{
	static char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 16);
	if (length < 0)
		return NULL;
	path[length] = '\0';
	strcpy(strrchr(path, '/') + 1, name);
	return path;
}

static unsigned long next_start(void)
{
	unsigned long count = 0;
	FILE *file = fopen(beside("starts"), "a+");
	if (!file)
		return 0;
	rewind(file);
	for (int character; (character = fgetc(file)) != EOF;)
		count += character == '\n';
	fputs("start\n", file);
	fclose(file);
	return count + 1;
}

int main(int argc, char **argv)
{
	char program[PATH_MAX];
	unsigned long ms, every;
	FILE *file = fopen(beside("delay"), "r");
	if (!file || fscanf(file, "%4095s %lu %lu", program, &ms, &every) != 3 || !every) {
		fprintf(stderr, "%s: no program, milliseconds and N\n", beside("delay"));
		return 127;
	}
	fclose(file);
	int asked = argc > 1 && !strcmp(argv[1], "--version");
	if (!asked && next_start() % every == 0) {
		struct timespec left = { ms / 1000, ms % 1000 * 1000000L };
		while (nanosleep(&left, &left) && errno == EINTR)
			;
	}
	execv(program, argv);
	perror(program);
	return 127;
}
