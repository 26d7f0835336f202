/* Changes files by every name that the library exports for that, and the same files of another folder by bare system calls. After each change both
   folders hold the same, and a descriptor that was open all the while reads the same: every_change FOLDER PLAIN, with the same files a, b, c */
#include "every.h"

#include <stdint.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <utime.h>

static const char *folders[2];
static int at[2], held[2];
static unsigned char got[1 << 20], wanted[1 << 20];

/* A name in the folder under the prefix, and in the other one. */
static const char *in(int which, const char *name) {
    static char paths[8][4096];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof *paths, "%s/%s", folders[which], name);
    return path;
}
#define MINE(name) in(0, name)
#define PLAIN(name) in(1, name)

/* What is at `name` in both folders: the same kind, mode, owner, links, length and bytes; and the same times, where these were set. */
static void alike(const char *called, const char *name, int has_times) {
    struct stat mine = bare_stat(MINE(name), AT_SYMLINK_NOFOLLOW), plain = bare_stat(PLAIN(name), AT_SYMLINK_NOFOLLOW), s = {0};
    must(called, name, mine.st_mode == plain.st_mode && mine.st_uid == plain.st_uid && mine.st_gid == plain.st_gid);
    if (plain.st_mode == 0 || S_ISDIR(plain.st_mode)) return;
    must(called, "links and length", mine.st_nlink == plain.st_nlink && mine.st_size == plain.st_size);
    must(called, "lstat", lstat(MINE(name), &s) == 0 && is_same_stat(&s, &mine));
    if (has_times) must(called, "times", memcmp(&mine.st_mtim, &plain.st_mtim, sizeof mine.st_mtim) == 0);
    if (!S_ISREG(plain.st_mode)) return;
    int fd = open(MINE(name), O_RDONLY), bare = bare_open(PLAIN(name), O_RDONLY);
    SAME(called, "length", read(fd, got, sizeof got), syscall(SYS_read, bare, wanted, sizeof wanted));
    must(called, "bytes", memcmp(got, wanted, plain.st_size) == 0);
    must(called, "fstat", fstat(fd, &s) == 0 && is_same_stat(&s, &mine));
    close(fd), bare_close(bare);
}

static void all_alike(const char *called, int has_times) {
    const char *names[] = {"a", "b", "c", "d", "e", "folder", "link"};
    for (size_t index = 0; index < sizeof names / sizeof *names; index++) alike(called, names[index], has_times);
    struct stat mine, plain;
    SAME(called, "what was open", pread(held[0], got, sizeof got, 0), syscall(SYS_pread64, held[1], wanted, sizeof wanted, 0L));
    syscall(SYS_fstat, held[1], &plain);
    must(called, "bytes of what was open", memcmp(got, wanted, plain.st_size) == 0);
    must(called, "fstat of what was open", fstat(held[0], &mine) == 0 && mine.st_size == plain.st_size && mine.st_nlink == plain.st_nlink);
}

