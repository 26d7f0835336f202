/* Opens files as a user that may not read all of them, and prints the error of each or a checksum of what it reads: permissions HOW FOLDER NAME... Where
   it is root it becomes another user first, or ("later") after it has opened all of them once. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static unsigned char memory[1 << 20];

static void show(const char *how, const char *name, int fd) {
    uint64_t hash = 14695981039346656037ull;
    ssize_t len = fd < 0 ? 0 : read(fd, memory, sizeof memory);
    if (fd < 0) {
        printf("%s %s %s\n", name, how, strerror(errno));
        return;
    }
    for (ssize_t at = 0; at < len; at++) hash = (hash ^ memory[at]) * 1099511628211ull;
    printf("%s %s %zd %016llx\n", name, how, len, (unsigned long long)hash);
    close(fd);
}

static void become_another(void) {
    if (geteuid() != 0) return;
    if (setgroups(0, NULL) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)) perror("setresuid"), _exit(9);
}

int main(int count, char **arguments) {
    // Names are looked for from here, as folders above may be closed to others.
    if (chdir(arguments[2])) perror("chdir");
    if (strcmp(arguments[1], "later")) become_another();
    for (int round = 0; round < 2; round++) {
        for (int index = 3; index < count; index++) {
            const char *name = arguments[index];
            struct stat s;
            show("open", name, open(name, O_RDONLY));
            show("openat", name, openat(AT_FDCWD, name, O_RDONLY | O_CLOEXEC));
            FILE *stream = fopen(name, "r");
            show("fopen", name, stream ? dup(fileno(stream)) : -1);
            if (stream) fclose(stream);
            printf("%s access %d %d\n", name, access(name, R_OK), access(name, R_OK) ? errno : 0);
            printf("%s stat %d %d\n", name, stat(name, &s), stat(name, &s) ? errno : 0);
        }
        fflush(stdout);
        become_another();
    }
    return 0;
}
