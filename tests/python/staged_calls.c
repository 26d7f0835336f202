/* Calls on names of files that may be staged: prints what each gives, so that runs can be compared. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static void say(const char *what, long answer) { printf("%s %ld %s\n", what, answer, answer < 0 ? strerror(errno) : ""); }

static void show(const char *name)
{
    struct stat facts;
    char text[64] = {0};
    int fd = open(name, O_RDONLY);
    if (fd < 0 || stat(name, &facts) < 0) {
        printf("%s: %s\n", name, strerror(errno));
        return;
    }
    ssize_t len = read(fd, text, sizeof text - 1);
    printf("%s: %o %ld '%.*s'\n", name, (unsigned)facts.st_mode, (long)facts.st_size, (int)len, text);
    close(fd);
}

static int names(const char *folder)
{
    DIR *opened = opendir(folder);
    int count = 0;
    while (opened && readdir(opened))
        count++;
    if (opened)
        closedir(opened);
    return count;
}

int main(void)
{
    char text[16] = {0};
    int fd = open("a", O_CREAT | O_EXCL | O_RDWR, 0640);
    say("write", write(fd, "alpha", 5));
    say("again", open("a", O_CREAT | O_EXCL | O_WRONLY, 0600));
    say("mkdir", mkdir("a", 0700));
    say("symlink", symlink("x", "a"));
    int other = dup(fd);
    if (fork() == 0) {
        say("child", write(other, "-child", 6));
        fflush(stdout);
        _exit(0);
    }
    wait(NULL);
    say("pread", pread(fd, text, 15, 0));
    printf("%s\n", text);
    show("a");
    say("chmod", chmod("a", 0600));
    close(fd);
    show("a");
    say("rename while open", rename("a", "b"));
    say("write", write(other, "!", 1));
    close(other);
    show("a");
    show("b");
    say("access", access("b", R_OK));
    say("access", access("a", R_OK));
    FILE *stream = fopen("b", "a");
    fprintf(stream, "more");
    fclose(stream);
    show("b");
    stream = fopen("c", "w+");
    fprintf(stream, "%d", 12345);
    rewind(stream);
    say("fscanf", fscanf(stream, "%3s", text));
    printf("%s\n", text);
    fclose(stream);
    stream = fopen("c", "wx");
    printf("wx %s\n", stream ? "opened" : strerror(errno));
    say("truncate", truncate("c", 2));
    struct timeval times[2] = {{1000, 0}, {2000, 0}};
    say("utimes", utimes("c", times));
    show("c");
    fd = creat("d", 0444);
    say("ftruncate", ftruncate(fd, 8192));
    close(fd);
    fd = open("e", O_CREAT | O_TRUNC | O_RDWR, 0644);
    say("ftruncate", ftruncate(fd, 8192));
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    memcpy(map, "mapped", 6);
    show("e");
    memcpy(map + 4096, "late", 4);
    munmap(map, 8192);
    say("lseek", lseek(open("e", O_RDONLY), 0, SEEK_END));
    mkdir("f", 0755);
    close(open("f/x", O_CREAT | O_TRUNC | O_WRONLY, 0644));
    say("rmdir", rmdir("f"));
    say("names", names("f"));
    say("rename a folder", rename("f", "g"));
    show("g/x");
    say("link", link("g/x", "h"));
    say("unlink", unlink("g/x"));
    show("g/x");
    say("rmdir", rmdir("g"));
    say("names", names("."));
    fd = open("i", O_WRONLY | O_TRUNC);
    say("not there", fd);
    say("nowhere", open("no/such", O_CREAT | O_TRUNC | O_WRONLY, 0600));
    fd = open("i", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    say("write", write(fd, "gone", 4));
    say("unlink", unlink("i"));
    say("write", write(fd, "gone", 4));
    close(fd);
    show("i");
    symlink("c", "l");
    show("l");
    char *path = realpath("l", NULL);
    printf("%s\n", path ? strrchr(path, '/') : strerror(errno));
    fd = open("l", O_WRONLY | O_TRUNC);
    say("write by a link", write(fd, "by a link", 9));
    say("fsync", fsync(fd));
    close(fd);
    show("c");
    return 0;
}