/* A call, the bare system call for the other folder, and a look at both. */
#define BOTH(called, call, ...)                          \
    do {                                                 \
        SAME(called, #call, call, syscall(__VA_ARGS__)); \
        all_alike(called, 0);                            \
    } while (0)

static const char *part = "a part of a file that is written";

static void writes(void) {
    struct iovec parts[2] = {{(char *)part, 7}, {(char *)part + 7, 9}};
    int (*const creators[])(const char *, mode_t) = {creat, creat64};
    const char *called[] = {"creat", "creat64"};
    for (int index = 0; index < 2; index++) {
        int fd = creators[index](MINE("d"), 0640), bare = bare_open(PLAIN("d"), O_CREAT | O_WRONLY | O_TRUNC);
        syscall(SYS_fchmodat, AT_FDCWD, PLAIN("d"), 0640);
        all_alike(called[index], 0);
        SAME("read", "of one for writing", read(fd, got, 1), syscall(SYS_read, bare, wanted, 1));
        BOTH("write", write(fd, part, 20), SYS_write, bare, part, 20L);
        BOTH("pwrite", pwrite(fd, part, 10, 100), SYS_pwrite64, bare, part, 10L, 100L);
        BOTH("pwrite64", pwrite64(fd, part, 10, 5), SYS_pwrite64, bare, part, 10L, 5L);
        BOTH("writev", writev(fd, parts, 2), SYS_writev, bare, parts, 2L);
        BOTH("pwritev", pwritev(fd, parts, 2, 50), SYS_pwritev, bare, parts, 2L, 50L, 0L);
        BOTH("pwritev64", pwritev64(fd, parts, 2, 200), SYS_pwritev, bare, parts, 2L, 200L, 0L);
        BOTH("pwritev2", pwritev2(fd, parts, 2, 300, 0), SYS_pwritev2, bare, parts, 2L, 300L, 0L, 0L);
        BOTH("pwritev2", pwritev2(fd, parts, 2, -1, 0), SYS_pwritev2, bare, parts, 2L, -1L, -1L, 0L);
        BOTH("pwritev64v2", pwritev64v2(fd, parts, 2, 400, 0), SYS_pwritev2, bare, parts, 2L, 400L, 0L, 0L);
        BOTH("pwrite", pwrite(fd, part, 10, -1), SYS_pwrite64, bare, part, 10L, -1L);
        BOTH("fsync", fsync(fd), SYS_fsync, bare);
        BOTH("fdatasync", fdatasync(fd), SYS_fdatasync, bare);
        SAME("lseek", "of one for writing", lseek(fd, 0, SEEK_CUR), syscall(SYS_lseek, bare, 0L, SEEK_CUR));
        close(fd), bare_close(bare);
    }
    BOTH("creat", creat(MINE("none/x"), 0600), SYS_openat, AT_FDCWD, PLAIN("none/x"), O_CREAT | O_WRONLY, 0600);
    BOTH("creat64", creat64(folders[0], 0600), SYS_openat, AT_FDCWD, folders[1], O_CREAT | O_WRONLY, 0600);
    // Into a file that is open for reading, and perhaps on a copy.
    int fd = open(MINE("a"), O_RDWR), bare = bare_open(PLAIN("a"), O_RDWR);
    BOTH("pwrite64", pwrite64(fd, part, 30, 20000), SYS_pwrite64, bare, part, 30L, 20000L);
    close(fd), bare_close(bare);
    BOTH("truncate", truncate(MINE("a"), 30001), SYS_truncate, PLAIN("a"), 30001L);
    BOTH("truncate64", truncate64(MINE("a"), 70001), SYS_truncate, PLAIN("a"), 70001L);
    BOTH("truncate", truncate(MINE("none"), 1), SYS_truncate, PLAIN("none"), 1L);
    BOTH("truncate64", truncate64(MINE("a"), -1), SYS_truncate, PLAIN("a"), -1L);
}

static void made_anew(void) {
    static char names[8][4096];
    int fds[8], is_made = 1;
    for (int index = 0; index < 8; index++) snprintf(names[index], sizeof *names, "%s/made-XXXXXX%s", folders[0], index < 4 ? "" : ".x");
    fds[0] = mkstemp(names[0]), fds[1] = mkstemp64(names[1]), fds[2] = mkostemp(names[2], O_CLOEXEC), fds[3] = mkostemp64(names[3], O_CLOEXEC);
    fds[4] = mkstemps(names[4], 2), fds[5] = mkstemps64(names[5], 2), fds[6] = mkostemps(names[6], 2, 0), fds[7] = mkostemps64(names[7], 2, 0);
    for (int index = 0; index < 8; index++) {
        struct stat mine = bare_stat(names[index], 0), s;
        is_made &= fds[index] >= 0 && S_ISREG(mine.st_mode) && (mine.st_mode & 0777) == 0600 && fstat(fds[index], &s) == 0 && s.st_ino == mine.st_ino;
        is_made &= write(fds[index], part, 12) == 12 && pread(fds[index], got, 20, 0) == 12 && memcmp(got, part, 12) == 0;
        is_made &= fcntl(fds[index], F_GETFD) == (index == 2 || index == 3 ? FD_CLOEXEC : 0);
        must("mkstemp and its like", names[index], is_made);
        close(fds[index]), unlink(names[index]);
    }
    SAME("mkstemp", "of an odd name", mkstemp((char[]){"/tmp/odd"}), (errno = EINVAL, -1));
}

static void entries(void) {
    BOTH("rename", rename(MINE("b"), MINE("d")), SYS_renameat2, AT_FDCWD, PLAIN("b"), AT_FDCWD, PLAIN("d"), 0L);
    BOTH("renameat", renameat(at[0], "d", at[0], "b"), SYS_renameat2, at[1], "d", at[1], "b", 0L);
    BOTH("renameat2", renameat2(at[0], "b", at[0], "c", 2), SYS_renameat2, at[1], "b", at[1], "c", 2L);
    BOTH("renameat2", renameat2(at[0], "b", at[0], "c", 1), SYS_renameat2, at[1], "b", at[1], "c", 1L);
    BOTH("rename", rename(MINE("none"), MINE("d")), SYS_renameat2, AT_FDCWD, PLAIN("none"), AT_FDCWD, PLAIN("d"), 0L);
    BOTH("link", link(MINE("b"), MINE("d")), SYS_linkat, AT_FDCWD, PLAIN("b"), AT_FDCWD, PLAIN("d"), 0L);
    BOTH("link", link(MINE("b"), MINE("d")), SYS_linkat, AT_FDCWD, PLAIN("b"), AT_FDCWD, PLAIN("d"), 0L);
    BOTH("linkat", linkat(at[0], "c", at[0], "e", 0), SYS_linkat, at[1], "c", at[1], "e", 0L);
    BOTH("unlink", unlink(MINE("d")), SYS_unlinkat, AT_FDCWD, PLAIN("d"), 0L);
    BOTH("unlinkat", unlinkat(at[0], "e", 0), SYS_unlinkat, at[1], "e", 0L);
    BOTH("unlinkat", unlinkat(at[0], "e", 0), SYS_unlinkat, at[1], "e", 0L);
    BOTH("symlink", symlink("a", MINE("link")), SYS_symlinkat, "a", AT_FDCWD, PLAIN("link"));
    BOTH("symlinkat", symlinkat("b", at[0], "e"), SYS_symlinkat, "b", at[1], "e");
    BOTH("symlinkat", symlinkat("b", at[0], "e"), SYS_symlinkat, "b", at[1], "e");
    BOTH("remove", remove(MINE("e")), SYS_unlinkat, AT_FDCWD, PLAIN("e"), 0L);
    BOTH("mkdir", mkdir(MINE("folder"), 0750), SYS_mkdirat, AT_FDCWD, PLAIN("folder"), 0750L);
    BOTH("mkdir", mkdir(MINE("folder"), 0750), SYS_mkdirat, AT_FDCWD, PLAIN("folder"), 0750L);
    BOTH("unlink", unlink(MINE("folder")), SYS_unlinkat, AT_FDCWD, PLAIN("folder"), 0L);
    BOTH("rmdir", rmdir(MINE("folder")), SYS_unlinkat, AT_FDCWD, PLAIN("folder"), AT_REMOVEDIR);
    BOTH("mkdirat", mkdirat(at[0], "folder", 0700), SYS_mkdirat, at[1], "folder", 0700L);
    BOTH("renameat", renameat(at[0], "c", at[0], "folder/c"), SYS_renameat2, at[1], "c", at[1], "folder/c", 0L);
    BOTH("rmdir", rmdir(MINE("folder")), SYS_unlinkat, AT_FDCWD, PLAIN("folder"), AT_REMOVEDIR);
    BOTH("rename", rename(MINE("folder/c"), MINE("c")), SYS_renameat2, AT_FDCWD, PLAIN("folder/c"), AT_FDCWD, PLAIN("c"), 0L);
    BOTH("unlinkat", unlinkat(at[0], "folder", AT_REMOVEDIR), SYS_unlinkat, at[1], "folder", AT_REMOVEDIR);
    BOTH("remove", remove(MINE("folder")), SYS_unlinkat, AT_FDCWD, PLAIN("folder"), 0L);
}

static void attributes(int fd, int bare) {
    BOTH("chmod", chmod(MINE("a"), 0604), SYS_fchmodat, AT_FDCWD, PLAIN("a"), 0604L);
    BOTH("fchmod", fchmod(fd, 0640), SYS_fchmod, bare, 0640L);
    BOTH("fchmodat", fchmodat(at[0], "a", 0644, 0), SYS_fchmodat, at[1], "a", 0644L);
    BOTH("chmod", chmod(MINE("none"), 0644), SYS_fchmodat, AT_FDCWD, PLAIN("none"), 0644L);
    // Whoever is not root may name itself alone.
    uid_t user = geteuid() ? geteuid() : 12;
    gid_t group = geteuid() ? getegid() : 34;
    BOTH("chown", chown(MINE("link"), user, group), SYS_fchownat, AT_FDCWD, PLAIN("link"), user, group, 0L);
    BOTH("fchown", fchown(fd, -1, getegid()), SYS_fchown, bare, -1, getegid());
    BOTH("lchown", lchown(MINE("link"), user, group), SYS_fchownat, AT_FDCWD, PLAIN("link"), user, group, AT_SYMLINK_NOFOLLOW);
    BOTH("fchownat", fchownat(at[0], "b", user, group, 0), SYS_fchownat, at[1], "b", user, group, 0L);
    const char *mark = "user.forebay";
    // The other one gets the same by a bare call.
#define MARKED(called, call, set, which, ...)                                                                        \
    BOTH(called, call, set, which, mark, ##__VA_ARGS__);                                                             \
    SAME(called, "read by " called, getxattr(MINE("a"), mark, got, 64), syscall(SYS_getxattr, PLAIN("a"), mark, wanted, 64L))
    MARKED("setxattr", setxattr(MINE("link"), mark, "one", 3, 0), SYS_setxattr, PLAIN("link"), "one", 3L, 0L);
    MARKED("lsetxattr", lsetxattr(MINE("a"), mark, "three", 5, XATTR_CREATE), SYS_lsetxattr, PLAIN("a"), "three", 5L, (long)XATTR_CREATE);
    MARKED("lremovexattr", lremovexattr(MINE("a"), mark), SYS_lremovexattr, PLAIN("a"));
    MARKED("fsetxattr", fsetxattr(fd, mark, "three", 5, 0), SYS_fsetxattr, bare, "three", 5L, 0L);
    MARKED("fremovexattr", fremovexattr(fd, mark), SYS_fremovexattr, bare);
    MARKED("removexattr", removexattr(MINE("a"), mark), SYS_removexattr, PLAIN("a"));
}

static void times(int fd, int bare) {
    static struct timespec both[2];
    static struct timeval micros[2];
    long second = 1000000000;
    struct utimbuf seconds;
#define TIMED(called, call, folder, name, flags)                                                                                      \
    second += 1000, micros[0] = micros[1] = (struct timeval){second, 123456}, seconds = (struct utimbuf){second, second};             \
    both[0] = both[1] = (struct timespec){second, strcmp(called, "utime") ? 123456000 : 0};                                           \
    SAME(called, #call, call, syscall(SYS_utimensat, folder, name, both, flags));                                                     \
    alike(called, "a", 1), alike(called, "link", 1), all_alike(called, 0)
    TIMED("utime", utime(MINE("a"), &seconds), AT_FDCWD, PLAIN("a"), 0L);
    TIMED("utimes", utimes(MINE("link"), micros), AT_FDCWD, PLAIN("link"), 0L);
    TIMED("lutimes", lutimes(MINE("link"), micros), AT_FDCWD, PLAIN("link"), AT_SYMLINK_NOFOLLOW);
    TIMED("futimes", futimes(fd, micros), bare, NULL, 0L);
    TIMED("futimens", futimens(fd, both), bare, NULL, 0L);
    TIMED("futimesat", futimesat(at[0], "a", micros), at[1], "a", 0L);
    TIMED("utimensat", utimensat(at[0], "link", both, AT_SYMLINK_NOFOLLOW), at[1], "link", AT_SYMLINK_NOFOLLOW);
    TIMED("utimes", utimes(MINE("none"), micros), AT_FDCWD, PLAIN("none"), 0L);
}

int main(int count, char **arguments) {
    for (int which = 0; which < 2; which++) {
        folders[which] = arguments[1 + which];
        at[which] = bare_open(folders[which], O_RDONLY | O_DIRECTORY);
    }
    umask(0);
    held[0] = open(MINE("a"), O_RDONLY), held[1] = bare_open(PLAIN("a"), O_RDONLY);
    all_alike("nothing", 0);
    int fd = open(MINE("a"), O_RDONLY);
    entries();
    attributes(fd, held[1]), times(fd, held[1]);
    made_anew(), writes();
    attributes(fd, held[1]), times(fd, held[1]);
    unlink(MINE("a")), syscall(SYS_unlinkat, AT_FDCWD, PLAIN("a"), 0L);
    all_alike("unlink", 0);
    return ended();
}
