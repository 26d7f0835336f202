/* Closes every number, or opens as many files as there are numbers, and reads on. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned char memory[1 << 22];

static void show(const char *what, int fd) {
    uint64_t hash = 14695981039346656037ull;
    ssize_t len = pread(fd, memory, sizeof memory, 0);
    for (ssize_t at = 0; at < len; at++) hash = (hash ^ memory[at]) * 1099511628211ull;
    printf("%s %zd %016llx\n", what, len, (unsigned long long)hash);
    fflush(stdout);
}

/* A program that takes all files of its own numbers and finds what it wrote there. */
static void own_files(const char *folder) {
    int files[40];
    char name[4096], bytes[8];
    for (int index = 0; index < 40; index++) {
        snprintf(name, sizeof name, "%s/own-%d-%d", folder, getpid(), index);
        files[index] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        unlink(name);
        pwrite(files[index], "my own.", 8, 0);
    }
    usleep(300000);
    for (int index = 0; index < 40; index++) {
        struct stat s;
        fstat(files[index], &s);
        if (pread(files[index], bytes, 8, 0) != 8 || strcmp(bytes, "my own.") || s.st_size != 8) printf("another wrote to %d\n", index);
        if (close(files[index]) != 0) printf("%d was closed\n", index);
    }
}

int main(int count, char **arguments) {
    const char *how = arguments[1], *outside = arguments[2];
    char **paths = arguments + 3;
    int kept = open(paths[0], O_RDONLY), closed = open(paths[1], O_RDONLY);
    show("before", kept), pread(closed, memory, 1000, 900000);
    if (strcmp(how, "loop") == 0)
        for (int fd = closed; fd < sysconf(_SC_OPEN_MAX); fd++) close(fd);
    if (strcmp(how, "range") == 0) close_range(closed, ~0u, 0);
    if (strcmp(how, "from") == 0) closefrom(closed);
    if (strcmp(how, "listed") == 0) {
        int found[4096], len = 0;
        DIR *folder = opendir("/proc/self/fd");
        for (struct dirent *entry; (entry = readdir(folder)) && len < 4096;) {
            int fd = atoi(entry->d_name);
            if (fd >= closed && fd != dirfd(folder)) found[len++] = fd;
        }
        closedir(folder);
        for (int index = 0; index < len; index++) close(found[index]);
    }
    if (strcmp(how, "many") == 0) {
        int many = 0;
        while (many < 100000 && open(many % 2 ? paths[many % 3] : "/dev/null", O_RDONLY) >= 0) many++;
        printf("opened %d %d\n", many, errno);
        printf("dup %d %d\n", dup(kept), errno);
        show("after", kept);
        return 0;
    }
    own_files(outside);
    show("kept", kept);
    int fd = open(paths[1], O_RDONLY);
    printf("number %d\n", fd);
    show("opened after", fd);
    show("a third", open(paths[2], O_RDONLY));
    printf("closed twice %d %d\n", close(fd), close(fd));
    return 0;
}
